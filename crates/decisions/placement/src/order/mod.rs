//! Which gang is considered next: the order of rules, in one place.
//!
//! ```text
//!   1  gangs that finish their start      they hold nodes that do nothing until the rest is there
//!   2  priority, the highest first        one tier after the other
//!   3  a few that waited far too long     they keep what falls free for them: backfill/gather.rs
//!   4  the tree of queues, from the root  tree.rs: at each level the child that
//!        a  is within its quota             quota/standing.rs, or pays with its bank's credit
//!        b  holds less than half its share  share.rs: the past costs no queue more than that
//!        c  has the lowest weighted share   share.rs: dominant, of what is held and was used, decayed
//!   5  within a queue                     turn.rs:
//!        a  the least laxity                if a deadline is about to be missed
//!        b  the policy                      age, or the least expected work
//!        c  age, then name
//! ```
//!
//! The order changes while a plan is made: a queue steps back with every gang of it that starts. The cost: the
//! classes of waiting gangs are put into their queues once, and then every gang that is considered moves its queue
//! and those above it, each in the order of its siblings.
//!
//! Apart from the order there is one rule of admission, `deadline/`: no gang starts that would make another gang, of
//! the same or a higher tier, miss a deadline that it can still meet.

mod classes;
mod deadline;
mod share;
mod tree;
mod turn;

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use cluster_model::plan::WaitReason;
use cluster_model::{ClusterState, GangKey};
use jiff::Timestamp;

use crate::gang::Request;
use crate::order::classes::Class;
use crate::order::deadline::Deadlines;
use crate::order::tree::Tree;
use cluster_model::policy::{Backfill, OrderPolicy, Policy};

/// The gangs that wait, in the order of planning.
pub(crate) struct Order {
    policy: OrderPolicy,
    explain: bool,
    now: Timestamp,
    backfill: Backfill,
    /// Rule 1, by priority, age and name; then rule 3 of the tier that is being planned.
    first: VecDeque<GangKey>,
    /// How many gangs went before their tier by rule 3.
    overdue: u32,
    /// Tiers that are still to come.
    tiers: BTreeMap<Reverse<i32>, Vec<Class>>,
    /// The tier that begins once gangs that waited too long are done.
    next_tier: Vec<Class>,
    /// The tier that is being planned.
    tier: Option<Tree>,
    deadlines: Deadlines,
    /// The first gang that found no room, if that stops all after it.
    stopped_at: Option<GangKey>,
}

impl Order {
    pub fn new(state: &ClusterState, policy: &Policy, now: Timestamp) -> Self {
        let finishing = classes::finishing(state);
        Self {
            policy: policy.order,
            explain: policy.explain,
            now,
            backfill: policy.backfill,
            tiers: classes::tiers(state, &finishing, now),
            first: finishing,
            overdue: 0,
            next_tier: Vec::new(),
            tier: None,
            deadlines: Deadlines::new(now),
            stopped_at: None,
        }
    }

    /// The next gang, as things stand after what was planned so far.
    pub fn next(&mut self, planned: &ClusterState) -> Option<GangKey> {
        if self.stopped_at.is_some() && !self.explain {
            return None;
        }
        loop {
            if let Some(gang) = self.first.pop_front() {
                return Some(gang);
            }
            if !self.next_tier.is_empty() {
                let classes = std::mem::take(&mut self.next_tier);
                self.tier = Some(Tree::new(planned, classes, self.policy, self.now));
            }
            if let Some(gang) = self.tier.as_mut().and_then(|tier| tier.next(planned)) {
                return Some(gang);
            }
            self.tier = None;
            let (_, classes) = self.tiers.pop_first()?;
            self.begin_tier(planned, classes);
        }
    }

    fn begin_tier(&mut self, planned: &ClusterState, mut classes: Vec<Class>) {
        if self.policy != OrderPolicy::StrictAge {
            self.deadlines.add_tier(planned, &classes);
            let left = self.backfill.gather_max.saturating_sub(self.overdue) as usize;
            let since = i64::from(self.backfill.gather_after_seconds);
            self.first = classes::take_overdue(planned, &mut classes, self.now, since, left);
            self.overdue += u32::try_from(self.first.len()).unwrap_or(u32::MAX);
        }
        self.next_tier = classes;
    }

    /// Why a gang is not considered any further, if the policy stops at the first that is blocked.
    pub fn stopped(&self, request: &Request) -> Option<WaitReason> {
        let first = self.stopped_at.as_ref().filter(|_| !request.is_granted)?;
        Some(WaitReason::BehindBlocked { gang: first.clone() })
    }

    /// Why a gang that is placed in `attempt` must not start there, if that makes another one miss its deadline.
    pub fn misses_deadline(&mut self, attempt: &ClusterState, request: &Request) -> Option<WaitReason> {
        self.deadlines.missed_by(attempt, request)
    }

    /// Records that the gang starts, as placed or held in `planned`.
    pub fn started(&mut self, planned: &ClusterState, request: &Request) {
        self.deadlines.started(planned, request);
    }

    /// When to look again even if nothing happens.
    pub fn look_again_at(&self) -> Option<Timestamp> {
        self.deadlines.look_again_at()
    }

    /// Records that the gang finds no room, so that none like it needs to be considered, unless all are to be
    /// explained.
    pub fn blocked(&mut self, request: &Request) {
        // What is wrong with one gang alone says nothing about those like it, and it is not in line yet.
        if !request.problems.is_empty() {
            return;
        }
        if self.policy == OrderPolicy::StrictAge && self.stopped_at.is_none() {
            self.stopped_at = Some(request.key.clone());
        }
        // If other pods decide, those like it may find room.
        let says_for_all = !self.explain && !request.depends_on_neighbours;
        if let Some(tier) = self.tier.as_mut().filter(|_| says_for_all) {
            tier.drop_class();
        }
    }
}
