//! Kubernetes objects as the API server sends them, and what they become.

mod objects;
mod pods;
mod quantities;
