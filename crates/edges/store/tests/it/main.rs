//! The ledger on a real PostgreSQL. Needs Debian's package `postgresql`; without it these tests fail and say so.

// Helpers of tests may unwrap too; clippy recognises only functions with the attribute.
#![allow(clippy::unwrap_used)]

mod append_only;
mod archive;
mod crash;
mod lost;
mod migrations;
mod model;
mod partitions;
mod posting;
mod purchases;
mod replay;
mod report;
mod support;
mod tenants;
mod vacuum;
