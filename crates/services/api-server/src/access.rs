//! Who calls, and what they may do. Kubernetes decides both; its answers are remembered for seconds.

pub mod authentication;
pub mod authorization;
pub mod expiring_cache;
pub mod identity;
pub mod refusal_budget;
pub mod token_expiry;
