//! Kubernetes objects as the API server sends them, and what we read from them.

mod quantities;
mod reading;
