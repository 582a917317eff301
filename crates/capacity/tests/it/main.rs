//! The tests of this crate that look at it from outside; one binary.

mod cases;
mod judge;
mod mixes;
mod properties;
mod solver;
mod verdict;
