//! Which blocked gangs may count on something, and which gangs may start before them.
//!
//! Two rules, for two kinds of knowledge:
//!
//! ```text
//!   ends are certain (time limits)      reserve.rs   the gang gets a start and its nodes; a gang that ends before that
//!                                                    start by its own limit may use them meanwhile
//!   ends are not known                  gather.rs    a gang that waited far too long keeps what falls free for it, until
//!                                                    it has enough; nothing is left idle on a guess
//! ```

mod fits;
mod gather;
mod reserve;

pub(crate) use gather::would_help;

use std::collections::BTreeSet;

use cluster_model::plan::{GangPlacement, MemberPlacement, Reservation, WaitReason};
use cluster_model::{Fork, NodeName};
use jiff::{SignedDuration, Timestamp};

use crate::gang::Request;
use crate::search::Searches;
use cluster_model::policy::{Backfill, Policy};

/// The reservations of one plan.
pub(crate) struct Reservations {
    policy: Backfill,
    now: Timestamp,
    granted: Vec<Reservation>,
    /// Where gangs with a reservation will be, so that no two count on the same nodes.
    promised: Vec<MemberPlacement>,
    /// All nodes of `granted`, so that most placements are let through at one look.
    nodes: BTreeSet<NodeName>,
    gathering: u32,
    /// Ends of running gangs, the first first; read once a plan needs them.
    ends: Option<reserve::Ends>,
}

impl Reservations {
    pub fn new(policy: &Policy, now: Timestamp) -> Self {
        Self {
            policy: policy.backfill,
            now,
            granted: Vec::new(),
            promised: Vec::new(),
            nodes: BTreeSet::new(),
            gathering: 0,
            ends: None,
        }
    }

    /// The gang with a reservation, if any, that a gang would delay if it started now as placed.
    pub fn delayed_by(&self, request: &Request, placement: &GangPlacement) -> Option<WaitReason> {
        self.delayed(request.terms.time_limit_seconds, &placement.members)
    }

    /// The gang that members with this time limit would delay there.
    pub fn delayed(
        &self,
        time_limit_seconds: Option<u32>,
        members: &[MemberPlacement],
    ) -> Option<WaitReason> {
        if !members.iter().any(|member| self.nodes.contains(&member.node)) {
            return None;
        }
        let limit = time_limit_seconds.map(i64::from);
        let end = limit.and_then(|limit| self.now.checked_add(SignedDuration::from_secs(limit)).ok());
        let delayed = self.granted.iter().find(|reservation| {
            let uses = |node: &NodeName| reservation.nodes.binary_search(node).is_ok();
            end.is_none_or(|end| end > reservation.start) && members.iter().any(|member| uses(&member.node))
        })?;
        Some(WaitReason::WouldDelay { gang: delayed.gang.clone(), start: delayed.start })
    }

    /// Grants a blocked gang what the policy has for it. If the gang gathers, `planned` has what it gathered from now
    /// on. A gang that only gives precedence to a reservation needs none of its own.
    pub fn grant(
        &mut self,
        planned: &mut Fork<'_>,
        request: &Request,
        reasons: &[WaitReason],
        searches: &mut Searches,
    ) -> Option<Reservation> {
        if !request.problems.is_empty() || reasons.iter().any(WaitReason::gives_precedence) {
            return None;
        }
        let waited = self.now.as_second().saturating_sub(request.waiting_since.as_second());
        if self.gathering < self.policy.gather_max
            && waited >= i64::from(self.policy.gather_after_seconds)
            && would_help(planned, request)
        {
            self.gathering += 1;
            gather::gather(planned, request, searches);
            return None;
        }
        // Deadlines have a rule of their own (order/deadline/), which knows what a start now would spoil. A
        // reservation as well would only keep other gangs with a deadline from starting.
        if request.terms.deadline.is_some() || self.granted.len() >= self.policy.reservations_max as usize {
            return None;
        }
        let ends = self.ends.get_or_insert_with(|| reserve::Ends::read(planned, self.now));
        let mut later = planned.fork();
        for member in &self.promised {
            if let Some((pod, node)) = later.pod_id(&member.pod).zip(later.node_id(&member.node)) {
                later.assume(pod, node, &member.devices);
            }
        }
        let (start, members) = reserve::reserve(&mut later, request, ends, searches)?;
        let nodes: BTreeSet<NodeName> = members.iter().map(|member| member.node.clone()).collect();
        let reservation =
            Reservation { gang: request.key.clone(), start, nodes: nodes.into_iter().collect() };
        self.promised.extend(members);
        self.nodes.extend(reservation.nodes.iter().cloned());
        self.granted.push(reservation.clone());
        Some(reservation)
    }
}
