//! One binary for all integration tests.

mod life;
mod stories;
