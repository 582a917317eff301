//! Shared by `cargo xtask` and the tests: finds programs and folders on this machine, and prints figures.
//!
//! ```text
//!   xtask ────────────────────────┐
//!                                 ├─► toolbox: checkout, engine_bin, python, programs, figures
//!   test-cluster, e2e, benches ───┘
//! ```
//!
//! It only looks: it never builds or installs anything, and starts only `go version`. It links no runtime, no
//! client and nothing of the product, because a newcomer waits for xtask to compile with it.

pub mod checkout;
pub mod engine_bin;
pub mod figures;
pub mod programs;
pub mod python;
