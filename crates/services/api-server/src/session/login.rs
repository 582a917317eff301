//! Checks a request with the session cookie, and finds its user.
//!
//! ```text
//!   cookie ─► no bearer token as well (400) ─► from our own page (403) ─► session (401) ─► TokenReview (401, 503)
//! ```
//!
//! The token is checked like every bearer token, so a session never outlives its token's rights.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::response::Response;
use futures::StreamExt;
use http::{HeaderMap, Method, StatusCode, header};
use tokio_util::sync::CancellationToken;

use crate::access::identity::Identity;
use crate::http::problem::ApiError;
use crate::server::Server;
use crate::session::cookie;
use crate::session::origin;

/// The session's user, and when the session ends.
pub async fn identify(
    server: &Server,
    method: &Method,
    headers: &HeaderMap,
) -> Result<(Arc<Identity>, CancellationToken), ApiError> {
    refuse_two_logins(headers)?;
    origin::require_ours(method, headers)?;
    let secret = cookie::read(headers)?;
    let session = server.sessions().find(&secret, Instant::now()).ok_or_else(over)?;
    match server.authenticator().identify(&session.token).await {
        Ok(identity) => Ok((identity, session.ended)),
        Err(error) if error.0.status == StatusCode::UNAUTHORIZED.as_u16() => {
            server.sessions().end(&secret);
            Err(over())
        }
        Err(error) => Err(error),
    }
}

/// Refuses a request with both logins, so that it is always clear which one counts.
pub fn refuse_two_logins(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.contains_key(header::AUTHORIZATION) && cookie::is_present(headers) {
        return Err(ApiError::bad_request(
            "TwoLogins",
            "the request has a bearer token and a session cookie",
        )
        .hint("send one of the two"));
    }
    Ok(())
}

/// Ends a stream of events together with its session; other answers are short.
pub fn end_streams_with(response: Response, ended: CancellationToken) -> Response {
    let content_type = response.headers().get(header::CONTENT_TYPE);
    if !content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream")) {
        return response;
    }
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(ended.cancelled_owned())))
}

fn over() -> ApiError {
    ApiError::unauthorized("the session is over").hint("log in again")
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, Bytes};
    use axum::response::Response;
    use futures::{StreamExt, stream};
    use http::header::CONTENT_TYPE;
    use tokio_util::sync::CancellationToken;

    use super::end_streams_with;

    #[tokio::test]
    async fn a_stream_of_events_ends_with_its_session() {
        let ended = CancellationToken::new();
        let event = stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"data: 1\n\n")) });
        let mut response = Response::new(Body::from_stream(event.chain(stream::pending())));
        response.headers_mut().insert(CONTENT_TYPE, "text/event-stream".parse().expect("a header"));
        let mut body = end_streams_with(response, ended.clone()).into_body().into_data_stream();
        assert!(body.next().await.is_some_and(|chunk| chunk.is_ok()));
        ended.cancel();
        assert!(body.next().await.is_none());
    }
}
