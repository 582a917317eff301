//! Events as they go over the wire.

use axum::body::Bytes;
use serde::Serialize;

/// An event as it goes over the wire. JSON has no line breaks, so one data line is enough.
pub fn frame(event: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).expect("messages of the API are JSON");
    format!("event: {event}\ndata: {data}\n\n").into()
}
