//! Writes and reads the session's cookie.
//!
//! `__Host-`: the browser takes it only with `Secure`, without `Domain` and for all paths, so no neighbouring host
//! can set or read it. `HttpOnly`: no script reads it. `SameSite=Strict`: no other site makes the browser send it.

use http::{HeaderMap, HeaderValue, header};

use crate::http::problem::ApiError;
use crate::session::secret::Secret;
use crate::session::store::LIFETIME;

/// The cookie's name.
pub const NAME: &str = "__Host-warpyard-session";

/// Whether the request has the cookie, well-formed or not.
pub fn is_present(headers: &HeaderMap) -> bool {
    values(headers).next().is_some()
}

/// The secret in the cookie.
pub fn read(headers: &HeaderMap) -> Result<Secret, ApiError> {
    let mut values = values(headers);
    match (values.next().and_then(Secret::from_text), values.next()) {
        (Some(secret), None) => Ok(secret),
        // A browser sends at most one; two are an attempt to inject one.
        (_, Some(_)) => Err(not_ours("the request has several session cookies")),
        (None, None) => Err(not_ours("the session cookie is not one of this server")),
    }
}

/// The header that gives the browser its secret.
pub fn set(secret: &Secret) -> HeaderValue {
    header(&secret.to_text(), LIFETIME.as_secs())
}

/// The header that removes it.
pub fn clear() -> HeaderValue {
    header("", 0)
}

fn header(value: &str, seconds: u64) -> HeaderValue {
    let text = format!("{NAME}={value}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={seconds}");
    let mut header = HeaderValue::try_from(text).expect("base64url is made of characters for headers");
    header.set_sensitive(true);
    header
}

/// Every cookie with our name. The case matters: browsers guarantee `__Host-` only in this spelling.
fn values(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter_map(|(name, value)| (name == NAME).then_some(value))
}

fn not_ours(detail: &str) -> ApiError {
    ApiError::unauthorized(detail).hint("log in again")
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};

    use super::{NAME, clear, is_present, read, set};
    use crate::session::secret::Secret;

    fn headers(cookies: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers
                .append(header::COOKIE, HeaderValue::from_str(cookie).expect("the test's header is valid"));
        }
        headers
    }

    #[test]
    fn the_cookie_has_exactly_these_flags() {
        let secret = Secret::random();
        assert_eq!(
            set(&secret).to_str().expect("ASCII"),
            format!(
                "__Host-warpyard-session={}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=43200",
                secret.to_text()
            )
        );
        assert_eq!(
            clear().to_str().expect("ASCII"),
            "__Host-warpyard-session=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0"
        );
        assert!(set(&secret).is_sensitive(), "logs of headers leave it out");
    }

    #[test]
    fn it_is_found_among_others() {
        let secret = Secret::random();
        let ours = format!("{NAME}={}", secret.to_text());
        for cookies in [vec![ours.clone()], vec![format!("theme=dark; {ours};a=b")], vec!["a=b".into(), ours]]
        {
            let headers = headers(&cookies.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(read(&headers).is_ok_and(|read| read == secret), "{cookies:?}");
        }
    }

    #[test]
    fn two_of_them_or_a_strange_one_are_refused() {
        let one = format!("{NAME}={}", Secret::random().to_text());
        let two = format!("{NAME}={}", Secret::random().to_text());
        let long = format!("{NAME}={}", "a".repeat(10_000));
        for cookies in [format!("{one}; {two}"), format!("{one}; {one}"), format!("{NAME}="), long] {
            let headers = headers(&[&cookies]);
            assert!(is_present(&headers) && read(&headers).is_err(), "{cookies}");
        }
    }

    #[test]
    fn other_cookies_are_none_of_ours() {
        let secret = Secret::random().to_text();
        for cookie in
            [format!("warpyard-session={secret}"), format!("__host-warpyard-session={secret}"), "a".into()]
        {
            assert!(!is_present(&headers(&[&cookie])), "{cookie}");
        }
    }
}
