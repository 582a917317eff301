//! The portal's files, embedded in the binary. They are public and contain no data.
//!
//! ```text
//!   /assets/<name>-<hash>.<ext>    the file, cached for ever; 404 if there is none
//!   a file of the build            the file, revalidated each time (ETag)
//!   / and any path for text/html   index.html: the page does its own routing
//!   /v1, other methods, the rest   not handled here
//! ```
//!
//! A debug build reads the files from `portal/dist` at run time. Nothing here depends on the caller.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::http::security_headers::is_api;
use crate::server::Server;

const NOT_BUILT: &str = "the portal is not built: run cargo xtask portal\n";
const NO_SUCH_FILE: &str = "there is no such file\n";
/// The content behind a name with a hash never changes.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Cached, but revalidated before each use.
const ASK_FIRST: HeaderValue = HeaderValue::from_static("no-cache");

/// A file of the portal.
struct File {
    content: Cow<'static, [u8]>,
    sha256: [u8; 32],
}

/// Middleware around everything but health: answers requests for the portal.
pub async fn serve(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let Some(response) = answer(embedded, request.method(), request.uri().path(), request.headers()) else {
        return next.run(request).await;
    };
    server.metrics().answered(request.method(), "portal", response.status().as_u16(), started.elapsed());
    response
}

/// The portal's answer, if the request is for it.
fn answer(
    find: impl Fn(&str) -> Option<File>,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Option<Response> {
    if !matches!(*method, Method::GET | Method::HEAD) || is_api(path) {
        return None;
    }
    let name = path.strip_prefix('/')?;
    if is_plain(name)
        && let Some(file) = find(name)
    {
        return Some(found(file, name, headers));
    }
    if name.starts_with("assets/") {
        return Some((StatusCode::NOT_FOUND, NO_SUCH_FILE).into_response());
    }
    if !name.is_empty() && !wants_html(headers) {
        return None;
    }
    let mut response = match find("index.html") {
        Some(index) => found(index, "index.html", headers),
        None => (StatusCode::SERVICE_UNAVAILABLE, NOT_BUILT).into_response(),
    };
    response.headers_mut().append(VARY, HeaderValue::from_static("accept"));
    Some(response)
}

fn found(file: File, name: &str, headers: &HeaderMap) -> Response {
    let tag = entity_tag(&file.sha256);
    let is_known = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|known| known.trim() == tag || known.trim() == "*");
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let content = match file.content {
            Cow::Borrowed(content) => Bytes::from_static(content),
            Cow::Owned(content) => Bytes::from(content),
        };
        let mut response = Response::new(Body::from(content));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type(name)));
        response
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, HeaderValue::try_from(tag).expect("hexadecimal digits are for headers"));
    headers.insert(CACHE_CONTROL, if name.starts_with("assets/") { FOR_EVER } else { ASK_FIRST });
    response
}

/// Weak, because the same file goes out with and without compression.
fn entity_tag(sha256: &[u8; 32]) -> String {
    let mut tag = String::from("W/\"");
    // 128 bits tell the versions of one file apart.
    for byte in &sha256[..16] {
        write!(tag, "{byte:02x}").expect("writing to a string does not fail");
    }
    tag.push('"');
    tag
}

/// Names in the form that the build makes, which cannot leave the folder.
fn is_plain(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    name.bytes().all(is_fine) && name.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
}

/// A browser that opens a page asks for HTML; a script that fetches something accepts all types alike.
fn wants_html(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| value.to_str().is_ok_and(|value| value.contains("text/html")))
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[derive(rust_embed::RustEmbed)]
#[folder = "../../../portal/dist"]
#[allow_missing = true]
struct Dist;

fn embedded(name: &str) -> Option<File> {
    let file = Dist::get(name)?;
    Some(File { content: file.data, sha256: file.metadata.sha256_hash() })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
    use http::{HeaderMap, HeaderValue, Method, StatusCode};
    use sha2::{Digest, Sha256};

    use super::{File, answer};

    const HTML: &str = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";

    fn built(name: &str) -> Option<File> {
        let content = match name {
            "index.html" => "<!doctype html>",
            "assets/index-1a2b.js" => "start()",
            "favicon.svg" => "<svg/>",
            _ => return None,
        };
        Some(File { content: Cow::Borrowed(content.as_bytes()), sha256: Sha256::digest(content).into() })
    }

    fn headers(accept: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))])
    }

    fn get(path: &str, accept: &'static str) -> Option<(u16, String, String)> {
        let response = answer(built, &Method::GET, path, &headers(accept))?;
        let text = |name| {
            response
                .headers()
                .get(name)
                .map_or(String::new(), |value| value.to_str().expect("ASCII").to_owned())
        };
        Some((response.status().as_u16(), text(CONTENT_TYPE), text(CACHE_CONTROL)))
    }

    #[test]
    fn a_page_is_index_html_whatever_its_path() {
        let page = Some((200, "text/html; charset=utf-8".to_owned(), "no-cache".to_owned()));
        for path in ["/", "/runs", "/runs/nlp/train.7", "/queues/", "/v10", "/../etc/passwd", "/%2e%2e/x"] {
            assert_eq!(get(path, HTML), page, "{path}");
        }
        assert_eq!(get("/", "*/*"), page, "the front page is for everybody");
        assert_eq!(get("/index.html", "*/*"), page);
    }

    #[test]
    fn files_with_a_hash_are_kept_for_ever_and_others_are_asked_about() {
        let script = get("/assets/index-1a2b.js", "*/*").expect("it is a file");
        assert_eq!(script.1, "text/javascript; charset=utf-8");
        assert_eq!(script.2, "public, max-age=31536000, immutable");
        assert_eq!(
            get("/favicon.svg", "*/*"),
            Some((200, "image/svg+xml".to_owned(), "no-cache".to_owned()))
        );
    }

    #[test]
    fn a_file_that_is_gone_is_no_page() {
        // A page in place of a script would be read as a broken script, and cached.
        for accept in ["*/*", HTML] {
            assert_eq!(get("/assets/index-0000.js", accept).map(|answer| answer.0), Some(404));
        }
    }

    #[test]
    fn the_api_and_what_is_no_page_are_left_to_others() {
        for path in ["/v1", "/v1/runs", "/v1/nothing"] {
            assert_eq!(get(path, HTML), None, "{path}");
        }
        assert_eq!(get("/nothing", "*/*"), None);
        assert_eq!(get("/nothing", "application/json"), None);
        for method in [Method::POST, Method::DELETE, Method::OPTIONS] {
            assert!(answer(built, &method, "/", &headers(HTML)).is_none(), "{method}");
        }
    }

    #[test]
    fn what_the_browser_has_already_is_not_sent_again() {
        let first = answer(built, &Method::GET, "/", &headers(HTML)).expect("a page");
        let tag = first.headers()[ETAG].clone();
        let mut known = headers(HTML);
        known.insert(IF_NONE_MATCH, tag.clone());
        let again = answer(built, &Method::HEAD, "/runs", &known).expect("a page");
        assert_eq!((again.status(), &again.headers()[ETAG]), (StatusCode::NOT_MODIFIED, &tag));
        known.insert(IF_NONE_MATCH, HeaderValue::from_static("W/\"0\""));
        assert_eq!(answer(built, &Method::GET, "/", &known).expect("a page").status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn a_portal_that_is_not_built_says_how_to_build_it() {
        let response = answer(|_| None, &Method::GET, "/", &headers(HTML)).expect("a page");
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = axum::body::to_bytes(response.into_body(), 1_000).await.expect("the body is in memory");
        assert_eq!(body, "the portal is not built: run cargo xtask portal\n");
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for name in ["../x", "a/../b", ".env", "a/.git", "/etc/passwd", "a//b", "a%2fb", "a\\b", ""] {
            assert!(!super::is_plain(name), "{name}");
        }
        assert!(super::is_plain("assets/index-Ab_1.js"));
    }
}
