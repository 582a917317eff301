//! The end-to-end tests, one binary: `cargo xtask e2e [NAME…]`.

mod api;
mod cluster;
mod cost;
mod events;
mod fence;
mod gangs;
mod kills;
mod ledger;
mod objects;
mod portal;
mod portal_security;
mod runs;
mod thread;
