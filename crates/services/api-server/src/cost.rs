//! Costs, read from the ledger within the caller's rights.

pub mod ledger;
pub mod query;
pub mod scope;
pub mod views;
