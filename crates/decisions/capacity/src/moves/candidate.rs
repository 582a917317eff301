//! What may be moved: gangs, and the machines that they would leave.

use std::collections::BTreeSet;

use cluster_model::{GangKey, NodeName, Pod};
use jiff::Timestamp;

use super::line::Lineage;
use crate::claim::Claim;

/// Gangs that could leave machines.
pub(super) struct Candidate<'a> {
    pub movers: Vec<Mover<'a>>,
    /// The machines that would go.
    pub leaves: Vec<&'a Claim>,
    /// What those cost, in millionths per hour.
    pub old_micros: i64,
    /// What all bought machines cost that the gangs are on, gone or not.
    pub used_micros: i64,
    /// The longest boot time of the machines that would go.
    pub boot_seconds: u32,
    /// Whether other machines may be bought instead: for one gang that is alone on all of its machines.
    pub may_buy: bool,
}

/// A gang that may be moved.
#[derive(Clone)]
pub(super) struct Mover<'a> {
    pub gang: &'a GangKey,
    pub line: Lineage,
    pub pods: Vec<&'a Pod>,
    pub nodes: BTreeSet<&'a NodeName>,
    pub started: Timestamp,
    /// How long it is expected to go on.
    pub seconds_left: i64,
    /// Until its time limit ends it.
    pub limit_seconds_left: Option<i64>,
    /// Since it last saved its state.
    pub unsaved_seconds: i64,
    pub grace_seconds: i64,
    pub deadline: Option<Timestamp>,
}
