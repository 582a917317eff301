//! Which machines are given back because nothing uses them, and which are kept or bought as spares.
//!
//! A machine goes after it had no pods for its idle time. Demand that comes and goes faster than that buys nothing
//! new, so a threshold that is crossed to and fro costs at most one launch per idle time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::{ClusterState, NodeName};
use jiff::{SignedDuration, Timestamp};

use crate::catalogue::Catalogue;
use crate::claim::{Claim, LaunchKey, Purpose};
pub use crate::cluster::is_empty;
use crate::launches::Release;
use crate::memory::Memory;

/// What to do about machines that nothing uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// Machines to give back.
    pub releases: Vec<Release>,
    /// How many spares are missing, by machine type.
    pub spares_missing: BTreeMap<Arc<str>, u32>,
    /// When the next machine has been idle for long enough.
    pub look_again_at: Option<Timestamp>,
}

/// Looks at every machine that belongs to no launch under way.
pub fn idle(
    state: &ClusterState,
    catalogue: &Catalogue,
    claims: &[Claim],
    going_on: &BTreeSet<LaunchKey>,
    memory: &mut Memory,
    now: Timestamp,
) -> Idle {
    let mut found = Idle::default();
    let settled = |claim: &&Claim| !going_on.contains(&claim.launch) && !claim.leaving;
    let empty: Vec<&Claim> =
        claims.iter().filter(settled).filter(|claim| is_empty(state, claim.node.as_ref())).collect();
    let names: BTreeSet<&Arc<str>> = empty.iter().map(|claim| &claim.name).collect();
    memory.idle.retain(|name, _| names.contains(name));
    let mut by_type: BTreeMap<&Arc<str>, Vec<(Timestamp, &Claim)>> = BTreeMap::new();
    for claim in empty {
        let since = *memory.idle.entry(Arc::clone(&claim.name)).or_insert(now);
        by_type.entry(&claim.offer.machine).or_default().push((since, claim));
    }
    for machine in catalogue.values() {
        let found_idle = by_type.remove(&machine.name).unwrap_or_default();
        let (mut idle, closed): (Vec<_>, Vec<_>) =
            found_idle.into_iter().partition(|(_, claim)| is_open(state, claim.node.as_ref()));
        // The dearest go first; of equals, those that were idle for longest.
        idle.sort_by_key(|(since, claim)| {
            (claim.price_micros, std::cmp::Reverse(*since), Arc::clone(&claim.name))
        });
        let coming = claims.iter().filter(|claim| is_coming_spare(claim, &machine.name, going_on)).count();
        let kept = idle.len().min(machine.spares as usize);
        // A closed machine is replaced only once it is gone, so that whatever closes machines does not buy more and
        // more of them.
        let missing = (machine.spares as usize).saturating_sub(kept + coming + closed.len());
        if missing > 0 {
            found
                .spares_missing
                .insert(Arc::clone(&machine.name), u32::try_from(missing).unwrap_or(u32::MAX));
        }
        // A closed machine is not a spare.
        for (since, claim) in idle.split_off(kept).into_iter().chain(closed) {
            found.consider(claim, since, machine.idle_seconds, now);
        }
    }
    // A machine that is in no catalogue any more is not a spare.
    for (since, claim) in by_type.into_values().flatten() {
        found.consider(claim, since, 0, now);
    }
    found
}

impl Idle {
    fn consider(&mut self, claim: &Claim, since: Timestamp, idle_seconds: u32, now: Timestamp) {
        let idle_for = SignedDuration::from_secs(i64::from(idle_seconds));
        let due = since.saturating_add(idle_for).unwrap_or(Timestamp::MAX);
        if due > now {
            self.look_again_at = Some(self.look_again_at.map_or(due, |at| at.min(due)));
            return;
        }
        self.releases.push(Release {
            claim: Arc::clone(&claim.name),
            node: claim.node.clone(),
            given_up: None,
            why: format!("no pods for {idle_seconds} s"),
        });
    }
}

fn is_coming_spare(claim: &Claim, machine: &Arc<str>, going_on: &BTreeSet<LaunchKey>) -> bool {
    let is_spare = matches!(&claim.launch.purpose, Purpose::Spare(_));
    is_spare && claim.offer.machine == *machine && going_on.contains(&claim.launch) && !claim.leaving
}

/// Whether the node is there to stay: neither closed by us, because a gang has moved off it, nor being deleted. A
/// cordoned node is, as far as we know.
fn is_open(state: &ClusterState, node: Option<&NodeName>) -> bool {
    node.and_then(|name| state.node_object(name)).is_none_or(|node| node.schedulable)
}
