//! Tests of the crate as others use it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod cases;
mod judge;
mod lies;
mod mixes;
mod properties;
mod solver;
mod spot;
mod spot_laws;
mod verdict;
