//! The caller's identity and rights. Kubernetes decides both; its answers are cached for seconds.

pub mod authentication;
pub mod authorization;
pub mod expiring_cache;
pub mod identity;
pub mod refusal_budget;
pub mod require_login;
pub mod token_expiry;
