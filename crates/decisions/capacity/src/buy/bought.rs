//! What is bought, and for which gangs nothing is.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::GangKey;

use crate::claim::Launch;
use crate::memory::WaitsForSpot;

/// What is bought, and for which gangs nothing is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bought {
    /// Orders.
    pub launches: Vec<Launch>,
    /// Gangs that wait for machines that are not bought.
    pub refused: Vec<RefusedGang>,
    /// Gangs that wait for spot, though on-demand machines could be bought: they are among the refused too.
    pub waits_for_spot: BTreeMap<GangKey, WaitsForSpot>,
    /// Gangs of one for which a pool may buy.
    pub from_pools: BTreeSet<GangKey>,
}

/// A gang that waits for nodes, and for which nothing is bought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedGang {
    /// The gang.
    pub gang: GangKey,
    /// Why, in a sentence without a full stop.
    pub why: String,
}
