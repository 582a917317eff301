//! What becomes of launches: all of a gang's machines are ready and it starts on them, or all are given back.
//!
//! ```text
//!   ordered ─► starting ─► ready: placement finds room for the whole gang ─► used: open to everybody
//!      │          │          │
//!      └──────────┴──────────┴─► failed: a claim vanished or is late, a node is gone, or nobody came: all given back
//! ```
//!
//! Machines of a launch bear the gang's taint until it has started, so nobody else is placed on them, and the gang only as a
//! whole: the two phases of the commit are placement's own. A failed launch costs at most its size times the time until the
//! failure is seen: at once for a claim that vanishes, [`late_after`] for one that says nothing, [`UNUSED_MAX`] for one that
//! placement has no use for. Orders that nobody takes up cost nothing; after [`TAKEN_UP_MAX`] they are taken back, and who waits
//! is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::names::{GPU_NODE_TAINT, LAUNCH_LABEL};
use cluster_model::{ClusterState, Gang, GangKey, Node, NodeName};
use jiff::{SignedDuration, Timestamp};

use crate::catalogue::{Catalogue, OfferKey};
use crate::claim::{Claim, LaunchKey, by_launch};
use crate::memory::{Memory, Ordered, WaitsForSpot};
use crate::reserve;

/// An order is seen by then, or did not get through: writes are tried again after a second, then two, then four.
pub const SEEN_MAX: SignedDuration = SignedDuration::from_secs(15);
/// Who buys says something of a new claim within seconds. After this long nobody is there.
pub const TAKEN_UP_MAX: SignedDuration = SignedDuration::from_secs(30);
/// A gang whose machines are ready is placed within a plan or two. After this long something else is in its way.
pub const UNUSED_MAX: SignedDuration = SignedDuration::from_secs(30);
/// From pods on their nodes to work going on: pulling the image, reading the checkpoint.
pub const RESTORE_SECONDS: u32 = 120;
/// On top of twice its boot time, a launch may take this long.
const LATE_SLACK: SignedDuration = SignedDuration::from_secs(60);

/// Why something was ordered is remembered by who ordered it alone.
const OF_ANOTHER: &str = "ordered by a scheduler that led before";

/// How long a launch of machines with this boot time may take.
pub fn late_after(boot_seconds: u32) -> SignedDuration {
    SignedDuration::from_secs(2 * i64::from(boot_seconds)) + LATE_SLACK
}

/// What is to be done about launches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Follow {
    /// Claims to give back.
    pub releases: Vec<Release>,
    /// Nodes whose gang has started: they lose its taint.
    pub opens: Vec<NodeName>,
    /// Launches that go on, by the gang that waits for them.
    pub under_way: BTreeMap<GangKey, UnderWay>,
    /// When something is late.
    pub look_again_at: Option<Timestamp>,
}

/// A machine to give back. If somebody is on its node by the time it is done, it stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The claim.
    pub claim: Arc<str>,
    /// The node that it became.
    pub node: Option<NodeName>,
    /// The launch that it is of, if that is given up before its gang has started: all of it stays if the gang was faster.
    pub given_up: Option<LaunchKey>,
    /// Why.
    pub why: String,
}

/// A launch that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// The launch.
    pub launch: LaunchKey,
    /// How many of its machines are ready.
    pub ready: u32,
    /// How many it has.
    pub of: u32,
    /// When all should be.
    pub ready_by: Timestamp,
    /// What it costs, in millionths of the currency per hour.
    pub price_micros: i64,
    /// When it was ordered.
    pub since: Timestamp,
    /// What was ordered, each kind once with how many.
    pub machines: BTreeMap<OfferKey, u32>,
    /// Why.
    pub why: String,
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
    memory.given_up.retain(|key| launches.get(key).is_some_and(|seen| seen.iter().any(|it| goes(key, it))));
    let ordered: Vec<LaunchKey> = memory.ordered.keys().cloned().collect();
    for key in &ordered {
        let seen = launches.remove(key).unwrap_or_default();
        following.look_at(key, &seen, memory);
    }
    // Of a leader before, or given up.
    for (key, seen) in launches {
        following.look_at(key, &seen, memory);
    }
    following.follow
}

struct Following<'a> {
    state: &'a ClusterState,
    catalogue: &'a Catalogue,
    /// The nodes of each launch, by its name. Not as its claims say: those hear of their nodes later than we do.
    nodes: BTreeMap<Arc<str>, Vec<&'a Node>>,
    now: Timestamp,
    follow: Follow,
}

/// How a launch stands.
enum Standing {
    /// Its machines are ordinary ones.
    Over,
    /// Nothing is to be done before then.
    GoesOn { until: Timestamp },
    /// Its gang has started on it.
    Used,
    /// Nobody needs it any more.
    Unwanted(&'static str),
    /// Nobody has taken up the order.
    NotTakenUp,
    /// It did not come off, because of these offers.
    Failed { why: String, because_of: Vec<OfferKey> },
}

impl Following<'_> {
    fn look_at(&mut self, key: &LaunchKey, seen: &[&Claim], memory: &mut Memory) {
        if let Some(ordered) = memory.ordered.get_mut(key) {
            ordered.seen.extend(seen.iter().map(|claim| Arc::clone(&claim.name)));
        }
        let standing = self.standing(key, seen, memory);
        match standing {
            Standing::Over => forget(key, memory),
            Standing::GoesOn { until } => {
                let soonest = self.follow.look_again_at.map_or(until, |at| at.min(until));
                self.follow.look_again_at = Some(soonest);
                self.note_under_way(key, seen, memory);
            }
            Standing::Used => {
                let reserved = self.nodes_of(key).iter().filter(|node| is_reserved(node));
                let reserved: Vec<NodeName> = reserved.map(|node| node.name.clone()).collect();
                self.follow.opens.extend(reserved);
                // One that its gang did not wait for may still be the one that failed.
                for claim in seen.iter().filter(|claim| claim.ready) {
                    memory.worked(&claim.offer);
                }
                forget(key, memory);
            }
            Standing::Unwanted(why) => self.give_back(key, seen, why, memory),
            Standing::NotTakenUp => {
                memory.not_taken_up(self.now);
                self.give_back(key, seen, "the order was not taken up", memory);
            }
            Standing::Failed { why, because_of } => {
                for offer in &because_of {
                    memory.failed(offer, &why, self.now);
                }
                self.begin_patience(key, seen, &because_of, memory);
                self.give_back(key, seen, &why, memory);
            }
        }
    }

    /// A gang that tried spot in vain has waited for it since that try began.
    fn begin_patience(&self, key: &LaunchKey, seen: &[&Claim], because_of: &[OfferKey], memory: &mut Memory) {
        let Some(gang) = key.gang() else { return };
        if because_of.iter().any(|offer| offer.place.is_spot()) {
            let ordered = memory.ordered.get(key).map(|ordered| ordered.at);
            let since = ordered.or_else(|| seen.iter().map(|claim| claim.created).min()).unwrap_or(self.now);
            memory.waits_for_spot.entry(gang.clone()).or_insert(WaitsForSpot { since, asked: None });
        }
    }

    fn standing(&self, key: &LaunchKey, seen: &[&Claim], memory: &mut Memory) -> Standing {
        if memory.given_up.contains(key) && !self.is_kept_after_all(key, seen) {
            return Standing::Unwanted("its launch was given up");
        }
        memory.given_up.remove(key);
        let Some(gang) = key.gang() else { return self.of_spares(key, seen, memory) };
        let nodes = self.nodes_of(key);
        if nodes.iter().any(|node| is_open(node)) {
            let is_kept = nodes.iter().any(|node| is_reserved(node));
            return if is_kept { Standing::Used } else { Standing::Over };
        }
        let Some(members) = self.state.gang(gang) else { return Standing::Unwanted("its gang is no more") };
        if !waits_for_machines(self.state, gang) {
            return if self.is_used(members, key) {
                Standing::Used
            } else {
                Standing::Unwanted("its gang has started elsewhere")
            };
        }
        self.progress(key, seen, memory)
    }

    /// A launch that somebody waits for.
    fn progress(&self, key: &LaunchKey, seen: &[&Claim], memory: &mut Memory) -> Standing {
        if let Some(failed) = self.failure(key, seen, memory.ordered.get(key)) {
            return failed;
        }
        let of = seen.first().map_or(u32::MAX, |claim| claim.of) as usize;
        let is_ready = seen.len() >= of && seen.iter().all(|claim| claim.ready);
        if !is_ready {
            memory.ready.remove(key);
            return Standing::GoesOn { until: self.late_at(key, seen, memory.ordered.get(key)) };
        }
        let since = *memory.ready.entry(key.clone()).or_insert(self.now);
        let until = after(since, UNUSED_MAX);
        if until > self.now {
            return Standing::GoesOn { until };
        }
        let why = format!("ready for {} s without being used", UNUSED_MAX.as_secs());
        Standing::Failed { why, because_of: Vec::new() }
    }

    fn failure(&self, key: &LaunchKey, seen: &[&Claim], ordered: Option<&Ordered>) -> Option<Standing> {
        if let Some(claim) = seen.iter().find(|claim| claim.leaving) {
            let said = claim.trouble.as_ref().map_or_else(String::new, |trouble| format!(": {trouble}"));
            let why = format!("{} was not to be had{said}", claim.offer);
            return Some(Standing::Failed { why, because_of: vec![claim.offer.clone()] });
        }
        let vanished = ordered.and_then(|ordered| {
            let is_there = |name: &Arc<str>| seen.iter().any(|claim| claim.name == *name);
            let name = ordered.seen.iter().find(|name| !is_there(name))?;
            ordered.offer_of(name)
        });
        if let Some(offer) = vanished {
            let why = format!("{offer} was not to be had");
            return Some(Standing::Failed { why, because_of: vec![offer.clone()] });
        }
        let of = seen.first().map_or(0, |claim| claim.of as usize);
        match ordered {
            Some(ordered) if ordered.seen.len() < ordered.launch.machines.len() => {
                let is_late = after(ordered.at, SEEN_MAX) <= self.now;
                let why = "the order did not get through".to_owned();
                return is_late.then_some(Standing::Failed { why, because_of: Vec::new() });
            }
            // A leader before died while it ordered, or some of it is gone already.
            None if seen.len() < of => {
                let why = "it was ordered in part by a scheduler that is no more".to_owned();
                return Some(Standing::Failed { why, because_of: Vec::new() });
            }
            _ => {}
        }
        if self.late_at(key, seen, ordered) > self.now {
            return None;
        }
        if is_ignored(seen) {
            return Some(Standing::NotTakenUp);
        }
        let late: Vec<OfferKey> =
            seen.iter().filter(|claim| !claim.ready).map(|claim| claim.offer.clone()).collect();
        let (first, count) = (late.first()?, late.len());
        let why = format!("{count} of {of} machines are late, {first} among them");
        Some(Standing::Failed { why, because_of: late })
    }

    /// Spares are there for everybody as soon as they are ready.
    fn of_spares(&self, key: &LaunchKey, seen: &[&Claim], memory: &Memory) -> Standing {
        let Some(ordered) = memory.ordered.get(key) else { return Standing::Over };
        match self.failure(key, seen, Some(ordered)) {
            Some(failed) => failed,
            None if seen.len() >= ordered.launch.machines.len() && seen.iter().all(|claim| claim.ready) => {
                Standing::Used
            }
            None => Standing::GoesOn { until: self.late_at(key, seen, Some(ordered)) },
        }
    }

    fn late_at(&self, key: &LaunchKey, seen: &[&Claim], ordered: Option<&Ordered>) -> Timestamp {
        let began = seen.iter().map(|claim| claim.created).min().or(ordered.map(|ordered| ordered.at));
        let boot = |claim: &&Claim| self.catalogue.get(&claim.offer.machine).map_or(0, |it| it.boot_seconds);
        let boot_seconds = seen.iter().map(boot).max().unwrap_or(0);
        let began = began.or_else(|| Timestamp::from_second(key.number).ok()).unwrap_or(self.now);
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
        let since = ordered.map(|it| it.at).or_else(|| seen.iter().map(|claim| claim.created).min());
        let since = since.unwrap_or(self.now);
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

/// Whether nobody of a gang is placed yet: only then are machines bought for it.
pub fn waits_for_machines(state: &ClusterState, gang: &GangKey) -> bool {
    state.gang(gang).is_some_and(|gang| gang.members().all(|pod| state.pod(pod).at().is_none()))
}

/// Whether a machine of a launch that is given up goes. Spares are for everybody, each for itself: one that is ready stays.
fn goes(launch: &LaunchKey, claim: &Claim) -> bool {
    launch.gang().is_some() || !claim.ready
}

fn is_ignored(seen: &[&Claim]) -> bool {
    !seen.is_empty() && seen.iter().all(|claim| !claim.taken_up)
}

/// Whether it is an ordinary machine by now. One that is about to register has no taint of its gang yet, but others.
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
