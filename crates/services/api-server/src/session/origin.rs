//! Whether a request with the cookie comes from our own pages, by the browser's headers.
//!
//! ```text
//!   Sec-Fetch-Site     writes and login        reads
//!   same-origin        yes                     yes
//!   none               no                      yes: the person typed the address
//!   same-site, cross-site, anything else       no
//!   absent             Origin must be ours     yes: the cookie is SameSite=Strict, and no other origin may read
//! ```
//!
//! A page can set neither header. `SameSite` alone is not enough: another port or a neighbouring host name is
//! the same *site*. Clients other than browsers have bearer tokens, and are not checked.

use http::uri::Authority;
use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};

use crate::http::problem::ApiError;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request with the cookie that another site caused.
pub fn require_ours(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    if !method.is_safe() {
        return require_our_page(headers);
    }
    match single(headers, &SEC_FETCH_SITE) {
        Single::Absent | Single::Text("same-origin" | "none") => Ok(()),
        Single::Text(_) | Single::Several => Err(cross_site("another site caused the request")),
    }
}

/// Refuses a request that no page of ours has sent: for writes, and for the login itself.
pub fn require_our_page(headers: &HeaderMap) -> Result<(), ApiError> {
    match single(headers, &SEC_FETCH_SITE) {
        Single::Text("same-origin") => return Ok(()),
        Single::Text(_) | Single::Several => return Err(cross_site("another site caused the request")),
        Single::Absent => {}
    }
    match (single(headers, &header::ORIGIN), single(headers, &header::HOST)) {
        (Single::Text(origin), Single::Text(host)) if is_same(origin, host) => Ok(()),
        (Single::Absent, _) => Err(cross_site("the request does not say which page it comes from")),
        _ => Err(cross_site("the request comes from another origin")),
    }
}

enum Single<'a> {
    Absent,
    Text(&'a str),
    Several,
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Single<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Single::Absent,
        // A header that is not text equals no accepted value.
        (Some(value), None) => Single::Text(value.to_str().unwrap_or_default()),
        (Some(_), Some(_)) => Single::Several,
    }
}

/// Whether host and port are the same. The scheme is not compared: a proxy may have terminated TLS.
fn is_same(origin: &str, host: &str) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    let default_port = match origin.scheme_str() {
        Some("https") => 443,
        Some("http") => 80,
        _ => return false,
    };
    let (Some(origin), Ok(host)) = (origin.authority(), host.parse::<Authority>()) else { return false };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default_port);
    origin.host().eq_ignore_ascii_case(host.host()) && port(origin) == port(&host)
}

fn cross_site(detail: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "CrossSite", detail).hint(
        "a session works on the portal's own pages only; other clients send `Authorization: Bearer <token>`",
    )
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue, Method};

    use super::require_ours;

    fn accepts(method: &Method, headers: &[(&'static str, &'static str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let result = require_ours(method, &map);
        assert!(
            result.as_ref().err().is_none_or(|error| error.0.status == 403 && error.0.code == "CrossSite")
        );
        result.is_ok()
    }

    #[test]
    fn a_write_must_come_from_our_own_origin_and_a_read_not_from_another() {
        let host = ("host", "portal.example:8443");
        for (headers, write, read) in [
            (vec![("sec-fetch-site", "same-origin")], true, true),
            (vec![("sec-fetch-site", "none")], false, true),
            (vec![("sec-fetch-site", "same-site")], false, false),
            (vec![("sec-fetch-site", "cross-site")], false, false),
            (vec![("sec-fetch-site", "")], false, false),
            (vec![("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], false, false),
            // `Sec-Fetch-Site` takes precedence over `Origin`.
            (
                vec![("sec-fetch-site", "cross-site"), ("origin", "https://portal.example:8443"), host],
                false,
                false,
            ),
            (vec![("sec-fetch-site", "same-origin"), ("origin", "https://else.example"), host], true, true),
            (vec![host], false, true),
            (vec![], false, true),
        ] {
            assert_eq!(accepts(&Method::GET, &headers), read, "read {headers:?}");
            assert_eq!(accepts(&Method::HEAD, &headers), read, "read {headers:?}");
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert_eq!(accepts(&method, &headers), write, "{method} {headers:?}");
            }
        }
    }

    #[test]
    fn without_sec_fetch_site_host_and_port_of_the_origin_decide() {
        for (origin, host, expect) in [
            ("https://portal.example", "portal.example", true),
            ("https://portal.example", "Portal.Example:443", true),
            ("https://portal.example:443", "portal.example", true),
            ("http://127.0.0.1:8080", "127.0.0.1:8080", true),
            ("http://[::1]:8080", "[::1]:8080", true),
            ("http://127.0.0.1:8081", "127.0.0.1:8080", false),
            ("http://127.0.0.1", "127.0.0.1:8080", false),
            ("http://portal.example", "portal.example:443", false),
            ("https://evil.example", "portal.example", false),
            ("https://portal.example.evil.example", "portal.example", false),
            ("https://evil.portal.example", "portal.example", false),
            ("null", "portal.example", false),
            ("", "portal.example", false),
            ("portal.example", "portal.example", false),
            ("file://portal.example", "portal.example", false),
            ("https://portal.example", "", false),
            ("https://portal.example", "portal.example, evil.example", false),
        ] {
            assert_eq!(
                accepts(&Method::POST, &[("origin", origin), ("host", host)]),
                expect,
                "{origin} {host}"
            );
        }
        let two = [("origin", "https://a.example"), ("origin", "https://b.example"), ("host", "a.example")];
        assert!(!accepts(&Method::POST, &two), "two origins are none");
    }
}
