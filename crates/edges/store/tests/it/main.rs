//! The ledger on a real PostgreSQL. Needs Debian's package `postgresql`; without it these tests fail and say so.

// What only tests call is a test, too; clippy knows those by their attribute.
#![allow(clippy::unwrap_used)]

mod append_only;
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
