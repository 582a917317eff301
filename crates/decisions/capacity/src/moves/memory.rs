//! What is remembered about moves. A new leader begins with nothing. Still it does not move a run again at once,
//! because a gang must have run for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::{ClusterState, Gang};
use jiff::{SignedDuration, Timestamp};

use super::candidate::Candidate;
pub use super::line::{Lineage, line};
use crate::idle::is_empty;
use crate::launches::Release;
use crate::view::View;

/// The time between two looks for a gang to move.
const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(15);
/// How long a run is left alone after its first move; twice as long after each further one …
const AGAIN_FIRST: SignedDuration = SignedDuration::from_mins(30);
/// … up to this.
const AGAIN_MOST: SignedDuration = SignedDuration::from_hours(8);
/// The time after which its moves are forgotten.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    looked: Option<Timestamp>,
    /// When candidates were last tried, by their first claim and how many machines they would leave.
    tried: BTreeMap<(Arc<str>, usize), Timestamp>,
    moved: BTreeMap<Lineage, Times>,
    under_way: Option<UnderWay>,
}

/// The moves of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    last: Timestamp,
    count: u32,
}

/// The last move, until it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnderWay {
    lines: Vec<Lineage>,
    /// Claims of the machines that they leave.
    left: BTreeSet<Arc<str>>,
    /// What is not done by then never will be.
    until: Timestamp,
}

impl Moves {
    /// Whether a machine is being left.
    pub fn leaves(&self, claim: &Arc<str>) -> bool {
        self.under_way.as_ref().is_some_and(|it| it.left.contains(claim))
    }

    /// Whether a run may be moved, as far as its last moves go.
    pub fn may_move(&self, line: &Lineage, now: Timestamp) -> bool {
        let again = |times: &Times| {
            let wait = AGAIN_FIRST * 2_i32.pow(times.count.clamp(1, 8) - 1);
            after(times.last, wait.min(AGAIN_MOST)) <= now
        };
        self.moved.get(line).is_none_or(again)
    }

    /// Machines that were left and are empty.
    pub(super) fn follow(&mut self, view: &View<'_>) -> Vec<Release> {
        self.moved.retain(|_, times| after(times.last, FORGOTTEN_AFTER) > view.now);
        self.under_way = self.under_way.take().filter(|it| !it.is_over(view));
        let left = view.claims.iter().filter(|claim| self.leaves(&claim.name) && !claim.leaving);
        let empty = left.filter(|claim| is_empty(view.state, claim.node.as_ref()));
        let release = empty.map(|claim| Release {
            claim: Arc::clone(&claim.name),
            node: claim.node.clone(),
            given_up: None,
            why: "the gangs on it have moved".to_owned(),
        });
        release.collect()
    }

    /// Whether it is time for a look; the look is recorded.
    pub(super) fn looks_now(&mut self, now: Timestamp) -> bool {
        let is_due = self.looked.is_none_or(|at| after(at, LOOK_EVERY) <= now);
        let looks = is_due && self.under_way.is_none();
        if looks {
            self.looked = Some(now);
        }
        looks
    }

    /// Puts first those that were tried longest ago; among equals, those that could save most.
    pub(super) fn retry_in_turn(&mut self, candidates: &mut [Candidate<'_>]) {
        let there: BTreeSet<_> = candidates.iter().map(key).collect();
        self.tried.retain(|tried, _| there.contains(tried));
        candidates.sort_by_cached_key(|it| {
            let tried = self.tried.get(&key(it)).copied();
            (tried, std::cmp::Reverse(it.old_micros), key(it))
        });
    }

    pub(super) fn tried(&mut self, candidate: &Candidate<'_>, now: Timestamp) {
        self.tried.insert(key(candidate), now);
    }

    /// Records that a move is decided.
    pub(super) fn begin(
        &mut self,
        lines: Vec<Lineage>,
        left: BTreeSet<Arc<str>>,
        now: Timestamp,
        patience: SignedDuration,
    ) {
        for line in &lines {
            let count = self.moved.get(line).map_or(0, |before| before.count).saturating_add(1);
            self.moved.insert(line.clone(), Times { last: now, count });
        }
        self.under_way = Some(UnderWay { lines, left, until: after(now, patience) });
    }
}

impl UnderWay {
    /// Whether all run again, and all machines that they left are gone; or enough time has passed.
    fn is_over(&self, view: &View<'_>) -> bool {
        let is_left = view.claims.iter().any(|claim| self.left.contains(&claim.name) && !claim.leaving);
        self.until <= view.now || !is_left && self.lines.iter().all(|line| runs(view.state, line))
    }
}

/// Whether all of a run's members have a node.
fn runs(state: &ClusterState, run: &Lineage) -> bool {
    let is_whole = |gang: &Gang| gang.bound() > 0 && gang.pending().len() == 0;
    state.gangs().any(|(_, gang)| is_whole(gang) && line(state.pod(gang.lead()).pod()) == *run)
}

fn key(candidate: &Candidate<'_>) -> (Arc<str>, usize) {
    let first = candidate.leaves.iter().map(|claim| &claim.name).min();
    (first.cloned().unwrap_or_default(), candidate.leaves.len())
}

fn after(moment: Timestamp, wait: SignedDuration) -> Timestamp {
    moment.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
