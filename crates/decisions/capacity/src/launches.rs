//! What happens to launches: all of a gang's machines are ready and it starts on them, or all are given back.
//!
//! ```text
//!   ordered ─► starting ─► ready: placement finds room for the whole gang ─► used: open to all gangs
//!      │          │          │
//!      └──────────┴──────────┴─► failed: a claim vanished or is late, a node is gone, or no gang came: all given back
//! ```
//!
//! Machines of a launch have the gang's taint until the gang has started. So no other gang is placed on them, and
//! this one only as a whole: the two phases of the commit are placement's own. A failed launch costs at most its size
//! times the time until the failure is seen. That is at once for a claim that vanishes, [`late_after`] for one that
//! reports nothing, and [`UNUSED_MAX`] for one that placement does not use; how soon it may be repeated says
//! `backoff.rs`. Orders that the buyer never takes up cost nothing; after [`TAKEN_UP_MAX`] they are withdrawn, and the
//! waiting gang gets that as its reason.
//!
//! Every wait is measured by our own clock, from the moment at which we saw its beginning: the clock of whoever wrote
//! a claim may be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::names::{GPU_NODE_TAINT, LAUNCH_LABEL};
use cluster_model::{ClusterState, Gang, GangKey, Node, NodeName};
use jiff::{SignedDuration, Timestamp};

use crate::backoff::{MachineKind, Vain};
use crate::catalogue::{Catalogue, OfferKey};
use crate::claim::{Claim, LaunchKey, by_launch};
pub use crate::claim::{Release, UnderWay};
pub use crate::cluster::waits_for_machines;
use crate::memory::{Memory, Ordered, WaitsForSpot};
pub use crate::patience::{RESTORE_SECONDS, late_after};
use crate::reserve;

/// The time after which an order that is not seen did not get through: writes are retried after a second, then two,
/// then four.
pub const SEEN_MAX: SignedDuration = SignedDuration::from_secs(15);
/// The buyer reports on a new claim within seconds. After this long there is no buyer.
pub const TAKEN_UP_MAX: SignedDuration = SignedDuration::from_secs(30);
/// A gang whose machines are ready is placed within a plan or two. After this long something else is in its way.
pub const UNUSED_MAX: SignedDuration = SignedDuration::from_secs(30);

/// Only the scheduler that ordered something remembers why.
const OF_ANOTHER: &str = "ordered by an earlier leader";

/// What to do about launches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Follow {
    /// Claims to give back.
    pub releases: Vec<Release>,
    /// Nodes whose gang has started: they lose its taint.
    pub opens: Vec<NodeName>,
    /// Launches under way, by the gang that waits for them.
    pub under_way: BTreeMap<GangKey, UnderWay>,
    /// Launches that failed: the cloud had no such machine, or the buyer did not take up the order.
    pub failed: usize,
    /// Launches whose machines were paid for in vain.
    pub in_vain: Vec<LaunchKey>,
    /// When something is late.
    pub look_again_at: Option<Timestamp>,
}

/// Looks at every launch that is not over.
pub fn follow(
    state: &ClusterState,
    catalogue: &Catalogue,
    claims: &[Claim],
    memory: &mut Memory,
    now: Timestamp,
) -> Follow {
    let nodes = nodes_by_launch(state);
    let mut following = Following { state, catalogue, nodes, now, follow: Follow::default() };
    let mut launches = by_launch(claims);
    memory.first_seen.retain(|key, _| launches.contains_key(key));
    for key in launches.keys() {
        memory.first_seen.entry((*key).clone()).or_insert(now);
    }
    memory.given_up.retain(|key| launches.get(key).is_some_and(|seen| seen.iter().any(|it| goes(key, it))));
    let ordered: Vec<LaunchKey> = memory.ordered.keys().cloned().collect();
    for key in &ordered {
        let seen = launches.remove(key).unwrap_or_default();
        following.look_at(key, &seen, memory);
    }
    // Ordered under an earlier leader, or given up.
    for (key, seen) in launches {
        following.look_at(key, &seen, memory);
    }
    following.follow
}

struct Following<'a> {
    state: &'a ClusterState,
    catalogue: &'a Catalogue,
    /// The nodes of each launch, by its name. Claims do not decide this: they learn about their nodes later than we
    /// do.
    nodes: BTreeMap<Arc<str>, Vec<&'a Node>>,
    now: Timestamp,
    follow: Follow,
}

/// How a launch stands.
enum LaunchStanding {
    /// Its machines are ordinary ones.
    Over,
    /// Nothing is to be done before then.
    GoesOn { until: Timestamp },
    /// Its gang has started on it.
    Used,
    /// No gang needs it any more.
    Unwanted(&'static str),
    /// The buyer has not taken up the order.
    NotTakenUp,
    /// It failed, because of these offers.
    Failed { why: String, because_of: Vec<OfferKey> },
    /// Machines of these kinds were paid for in vain, because of these offers.
    InVain { how: Vain, why: String, kinds: BTreeSet<MachineKind>, because_of: Vec<OfferKey> },
}

impl Following<'_> {
    fn look_at(&mut self, key: &LaunchKey, seen: &[&Claim], memory: &mut Memory) {
        if let Some(ordered) = memory.ordered.get_mut(key) {
            ordered.seen.extend(seen.iter().map(|claim| Arc::clone(&claim.name)));
        }
        let standing = self.standing(key, seen, memory);
        match standing {
            LaunchStanding::Over => forget(key, memory),
            LaunchStanding::GoesOn { until } => {
                let soonest = self.follow.look_again_at.map_or(until, |at| at.min(until));
                self.follow.look_again_at = Some(soonest);
                self.note_under_way(key, seen, memory);
            }
            LaunchStanding::Used => {
                let reserved = self.nodes_of(key).iter().filter(|node| is_reserved(node));
                let reserved: Vec<NodeName> = reserved.map(|node| node.name.clone()).collect();
                self.follow.opens.extend(reserved);
                // A machine that its gang did not use may still be the one that failed.
                for claim in seen.iter().filter(|claim| claim.ready) {
                    memory.worked(&claim.offer);
                }
                memory.backoff.of_use(&key.purpose);
                forget(key, memory);
            }
            LaunchStanding::Unwanted(why) => self.give_back(key, seen, why, memory),
            LaunchStanding::NotTakenUp => {
                memory.not_taken_up(self.now);
                self.follow.failed += 1;
                self.give_back(key, seen, "the order was not taken up", memory);
            }
            LaunchStanding::Failed { why, because_of } => {
                self.follow.failed += 1;
                self.fail(key, seen, &why, &because_of, memory);
            }
            LaunchStanding::InVain { how, why, kinds, because_of } => {
                for kind in &kinds {
                    memory.backoff.in_vain(&key.purpose, kind, how, &why, self.now);
                }
                self.follow.in_vain.push(key.clone());
                self.fail(key, seen, &why, &because_of, memory);
            }
        }
    }

    fn fail(
        &mut self,
        key: &LaunchKey,
        seen: &[&Claim],
        why: &str,
        because_of: &[OfferKey],
        memory: &mut Memory,
    ) {
        for offer in because_of {
            memory.failed(offer, why, self.now);
        }
        self.begin_patience(key, because_of, memory);
        self.give_back(key, seen, why, memory);
    }

    /// A gang that tried spot in vain has waited for spot since that try began.
    fn begin_patience(&self, key: &LaunchKey, because_of: &[OfferKey], memory: &mut Memory) {
        let Some(gang) = key.gang() else { return };
        if because_of.iter().any(|offer| offer.place.is_spot()) {
            let since = began(key, memory).unwrap_or(self.now);
            memory.waits_for_spot.entry(gang.clone()).or_insert(WaitsForSpot { since, asked: None });
        }
    }

    fn standing(&self, key: &LaunchKey, seen: &[&Claim], memory: &mut Memory) -> LaunchStanding {
        if memory.given_up.contains(key) && !self.is_kept_after_all(key, seen) {
            return LaunchStanding::Unwanted("its launch was given up");
        }
        memory.given_up.remove(key);
        let Some(gang) = key.gang() else { return self.of_spares(key, seen, memory) };
        let nodes = self.nodes_of(key);
        if nodes.iter().any(|node| is_open(node)) {
            let is_kept = nodes.iter().any(|node| is_reserved(node));
            return if is_kept { LaunchStanding::Used } else { LaunchStanding::Over };
        }
        let Some(members) = self.state.gang(gang) else {
            return LaunchStanding::Unwanted("its gang is gone");
        };
        if !waits_for_machines(self.state, gang) {
            return if self.is_used(members, key) {
                LaunchStanding::Used
            } else {
                LaunchStanding::Unwanted("its gang has started elsewhere")
            };
        }
        self.progress(key, seen, memory)
    }

    /// A launch that a gang waits for.
    fn progress(&self, key: &LaunchKey, seen: &[&Claim], memory: &mut Memory) -> LaunchStanding {
        if let Some(failed) = self.failure(key, seen, memory) {
            return failed;
        }
        let of = seen.first().map_or(u32::MAX, |claim| claim.of) as usize;
        let is_ready = seen.len() >= of && seen.iter().all(|claim| claim.ready);
        if !is_ready {
            memory.ready.remove(key);
            return LaunchStanding::GoesOn { until: self.late_at(key, seen, memory) };
        }
        let since = *memory.ready.entry(key.clone()).or_insert(self.now);
        let until = after(since, UNUSED_MAX);
        if until > self.now {
            return LaunchStanding::GoesOn { until };
        }
        let why = format!("ready for {} s without being used", UNUSED_MAX.as_secs());
        let kinds = seen.iter().map(|claim| (&claim.offer).into()).collect();
        LaunchStanding::InVain { how: Vain::Unused, why, kinds, because_of: Vec::new() }
    }

    fn failure(&self, key: &LaunchKey, seen: &[&Claim], memory: &Memory) -> Option<LaunchStanding> {
        let ordered = memory.ordered.get(key);
        if let Some(claim) = seen.iter().find(|claim| claim.leaving) {
            let said = claim.trouble.as_ref().map_or_else(String::new, |trouble| format!(": {trouble}"));
            let why = format!("{} was not available{said}", claim.offer);
            return Some(LaunchStanding::Failed { why, because_of: vec![claim.offer.clone()] });
        }
        let vanished = ordered.and_then(|ordered| {
            let is_there = |name: &Arc<str>| seen.iter().any(|claim| claim.name == *name);
            let name = ordered.seen.iter().find(|name| !is_there(name))?;
            ordered.offer_of(name)
        });
        if let Some(offer) = vanished {
            let why = format!("{offer} was not available");
            return Some(LaunchStanding::Failed { why, because_of: vec![offer.clone()] });
        }
        let of = seen.first().map_or(0, |claim| claim.of as usize);
        match ordered {
            Some(ordered) if ordered.seen.len() < ordered.launch.machines.len() => {
                let is_late = after(ordered.at, SEEN_MAX) <= self.now;
                return is_late.then(|| {
                    let why = "the order did not get through".to_owned();
                    let offers = ordered.launch.machines.iter();
                    let kinds = offers.map(|(offer, _)| offer.into()).collect();
                    LaunchStanding::InVain { how: Vain::Late, why, kinds, because_of: Vec::new() }
                });
            }
            // An earlier leader died while it ordered, or some of it is gone already.
            None if seen.len() < of => {
                let why = "it was ordered in part by a scheduler that is gone".to_owned();
                return Some(LaunchStanding::Failed { why, because_of: Vec::new() });
            }
            _ => {}
        }
        if self.late_at(key, seen, memory) > self.now {
            return None;
        }
        if is_ignored(seen) {
            return Some(LaunchStanding::NotTakenUp);
        }
        let late: Vec<OfferKey> =
            seen.iter().filter(|claim| !claim.ready).map(|claim| claim.offer.clone()).collect();
        let (first, count) = (late.first()?, late.len());
        let why = format!("{count} of {of} machines are late, {first} among them");
        let kinds = late.iter().map(MachineKind::from).collect();
        Some(LaunchStanding::InVain { how: Vain::Late, why, kinds, because_of: late })
    }

    /// Spares are open to all gangs as soon as they are ready.
    fn of_spares(&self, key: &LaunchKey, seen: &[&Claim], memory: &Memory) -> LaunchStanding {
        let Some(ordered) = memory.ordered.get(key) else { return LaunchStanding::Over };
        match self.failure(key, seen, memory) {
            Some(failed) => failed,
            None if seen.len() >= ordered.launch.machines.len() && seen.iter().all(|claim| claim.ready) => {
                LaunchStanding::Used
            }
            None => LaunchStanding::GoesOn { until: self.late_at(key, seen, memory) },
        }
    }

    fn late_at(&self, key: &LaunchKey, seen: &[&Claim], memory: &Memory) -> Timestamp {
        let boot = |claim: &&Claim| self.catalogue.get(&claim.offer.machine).map_or(0, |it| it.boot_seconds);
        let boot_seconds = seen.iter().map(boot).max().unwrap_or(0);
        let began = began(key, memory).unwrap_or(self.now);
        let patience = late_after(boot_seconds);
        after(began, if is_ignored(seen) { patience.min(TAKEN_UP_MAX) } else { patience })
    }

    fn note_under_way(&mut self, key: &LaunchKey, seen: &[&Claim], memory: &Memory) {
        let Some(gang) = key.gang() else { return };
        let ordered = memory.ordered.get(key);
        let mut machines: BTreeMap<OfferKey, u32> = BTreeMap::new();
        let offers: Vec<&OfferKey> = match ordered {
            Some(ordered) => ordered.launch.machines.iter().map(|(offer, _)| offer).collect(),
            None => seen.iter().map(|claim| &claim.offer).collect(),
        };
        for offer in &offers {
            *machines.entry((*offer).clone()).or_default() += 1;
        }
        let since = began(key, memory).unwrap_or(self.now);
        let boot = |offer: &OfferKey| self.catalogue.get(&offer.machine).map_or(0, |it| it.boot_seconds);
        let boot_seconds = machines.keys().map(boot).max().unwrap_or(0);
        let price_micros = match ordered {
            Some(ordered) => ordered.launch.price_micros,
            None => seen.iter().map(|claim| claim.price_micros).sum(),
        };
        let under_way = UnderWay {
            launch: key.clone(),
            ready: u32::try_from(seen.iter().filter(|claim| claim.ready).count()).unwrap_or(u32::MAX),
            of: u32::try_from(offers.len()).unwrap_or(u32::MAX),
            ready_by: after(since, SignedDuration::from_secs(i64::from(boot_seconds))),
            price_micros,
            since,
            machines,
            why: ordered.map_or_else(|| OF_ANOTHER.to_owned(), |ordered| ordered.launch.why.clone()),
        };
        self.follow.under_way.insert(gang.clone(), under_way);
    }

    fn give_back(&mut self, key: &LaunchKey, seen: &[&Claim], why: &str, memory: &mut Memory) {
        let given_up = key.gang().map(|_| key.clone());
        let release = |claim: &Arc<str>, node: Option<NodeName>| Release {
            claim: Arc::clone(claim),
            node,
            given_up: given_up.clone(),
            why: why.to_owned(),
        };
        // Orders that were not seen yet may still come.
        let unseen = memory.ordered.get(key).into_iter().flat_map(Ordered::names);
        let unseen = unseen.filter(|name| seen.iter().all(|claim| claim.name != *name));
        self.follow.releases.extend(unseen.map(|name| release(&name, None)).collect::<Vec<_>>());
        let going = seen.iter().filter(|claim| goes(key, claim) && !claim.leaving);
        self.follow.releases.extend(going.map(|claim| release(&claim.name, claim.node.clone())));
        forget(key, memory);
        memory.given_up.insert(key.clone());
    }

    /// Whether its gang started on a launch before it could be given up, so that nothing of it was given back.
    fn is_kept_after_all(&self, key: &LaunchKey, seen: &[&Claim]) -> bool {
        let gang = key.gang().and_then(|gang| self.state.gang(gang));
        gang.is_some_and(|gang| self.is_used(gang, key)) && !seen.iter().any(|claim| claim.leaving)
    }

    fn is_used(&self, gang: &Gang, key: &LaunchKey) -> bool {
        let mut places = gang.members().filter_map(|pod| self.state.pod(pod).at());
        places.any(|place| {
            let name = self.state.node(place).name();
            self.nodes_of(key).iter().any(|node| node.name == *name)
        })
    }

    fn nodes_of(&self, key: &LaunchKey) -> &[&Node] {
        self.nodes.get(key.name().as_str()).map_or(&[], Vec::as_slice)
    }
}

/// Whether a machine of a launch that is given up goes. Spares are open to all gangs, each for itself: one that is
/// ready stays.
fn goes(launch: &LaunchKey, claim: &Claim) -> bool {
    launch.gang().is_some() || !claim.ready
}

/// When we ordered a launch, or first saw what an earlier leader ordered.
fn began(launch: &LaunchKey, memory: &Memory) -> Option<Timestamp> {
    let ordered = memory.ordered.get(launch).map(|ordered| ordered.at);
    ordered.or_else(|| memory.first_seen.get(launch).copied())
}

fn is_ignored(seen: &[&Claim]) -> bool {
    !seen.is_empty() && seen.iter().all(|claim| !claim.taken_up)
}

/// Whether it is an ordinary machine by now. A node that is about to register has other taints, and not yet that of
/// its gang.
fn is_open(node: &Node) -> bool {
    node.repelling().all(|taint| &*taint.key == GPU_NODE_TAINT)
}

fn is_reserved(node: &Node) -> bool {
    reserve::reserved_for(node).is_some()
}

/// Nodes that were bought, by the name of their launch.
pub fn nodes_by_launch(state: &ClusterState) -> BTreeMap<Arc<str>, Vec<&Node>> {
    let mut found: BTreeMap<Arc<str>, Vec<&Node>> = BTreeMap::new();
    for (_, node) in state.nodes() {
        let Some(node) = node.object() else { continue };
        if let Some(launch) = node.labels.get(LAUNCH_LABEL) {
            found.entry(Arc::clone(launch)).or_default().push(node);
        }
    }
    found
}

fn forget(key: &LaunchKey, memory: &mut Memory) {
    memory.ordered.remove(key);
    memory.ready.remove(key);
}

fn after(moment: Timestamp, wait: SignedDuration) -> Timestamp {
    moment.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
