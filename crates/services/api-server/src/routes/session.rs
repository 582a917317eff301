//! The portal's login and logout.

use std::sync::Arc;
use std::time::Instant;

use api_types::rest::{Problem, SessionRequest};
use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::AppendHeaders;
use http::header::{HeaderName, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use tracing::debug;

use crate::access::authentication::is_well_formed;
use crate::http::problem::{ApiError, LoginProblems};
use crate::server::Server;
use crate::session::cookie;
use crate::session::login::refuse_two_logins;
use crate::session::origin::require_our_page;
use crate::session::secret::Secret;

/// 204, with a cookie set or cleared.
type CookieAnswer = (StatusCode, AppendHeaders<[(HeaderName, HeaderValue); 1]>);

/// Exchanges a token for a session of the portal, held by a cookie.
#[utoipa::path(
    post,
    path = "/v1/session",
    operation_id = "logIn",
    tag = "session",
    security(()),
    request_body(content = SessionRequest, description = "At most 20 KiB."),
    responses(
        (
            status = 204,
            description = "Logged in: the cookie holds the session for at most 12 hours.",
            headers(("Set-Cookie" = String, description = "`__Host-warpyard-session`"))
        ),
        (status = 400, description = "The body is not JSON, or the request has both a bearer token and the cookie.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "The body is not application/json.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The body has no token.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn log_in(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    body: Result<Json<SessionRequest>, JsonRejection>,
) -> Result<CookieAnswer, ApiError> {
    require_our_page(&headers)?;
    refuse_two_logins(&headers)?;
    let Json(SessionRequest { token }) = body.map_err(|rejection| not_a_login(&rejection))?;
    let token = token.trim();
    if !is_well_formed(token) {
        return Err(ApiError::unauthorized("this is no token").hint("paste the token, and nothing else"));
    }
    let identity = server.authenticator().identify(token).await?;
    // A login always makes a new secret and ends the session whose cookie came with it, so a planted cookie
    // gains nothing.
    if let Ok(before) = cookie::read(&headers) {
        server.sessions().end(&before);
    }
    let secret = Secret::random();
    server.sessions().open(&secret, identity.username(), token, Instant::now());
    debug!(user = identity.username(), "Opened a session.");
    Ok(answer(cookie::set(&secret)))
}

/// Ends the session, here and in the browser. It is no error if the session is over already.
#[utoipa::path(
    delete,
    path = "/v1/session",
    operation_id = "logOut",
    tag = "session",
    security(()),
    responses(
        (
            status = 204,
            description = "Logged out: the server has forgotten the session.",
            headers(("Set-Cookie" = String, description = "`__Host-warpyard-session`, cleared"))
        ),
        (status = 400, description = "The request has both a bearer token and the cookie.", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "The request does not come from a page of the portal.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The server is busy; try again.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn log_out(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
) -> Result<CookieAnswer, ApiError> {
    require_our_page(&headers)?;
    refuse_two_logins(&headers)?;
    if let Ok(secret) = cookie::read(&headers) {
        server.sessions().end(&secret);
    }
    Ok(answer(cookie::clear()))
}

fn answer(cookie: HeaderValue) -> CookieAnswer {
    (StatusCode::NO_CONTENT, AppendHeaders([(SET_COOKIE, cookie)]))
}

/// Leaves out the parser's message: it may quote the body, which is a secret.
fn not_a_login(rejection: &JsonRejection) -> ApiError {
    ApiError::new(
        rejection.status(),
        "InvalidBody",
        "the body is not `{\"token\": \"…\"}`, as application/json",
    )
    .hint("see /v1/openapi.json")
}
