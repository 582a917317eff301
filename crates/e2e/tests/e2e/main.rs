//! The end-to-end tests, one binary: `cargo xtask e2e [NAME…]`.

mod api;
mod cluster;
mod fence;
mod gangs;
mod kills;
mod objects;
mod runs;
mod thread;
