//! Security headers for the browser, on every answer: pages, JSON, files, errors.
//!
//! Scripts, styles, images and connections only from this origin; no inline script or style; no framing; no
//! caching of the API's answers.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue};

/// What a page of ours may load and do. `data:` is for small images in style sheets.
pub const CONTENT_SECURITY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'";

/// Browser features, all of which the portal does without.
const PERMISSIONS: &str = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), \
     magnetometer=(), microphone=(), midi=(), payment=(), publickey-credentials-get=(), screen-wake-lock=(), \
     usb=(), xr-spatial-tracking=()";

const ALWAYS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, CONTENT_SECURITY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), PERMISSIONS),
];

/// A year. Sent only where TLS is in front: a browser would not come back to plain HTTP on loopback.
const TRANSPORT_SECURITY: &str = "max-age=31536000";

/// Whether the path belongs to the API and not to the portal.
pub fn is_api(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

/// Middleware around everything.
pub async fn add(behind_tls: bool, request: Request, next: Next) -> Response {
    let is_api = is_api(request.uri().path());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if behind_tls {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(TRANSPORT_SECURITY));
    }
    // Answers of the API depend on the caller. Other answers set their own cache time.
    if is_api || !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use http::Request;
    use http::header::CACHE_CONTROL;
    use tower::ServiceExt;

    use super::{CONTENT_SECURITY, is_api};

    #[tokio::test]
    async fn answers_of_the_api_are_never_kept_whatever_the_route_says() {
        let kept = || get(|| async { ([(CACHE_CONTROL, "max-age=9")], "kept") });
        let router = Router::new().route("/v1/events", kept()).route("/assets/x.js", kept());
        let router = router.layer(from_fn(|request, next| super::add(false, request, next)));
        for (path, expect) in
            [("/v1/events", "no-store"), ("/assets/x.js", "max-age=9"), ("/none", "no-store")]
        {
            let request = Request::get(path).body(Body::empty()).expect("the test's request is valid");
            let response = router.clone().oneshot(request).await.expect("the router is infallible");
            assert_eq!(response.headers()[CACHE_CONTROL], expect, "{path}");
        }
    }

    #[test]
    fn the_policy_allows_nothing_inline_and_nothing_from_elsewhere() {
        for directive in CONTENT_SECURITY.split(';') {
            let mut words = directive.split_whitespace();
            let name = words.next().expect("a directive has a name");
            let allowed: Vec<&str> = words.collect();
            let expect: &[&str] = match name {
                "default-src" | "base-uri" | "frame-ancestors" => &["'none'"],
                "img-src" => &["'self'", "data:"],
                _ => &["'self'"],
            };
            assert_eq!(allowed, expect, "{name}");
        }
    }

    #[test]
    fn the_api_is_what_is_under_v1() {
        for (path, expect) in
            [("/v1", true), ("/v1/runs", true), ("/v10/runs", false), ("/", false), ("/runs/v1/", false)]
        {
            assert_eq!(is_api(path), expect, "{path}");
        }
    }
}
