//! Everything that is known about a market, sorted.

use super::fits::Fits;
use crate::demand::{Demand, Limits};
use crate::offering::{FreeRoom, Offering};

/// Everything that is known, sorted.
pub(super) struct Market<'a> {
    pub demands: Vec<&'a Demand>,
    pub offerings: Vec<&'a Offering>,
    pub rooms: Vec<&'a FreeRoom>,
    pub limits: &'a Limits,
    pub fits: Fits,
}
