//! The end-to-end tests, one binary: `cargo xtask e2e [NAME…]`.

mod api;
mod cluster;
mod cost;
mod events;
mod faults;
mod faults_judged;
mod fence;
mod gangs;
mod ledger;
mod node_agent;
mod objects;
mod outlook;
mod portal;
mod portal_security;
mod preempt;
mod rights;
mod runs;
mod takeover;
mod thread;
mod unwinding;
