//! Kubernetes objects as the API server sends them, and what they become.

mod local;
mod near;
mod objects;
mod pods;
