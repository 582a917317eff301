//! Logins of browsers: a token is exchanged for a cookie that unseals it.

pub mod cookie;
pub mod login;
pub mod origin;
pub mod secret;
pub mod store;

#[cfg(test)]
mod router_tests;
