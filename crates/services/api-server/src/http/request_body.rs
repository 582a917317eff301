//! Reads the body, up to its bound, before the request is handled.
//!
//! ```text
//!   Content-Length over the bound ─► 413, nothing is read
//!   no Content-Length             ─► read up to the bound; 413 when there is more
//!   413                           ─► Connection: close, so the rest is not awaited
//! ```
//!
//! This also applies to routes without a body: a request with a gigabyte is refused before the run is stopped,
//! not after.

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use http::{HeaderValue, StatusCode, header};

use crate::http::problem::ApiError;

/// Middleware: the handler gets a body that is complete and has at most `bytes_max`, or is not called.
pub async fn read_within(bytes_max: usize, request: Request, next: Next) -> Response {
    let announced = request.body().size_hint().lower();
    if usize::try_from(announced).map_or(true, |announced| announced > bytes_max) {
        return too_large(bytes_max);
    }
    let (parts, body) = request.into_parts();
    let mut chunks = body.into_data_stream();
    let mut read = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else {
            return close(ApiError::bad_request("InvalidBody", "the body ended too early"));
        };
        if read.len() + chunk.len() > bytes_max {
            return too_large(bytes_max);
        }
        read.extend_from_slice(&chunk);
    }
    next.run(Request::from_parts(parts, Body::from(read))).await
}

fn too_large(bytes_max: usize) -> Response {
    let detail = format!("the body is larger than {} KiB", bytes_max / 1_024);
    close(
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "BodyTooLarge", detail)
            .hint("put large data into an image or a volume, and name it in the job file"),
    )
}

/// Closes the connection: otherwise the rest of the body would be read as the next request.
fn close(error: ApiError) -> Response {
    let mut response = error.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
