//! Which gangs may be moved at all, off which machines, and what they would lose.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::{ClusterState, Gang, GangKey, NodeName, Place, Pod, Terms};
use jiff::{SignedDuration, Timestamp};

use super::alternative::price_now;
use super::candidate::{Candidate, Mover};
use super::line::line;
use crate::claim::Claim;
use crate::launches::late_after;
use crate::memory::Memory;
use crate::reserve;
use crate::spot::{RunMachine, SpotRun, TimeLeft};
use crate::view::View;

/// The most gangs that leave one machine: each loses something, and all must find room at the same time.
const GANGS_MAX: usize = 4;
/// No gang is expected to go on for longer than this: nobody knows the prices of the day after tomorrow.
const SECONDS_LEFT_MAX: i64 = 24 * 3600;
/// The longest time between two checks of a deadline.
const TICK_SECONDS: u32 = 60;

/// All candidates, and the bought machines that are in use or could be, by their nodes.
pub(super) fn candidates<'a>(
    view: &View<'a>,
    memory: &Memory,
) -> (BTreeMap<&'a NodeName, &'a Claim>, Vec<Candidate<'a>>) {
    let settled = view.claims.iter().filter(|claim| is_settled(view.state, claim, memory));
    let bought: BTreeMap<&NodeName, &Claim> =
        settled.filter_map(|claim| Some((claim.node.as_ref()?, claim))).collect();
    let there: BTreeMap<&NodeName, BTreeSet<&GangKey>> =
        bought.keys().map(|node| (*node, gangs_on(view.state, node))).collect();
    let waiting = waiting_queues(view.state);
    let movers: BTreeMap<&GangKey, Mover<'_>> = there
        .values()
        .flatten()
        .filter_map(|&gang| Some((gang, Mover::read(view, gang, &waiting)?)))
        .filter(|(_, mover)| memory.moves.may_move(&mover.line, view.now))
        .collect();
    let candidate = |gangs: &BTreeSet<&GangKey>, nodes: &BTreeSet<&NodeName>, may_buy| {
        let movers: Option<Vec<Mover<'_>>> = gangs.iter().map(|gang| movers.get(gang).cloned()).collect();
        Candidate::new(view, movers?, nodes, &bought, may_buy)
    };
    let is_alone = |mover: &&Mover<'_>| {
        mover.pods.len() > 1 && mover.nodes.iter().all(|node| there.get(node).is_some_and(|it| it.len() == 1))
    };
    let alone = movers.values().filter(is_alone);
    let mut found: Vec<Candidate<'_>> =
        alone.filter_map(|mover| candidate(&[mover.gang].into(), &mover.nodes, true)).collect();
    let is_known = |node: &NodeName| {
        found.iter().any(|it| it.leaves.len() == 1 && it.leaves[0].node.as_ref() == Some(node))
    };
    let shared = there.iter().filter(|(node, gangs)| !gangs.is_empty() && !is_known(node));
    let shared: Vec<Candidate<'_>> =
        shared.filter_map(|(node, gangs)| candidate(gangs, &[*node].into(), false)).collect();
    found.extend(shared);
    (bought, found)
}

impl<'a> Candidate<'a> {
    fn new(
        view: &View<'_>,
        movers: Vec<Mover<'a>>,
        leaves: &BTreeSet<&NodeName>,
        bought: &BTreeMap<&NodeName, &'a Claim>,
        may_buy: bool,
    ) -> Option<Self> {
        let of = |nodes: &BTreeSet<&NodeName>| -> Vec<&'a Claim> {
            nodes.iter().filter_map(|node| bought.get(node).copied()).collect()
        };
        let price = |claims: &[&Claim]| claims.iter().map(|claim| price_now(view, claim)).sum::<i64>();
        let used: BTreeSet<&NodeName> = movers.iter().flat_map(|mover| mover.nodes.iter().copied()).collect();
        let (leaves, used) = (of(leaves), of(&used));
        let boot = |claim: &&Claim| view.catalogue.get(&claim.offer.machine).map_or(0, |it| it.boot_seconds);
        let boot_seconds = leaves.iter().map(boot).max()?;
        let settled = late_after(boot_seconds);
        let has_settled = |mover: &Mover<'_>| view.now.duration_since(mover.started) >= settled;
        let (old_micros, used_micros) = (price(&leaves), price(&used));
        (movers.len() <= GANGS_MAX && movers.iter().all(has_settled)).then_some(Self {
            movers,
            leaves,
            old_micros,
            used_micros,
            boot_seconds,
            may_buy,
        })
    }

    /// Saving, and work since the last save, of the gang that loses most.
    pub fn lost_seconds(&self) -> i64 {
        self.movers.iter().map(Mover::lost_seconds).max().unwrap_or(0)
    }

    /// How long they may take to leave.
    pub fn grace(&self) -> SignedDuration {
        SignedDuration::from_secs(self.movers.iter().map(|mover| mover.grace_seconds).max().unwrap_or(0))
    }
}

impl<'a> Mover<'a> {
    /// A gang that runs whole, saves its state and comes back, if nothing protects it.
    fn read(view: &View<'a>, key: &'a GangKey, waiting: &BTreeSet<String>) -> Option<Self> {
        let (state, now) = (view.state, view.now);
        let gang = state.gang(key)?;
        let members: Vec<_> = gang.members().map(|pod| state.pod(pod)).collect();
        let runs = members.iter().all(|it| it.place() == Some(Place::Bound) && !it.pod().terminating);
        let pods: Vec<&Pod> = members.iter().map(|it| it.pod()).collect();
        let lead = state.pod(gang.lead()).pod();
        let saves = lead.terms.eviction.checkpoints && !lead.terms.eviction.never;
        let is_left_alone = gang.is_leaving() || gang.ended() > 0 || gang.held() > 0;
        let deadline = lead.terms.deadline;
        // The work left of a run without a limit is a guess, and guesses keep no deadline.
        let is_reckoned = deadline.is_none() || lead.terms.time_limit_seconds.is_some();
        let comes_back = pods.iter().all(|pod| pod.comes_back);
        if !runs || !saves || is_left_alone || !is_reckoned || !comes_back {
            return None;
        }
        if waiting.contains(&queue_of(state, lead)?) || !budgets_allow(state, &pods) {
            return None;
        }
        let started = gang.started()?;
        let last_save = pods.iter().filter_map(|pod| pod.checkpointed).max();
        let nodes = pods.iter().filter_map(|pod| pod.node.as_ref()).collect();
        let grace_seconds = pods.iter().map(|pod| i64::from(pod.grace_seconds)).max().unwrap_or(0);
        Some(Self {
            gang: key,
            line: line(lead),
            nodes,
            started,
            seconds_left: seconds_left(state, gang, now),
            limit_seconds_left: limit_seconds_left(state, gang, started, now),
            unsaved_seconds: (now.as_second() - last_save.max(Some(started))?.as_second()).max(0),
            grace_seconds,
            deadline,
            pods,
        })
    }

    /// What its next attempt asks for: of its time limit, only what is left.
    pub fn terms_anew(&self) -> Terms {
        let left = self.limit_seconds_left.map(|left| u32::try_from(left.max(1)).unwrap_or(u32::MAX));
        Terms { time_limit_seconds: left, ..(*self.pods[0].terms).clone() }
    }

    fn lost_seconds(&self) -> i64 {
        self.grace_seconds + self.unsaved_seconds
    }

    /// Whether it ends in time although it moves, and then still has what the guard of spot asks for.
    pub fn keeps_deadline(&self, changeover_seconds: i64, now: Timestamp) -> bool {
        let Some(deadline) = self.deadline else { return true };
        let bounded = |seconds: i64| u32::try_from(seconds.max(0)).unwrap_or(u32::MAX);
        let run = SpotRun {
            work_left_seconds: bounded(self.limit_seconds_left.unwrap_or(i64::MAX)),
            time_left: TimeLeft::Deadline(bounded(deadline.as_second() - now.as_second())),
            changeover_seconds: bounded(changeover_seconds),
            lost_work_seconds_max: bounded(self.lost_seconds()),
            ceiling: None,
            machine: RunMachine::Nothing,
        };
        let after = run.laxity_seconds() - changeover_seconds - self.lost_seconds();
        after >= run.guard_seconds(TICK_SECONDS)
    }
}

/// How long a gang is expected to go on: as long as usual, or as long again as it has run; never beyond its time limit.
pub(super) fn seconds_left(state: &ClusterState, gang: &Gang, now: Timestamp) -> i64 {
    let Some(started) = gang.started() else { return 0 };
    let age = now.as_second() - started.as_second();
    let usual = state.history().expected_seconds(&gang.key().namespace, gang.gpus_placed(), now);
    let expected = (usual - age).max(age).clamp(0, SECONDS_LEFT_MAX);
    expected.min(limit_seconds_left(state, gang, started, now).unwrap_or(i64::MAX))
}

/// Until its time limit ends a gang.
fn limit_seconds_left(state: &ClusterState, gang: &Gang, started: Timestamp, now: Timestamp) -> Option<i64> {
    let limit = state.pod(gang.lead()).pod().terms.time_limit_seconds?;
    Some((started.as_second() + i64::from(limit) - now.as_second()).max(0))
}

/// A machine that is open to all gangs, ready, and of no launch under way.
fn is_settled(state: &ClusterState, claim: &Claim, memory: &Memory) -> bool {
    let node = claim.node.as_ref().and_then(|name| state.node_object(name));
    let is_of_launch = memory.ordered.contains_key(&claim.launch) || memory.given_up.contains(&claim.launch);
    let is_open = node.is_some_and(|node| reserve::reserved_for(node).is_none());
    claim.ready && is_open && !claim.leaving && !is_of_launch && !memory.moves.leaves(&claim.name)
}

/// Gangs with a pod of ours on a node, or meant for it.
pub(super) fn gangs_on<'a>(state: &'a ClusterState, node: &NodeName) -> BTreeSet<&'a GangKey> {
    let pods = state.node_id(node).into_iter().flat_map(|node| state.node(node).pods());
    pods.map(|pod| state.pod(pod).pod()).filter(|pod| pod.ours).map(|pod| &pod.gang).collect()
}

fn waiting_queues(state: &ClusterState) -> BTreeSet<String> {
    let leads = state.waiting_gangs().filter_map(|gang| Some(state.pod(state.gang(gang)?.lead()).pod()));
    leads.filter_map(|lead| queue_of(state, lead)).collect()
}

fn queue_of(state: &ClusterState, pod: &Pod) -> Option<String> {
    state.queue_of(pod).ok().map(ToString::to_string)
}

/// Whether every budget lets as many pods leave as it covers.
fn budgets_allow(state: &ClusterState, pods: &[&Pod]) -> bool {
    state.budgets().all(|budget| {
        let covered = pods.iter().filter(|pod| budget.covers(pod)).count();
        covered <= budget.allowed.saturating_sub(budget.told) as usize
    })
}
