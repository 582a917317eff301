//! Behaviour of the ledger's arithmetic: tables for each rule, laws for joins, and random histories against an
//! independent reference.
#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy does not know as such")]

mod accounts;
mod build;
mod histories;
mod laws;
mod money;
mod postings;
mod prices;
mod purchases;
mod records;
