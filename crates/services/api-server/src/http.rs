//! HTTP code for all requests and answers: connections, bounds, headers, problems, pages.

pub mod connections;
pub mod page_bytes;
pub mod page_token;
pub mod problem;
pub mod request_body;
pub mod security_headers;
