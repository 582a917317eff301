//! The login around the API.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::access::authentication::{Caller, bearer_token};
use crate::server::Server;
use crate::session::{cookie, login};

/// Middleware around the API: every request behind it has a caller, by a bearer token or a session.
pub async fn require_login(State(server): State<Arc<Server>>, mut request: Request, next: Next) -> Response {
    let (method, headers) = (request.method(), request.headers());
    let login = if cookie::is_present(headers) {
        let login = login::identify(&server, method, headers).await;
        login.map(|(identity, ended)| (identity, Some(ended)))
    } else {
        match bearer_token(headers) {
            Ok(token) => server.authenticator().identify(token).await.map(|identity| (identity, None)),
            Err(error) => Err(error),
        }
    };
    let (identity, session_ended) = match login {
        Ok(login) => login,
        Err(error) => return error.into_response(),
    };
    request.extensions_mut().insert(Caller(identity));
    let response = next.run(request).await;
    match session_ended {
        Some(ended) => login::end_streams_with(response, ended),
        None => response,
    }
}
