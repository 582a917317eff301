//! What things cost, read from the ledger within what the caller may see.

pub mod ledger;
pub mod query;
pub mod scope;
pub mod views;
