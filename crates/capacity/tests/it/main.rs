//! Tests of the crate as others use it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod spot;
mod spot_laws;
