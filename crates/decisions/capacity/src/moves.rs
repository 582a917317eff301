//! Runs that save their state leave machines that cost more than they must: for room that is free elsewhere, for cheaper
//! machines, or for spot that is back.
//!
//! ```text
//!   machines in use ─► candidates ─► a copy without them ─► plan ─► all have room elsewhere    together.rs  ─┐
//!                      movers.rs     and their machines      └─► buy ─► cheaper machines       elsewhere.rs ─┼─► worth.rs ─► Move
//!                                                                       spot, if it stands     to_spot.rs   ─┘   gain > 2 × cost
//!   after a Move: its machines are given back when they are empty; nothing else moves until it runs again    memory.rs
//! ```
//!
//! A move is an eviction: the gang is told to save and leave, its machines are closed, and its next attempt waits
//! like any other. So a move is decided only if the planner and `buy`, on a copy, say what would happen then. These
//! may move, and when:
//!
//! - whole gangs that save their state, come back, and have run long enough, if no disruption budget forbids it;
//! - no gang whose queue has another gang waiting, and none while machines are on their way for any gang;
//! - one move at a time, and the same run again only after half an hour, then an hour, up to eight ([`memory`]);
//! - no gang whose deadline would come nearer than the guard of [`crate::spot`].

mod alternative;
mod candidate;
mod elsewhere;
mod line;
pub mod memory;
mod movers;
mod to_spot;
mod together;
pub mod worth;

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_model::{ClusterChange, ClusterState, GangKey, Node, NodeName, Pod};

use crate::claim::Claim;
use crate::launches::{Release, late_after};
use crate::memory::Memory;
use crate::view::View;
use candidate::Candidate;
use movers::candidates;
use worth::Worth;

/// How many candidates are tried at a look: each costs a copy of the state and up to three plans. Those tried longest
/// ago come first.
const TRIES_MAX: usize = 4;

/// Gangs that leave their machines, to go on elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The gangs, each whole.
    pub gangs: Vec<GangKey>,
    /// The nodes that take no pods any more, and that go when they are empty.
    pub leaves: Vec<NodeName>,
    /// Where they go and what for, in a sentence without a full stop.
    pub why: String,
    /// What it is expected to save, and to cost.
    pub worth: Worth,
}

/// What to do about runs that could run for less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moving {
    /// Moves that are decided: one at a time.
    pub moves: Vec<Move>,
    /// Machines that were left and are empty.
    pub releases: Vec<Release>,
}

/// Follows the last move, and looks for the next. `is_quiet` says that no machines are on their way, or about to be
/// ordered.
pub fn moves(view: &View<'_>, is_quiet: bool, memory: &mut Memory) -> Moving {
    let releases = memory.moves.follow(view);
    let mut moving = Moving { moves: Vec::new(), releases };
    if !is_quiet || !memory.moves.looks_now(view.now) {
        return moving;
    }
    let (bought, mut found) = candidates(view, memory);
    memory.moves.retry_in_turn(&mut found);
    for candidate in found.into_iter().take(TRIES_MAX) {
        memory.moves.tried(&candidate, view.now);
        if let Some(it) = consider(view, memory, &candidate, &bought) {
            let lines = candidate.movers.iter().map(|mover| mover.line.clone()).collect();
            let left = candidate.leaves.iter().map(|claim| Arc::clone(&claim.name)).collect();
            let patience = candidate.grace() + late_after(candidate.boot_seconds) * 2;
            memory.moves.begin(lines, left, view.now, patience);
            moving.moves.push(it);
            break;
        }
    }
    moving
}

/// What would happen to a candidate, according to the planner and `buy`; `None` if it should stay.
fn consider(
    view: &View<'_>,
    memory: &Memory,
    candidate: &Candidate<'_>,
    bought: &BTreeMap<&NodeName, &Claim>,
) -> Option<Move> {
    let mut copy = without(view, candidate);
    let plan = placement::plan(&mut copy, view.policy, view.now);
    let is_mover = |gang: &GangKey| candidate.movers.iter().any(|mover| mover.gang == gang);
    // Others neither give way for it nor take what it leaves.
    if !plan.evictions.is_empty() || plan.placements.iter().any(|it| !is_mover(&it.gang)) {
        return None;
    }
    let offer = if plan.placements.is_empty() {
        elsewhere::offer(view, memory, candidate, &copy)?
    } else {
        together::offer(view, candidate, bought, &plan.placements)?
    };
    let worth = Worth::of(&offer.stakes);
    let keeps_deadlines =
        candidate.movers.iter().all(|mover| mover.keeps_deadline(offer.stakes.changeover_seconds, view.now));
    (worth.pays() && keeps_deadlines).then(|| Move {
        gangs: candidate.movers.iter().map(|mover| mover.gang.clone()).collect(),
        leaves: candidate.leaves.iter().filter_map(|claim| claim.node.clone()).collect(),
        why: format!("{}; {worth}", offer.words),
        worth,
    })
}

/// The state as it would be: the gangs wait as new ones, and their machines take no pods.
fn without(view: &View<'_>, candidate: &Candidate<'_>) -> ClusterState {
    let mut state = view.state.clone();
    state.advance(view.now);
    for node in candidate.leaves.iter().filter_map(|claim| claim.node.as_ref()) {
        if let Some(object) = state.node_object(node).cloned() {
            state.apply(ClusterChange::Node(Node { schedulable: false, ..object }));
        }
    }
    for pod in candidate.movers.iter().flat_map(|mover| &mover.pods) {
        state.apply(ClusterChange::PodGone(pod.key.clone()));
    }
    for mover in &candidate.movers {
        let terms = Arc::new(mover.terms_anew());
        for pod in &mover.pods {
            // Gangs that wait already come before it.
            let (created, devices, terms) = (view.now, Vec::new(), Arc::clone(&terms));
            let anew = Pod { node: None, started: None, created, devices, terms, ..(*pod).clone() };
            state.apply(ClusterChange::Pod(anew));
        }
    }
    state
}

#[cfg(test)]
mod tests;
