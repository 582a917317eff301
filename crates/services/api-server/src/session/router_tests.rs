//! Sessions, and what protects a browser, through the whole router against the stand-in for Kubernetes.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use futures::stream;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, SET_COOKIE, STRICT_TRANSPORT_SECURITY,
};
use http::request::Builder;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::http::security_headers::CONTENT_SECURITY;
use crate::router::router;
use crate::router_tests::{JOB_FILE, api, operations, server};
use crate::session::cookie::NAME;
use crate::session::secret::Secret;

const OURS: (&str, &str) = ("sec-fetch-site", "same-origin");

fn request(method: &Method, path: &str, headers: &[(&str, &str)]) -> Builder {
    let request = Request::builder().method(method).uri(path).header("host", "portal.example");
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}

async fn send(api: &Router, request: Builder, body: impl Into<Body>) -> Response<Body> {
    let request = request.body(body.into()).expect("the test's request is valid");
    api.clone().oneshot(request).await.expect("the router is infallible")
}

async fn problem_code(response: Response<Body>) -> (u16, String) {
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 1_000_000).await.expect("the body is in memory");
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    (status, problem["code"].as_str().unwrap_or_default().to_owned())
}

async fn login(api: &Router, token: &str, headers: &[(&str, &str)]) -> Response<Body> {
    let request = request(&Method::POST, "/v1/session", headers).header("content-type", "application/json");
    send(api, request, json!({ "token": token }).to_string()).await
}

/// The `Cookie` header of a browser that logged in as alice.
async fn session(api: &Router, headers: &[(&str, &str)]) -> String {
    let response = login(api, "alices", &[headers, &[OURS]].concat()).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    let cookies: Vec<_> = response.headers().get_all(SET_COOKIE).iter().collect();
    assert_eq!(cookies.len(), 1);
    let text = cookies[0].to_str().expect("a cookie is ASCII");
    let (pair, flags) = text.split_once(';').expect("a cookie has flags");
    assert_eq!(flags, " Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=43200");
    assert!(pair.strip_prefix(&format!("{NAME}=")).and_then(Secret::from_text).is_some(), "{pair}");
    pair.to_owned()
}

async fn whoami(api: &Router, cookie: &str) -> StatusCode {
    send(api, request(&Method::GET, "/v1/whoami", &[("cookie", cookie)]), "").await.status()
}

#[tokio::test]
async fn a_token_becomes_a_session_that_does_what_the_token_does() {
    let (api, asked) = api();
    let cookie = session(&api, &[]).await;
    assert_eq!(whoami(&api, &cookie).await, StatusCode::OK);
    for (path, expect) in [
        ("/v1/namespaces/team-a/runs/one", StatusCode::OK),
        ("/v1/namespaces/team-b/runs/one", StatusCode::FORBIDDEN),
        ("/v1/namespaces/team-a/runs/none", StatusCode::NOT_FOUND),
        ("/v1/queues/qb", StatusCode::FORBIDDEN),
    ] {
        let response = send(&api, request(&Method::GET, path, &[("cookie", &cookie)]), "").await;
        assert_eq!(response.status(), expect, "{path}");
    }
    let stop = request(&Method::POST, "/v1/namespaces/team-a/runs/one/stop", &[("cookie", &cookie), OURS]);
    assert_eq!(send(&api, stop, "").await.status(), StatusCode::OK);
    let questions = asked.lock().expect("not poisoned").clone();
    assert_eq!(questions.iter().filter(|(question, _)| question.ends_with("/tokenreviews")).count(), 1);
    assert!(questions.iter().all(|(_, headers)| !headers.contains_key("cookie")), "the cookie goes nowhere");
}

#[tokio::test]
async fn a_wrong_token_gets_no_session() {
    let (api, _) = api();
    let long = "a".repeat(16 * 1024 + 1);
    for (token, expect) in
        [("nobodys", 401), ("", 401), ("two words", 401), (long.as_str(), 401), ("admins", 403)]
    {
        let response = login(&api, token, &[OURS]).await;
        assert!(!response.headers().contains_key(SET_COOKIE));
        assert_eq!(response.status().as_u16(), expect, "{token:.10}");
    }
    for (content_type, body, expect) in [
        ("application/x-www-form-urlencoded", "token=alices", 415),
        ("text/plain", r#"{"token": "alices"}"#, 415),
        ("application/json", "{", 400),
        ("application/json", r#"{"token": 5}"#, 422),
        ("application/json", "{}", 422),
    ] {
        let login = request(&Method::POST, "/v1/session", &[OURS, ("content-type", content_type)]);
        assert_eq!(send(&api, login, body).await.status().as_u16(), expect, "{content_type} {body}");
    }
}

#[tokio::test]
async fn a_login_makes_a_new_secret_and_ends_the_session_that_came_along() {
    let (api, _) = api();
    let planted = format!("{NAME}={}", Secret::random().to_text());
    let chosen_by_us = session(&api, &[("cookie", &planted)]).await;
    assert_ne!(chosen_by_us, planted);
    assert_eq!(whoami(&api, &planted).await, StatusCode::UNAUTHORIZED);
    let next = session(&api, &[("cookie", &chosen_by_us)]).await;
    assert_eq!(whoami(&api, &chosen_by_us).await, StatusCode::UNAUTHORIZED);
    assert_eq!(whoami(&api, &next).await, StatusCode::OK);
    // A login that fails ends nothing.
    login(&api, "nobodys", &[OURS, ("cookie", &next)]).await;
    assert_eq!(whoami(&api, &next).await, StatusCode::OK);
}

#[tokio::test]
async fn logout_ends_the_session_on_the_server() {
    let (api, _) = api();
    let (cookie, other) = (session(&api, &[]).await, session(&api, &[]).await);
    for _ in 0..2 {
        let logout = request(&Method::DELETE, "/v1/session", &[OURS, ("cookie", &cookie)]);
        let response = send(&api, logout, "").await;
        assert_eq!(response.status(), StatusCode::NO_CONTENT, "also the second time");
        let cleared = response.headers()[SET_COOKIE].to_str().expect("ASCII");
        assert_eq!(cleared, format!("{NAME}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0"));
        assert_eq!(whoami(&api, &cookie).await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(whoami(&api, &other).await, StatusCode::OK);
}

#[tokio::test]
async fn no_other_site_can_make_a_browser_write() {
    let (api, asked) = api();
    let cookie = session(&api, &[]).await;
    let before = asked.lock().expect("not poisoned").len();
    let unsafe_operations: Vec<_> =
        operations("team-a", "one").into_iter().filter(|(method, _)| !method.is_safe()).collect();
    assert!(unsafe_operations.len() >= 4, "{unsafe_operations:?}");
    for (method, path) in &unsafe_operations {
        for origin in [
            vec![],
            vec![("sec-fetch-site", "cross-site")],
            vec![("sec-fetch-site", "same-site")],
            vec![("sec-fetch-site", "none")],
            vec![("origin", "https://evil.example")],
            vec![("origin", "https://portal.example:8443")],
            vec![("origin", "null")],
            vec![("sec-fetch-site", "cross-site"), ("origin", "https://portal.example")],
        ] {
            let headers =
                [&[("cookie", cookie.as_str()), ("content-type", "application/json")], origin.as_slice()];
            let response = send(&api, request(method, path, &headers.concat()), JOB_FILE).await;
            assert!(!response.headers().contains_key(SET_COOKIE));
            assert_eq!(
                problem_code(response).await,
                (403, "CrossSite".to_owned()),
                "{method} {path} {origin:?}"
            );
        }
    }
    assert_eq!(asked.lock().expect("not poisoned").len(), before, "Kubernetes was not even asked");
    assert_eq!(whoami(&api, &cookie).await, StatusCode::OK, "and nobody was logged out");
    let older_browser = [("cookie", cookie.as_str()), ("origin", "https://portal.example")];
    let stop = request(&Method::POST, "/v1/namespaces/team-a/runs/one/stop", &older_browser);
    assert_eq!(send(&api, stop, "").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn no_other_site_can_make_a_browser_read() {
    let (api, _) = api();
    let cookie = session(&api, &[]).await;
    for (site, expect) in [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)] {
        let headers = [("cookie", cookie.as_str()), ("sec-fetch-site", site)];
        let response = send(&api, request(&Method::GET, "/v1/runs", &headers), "").await;
        assert_eq!(response.status().as_u16(), expect, "{site}");
    }
}

#[tokio::test]
async fn a_bearer_token_and_a_session_at_once_are_refused() {
    let (api, _) = api();
    let cookie = session(&api, &[]).await;
    let malformed = format!("{NAME}=x");
    for cookie in [&cookie, &malformed] {
        for (method, path) in
            operations("team-a", "one").into_iter().filter(|(_, path)| path.starts_with("/v1"))
        {
            let headers = [OURS, ("cookie", cookie), ("authorization", "Bearer alices")];
            let response = send(&api, request(&method, &path, &headers), "").await;
            assert_eq!(problem_code(response).await, (400, "TwoLogins".to_owned()), "{method} {path}");
        }
    }
    let other_cookie = [("cookie", "theme=dark"), ("authorization", "Bearer alices")];
    assert_eq!(
        send(&api, request(&Method::GET, "/v1/whoami", &other_cookie), "").await.status(),
        StatusCode::OK
    );
}

#[tokio::test]
async fn every_kind_of_answer_has_the_security_headers() {
    let (api, _) = api();
    let cookie = session(&api, &[]).await;
    let alice = ("cookie", cookie.as_str());
    let large = "x".repeat(300_000);
    for (method, path, headers, body, expect) in [
        (Method::GET, "/healthz", vec![], "", 200),
        (Method::GET, "/v1/whoami", vec![alice], "", 200),
        (Method::GET, "/v1/whoami", vec![], "", 401),
        (Method::GET, "/v1/nothing", vec![("accept", "text/html")], "", 401),
        (Method::GET, "/nothing", vec![], "", 401),
        (Method::POST, "/v1/session", vec![], "", 403),
        (Method::PUT, "/v1/session", vec![], "", 405),
        (Method::DELETE, "/v1/session", vec![OURS], "", 204),
        (Method::GET, "/v1/queues/qa%2F", vec![alice], "", 400),
        (Method::POST, "/v1/namespaces/team-a/runs", vec![alice, OURS], &large, 413),
        (Method::GET, "/assets/none.js", vec![], "", 404),
    ] {
        let response = send(&api, request(&method, path, &headers), body.to_owned()).await;
        assert_eq!(response.status().as_u16(), expect, "{method} {path}");
        assert_strict(response.headers());
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store", "{method} {path}");
    }
    // Whether the portal is built or not.
    let page = send(&api, request(&Method::GET, "/runs", &[("accept", "text/html")]), "").await;
    assert_strict(page.headers());
}

fn assert_strict(headers: &HeaderMap) {
    for (name, value) in [
        ("content-security-policy", CONTENT_SECURITY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        let values: Vec<_> = headers.get_all(name).iter().collect();
        assert_eq!(values, [value], "{name}");
    }
    assert!(!headers[CONTENT_SECURITY_POLICY].to_str().expect("ASCII").contains("unsafe"));
    assert!(headers.contains_key("permissions-policy"));
    assert!(!headers.contains_key(STRICT_TRANSPORT_SECURITY), "only behind TLS");
}

#[tokio::test]
async fn browsers_are_told_to_stay_with_tls_only_where_there_is_tls() {
    let behind_tls = router(Arc::new(server().0.behind_tls(true)));
    let response = send(&behind_tls, request(&Method::GET, "/healthz", &[]), "").await;
    assert_eq!(response.headers()[STRICT_TRANSPORT_SECURITY], "max-age=31536000");
}

#[tokio::test]
async fn a_body_without_end_is_refused_on_every_route_before_anything_is_done() {
    let (api, asked) = api();
    for (method, path) in operations("team-a", "one").into_iter().filter(|(method, _)| !method.is_safe()) {
        let endless = Body::from_stream(stream::repeat_with(|| {
            Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 8_192]))
        }));
        let headers = if path == "/v1/session" { [OURS] } else { [("authorization", "Bearer alices")] };
        let request = request(&method, &path, &headers).header("content-type", "application/json");
        let response = send(&api, request, endless).await;
        assert_eq!(response.headers()[CONNECTION], "close", "{method} {path}");
        assert_eq!(problem_code(response).await, (413, "BodyTooLarge".to_owned()), "{method} {path}");
    }
    let questions = asked.lock().expect("not poisoned").clone();
    assert!(questions.iter().all(|(question, _)| question.ends_with("/tokenreviews")), "{questions:?}");
}

#[tokio::test]
async fn the_bound_of_a_body_is_exact_when_its_length_is_not_told() {
    let (api, _) = api();
    for (length, expect) in [(256 * 1024, 200), (256 * 1024 + 1, 413)] {
        let body =
            Body::from_stream(stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b' '; length]))]));
        let headers = [("authorization", "Bearer alices")];
        let stop = request(&Method::POST, "/v1/namespaces/team-a/runs/one/stop", &headers);
        assert_eq!(send(&api, stop, body).await.status().as_u16(), expect, "{length}");
    }
}

#[tokio::test]
async fn a_flood_of_wrong_tokens_reaches_kubernetes_only_in_part_and_logs_nobody_out() {
    let (api, asked) = api();
    let cookie = session(&api, &[]).await;
    let mut turned_away = 0;
    for n in 0..600 {
        let bearer = format!("Bearer wrong-{n}");
        let response =
            send(&api, request(&Method::GET, "/v1/whoami", &[("authorization", &bearer)]), "").await;
        turned_away += u32::from(response.status() == StatusCode::SERVICE_UNAVAILABLE);
    }
    let asked = asked.lock().expect("not poisoned").len();
    assert!(
        turned_away > 0 && asked + turned_away as usize == 601,
        "{turned_away} turned away, {asked} asked about"
    );
    assert_eq!(whoami(&api, &cookie).await, StatusCode::OK);
}

#[tokio::test]
async fn large_answers_are_compressed_for_those_who_like() {
    let (api, _) = api();
    let path = "/v1/openapi.json";
    let alice = ("authorization", "Bearer alices");
    let zipped = send(&api, request(&Method::GET, path, &[alice, ("accept-encoding", "gzip, br")]), "").await;
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    let plain = send(&api, request(&Method::GET, path, &[alice]), "").await;
    assert!(!plain.headers().contains_key("content-encoding"));
}
