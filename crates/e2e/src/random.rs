//! Randomness that a seed names, so that a failing run can be had again.

pub use test_cluster::random::Random;
