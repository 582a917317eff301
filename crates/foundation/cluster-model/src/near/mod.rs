//! Which pods are near which: what pods ask of other pods, counted so that a node is judged without a look at its
//! pods.
//!
//! ```text
//!   Neighbours of a pod ──► tallies   pods wanted, avoided, avoiding or alike, by domain              tally.rs
//!                              └─► areas   which node is in which domain of a label, and counts       areas.rs
//!   labels of a pod ─────► leading ──► the tallies that it counts in, found by a label that decides   leading.rs
//!   may a pod go to a node? ──► its own tallies, and those of pods that keep it away                  refusal.rs
//!   too much to count all of it? ──► some pods wait                                                   bounds.rs
//! ```
//!
//! A tally is there as long as some pod asks for it, whether that pod has a node or not. Pods enter and leave tallies as
//! they come, go, are assumed, held or evicted, in forks too; a tally costs one step for each pod that it counts.
//!
//! The rules are those of kube-scheduler's filters `InterPodAffinity` and `PodTopologySpread`.

mod areas;
mod bounds;
mod door;
mod label_set;
mod leading;
mod neighbours;
mod refusal;
mod refused;
mod rule;
mod scope;
mod tally;
mod texts;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use self::areas::{AreaKey, Areas, Inclusion};
use self::leading::Leading;
use self::tally::{Tally, TallyId, TallyKey, Who};
use self::texts::Texts;
use crate::nodes::{NodeId, Nodes};
use crate::objects::{Node, Pod};
use crate::pods::{PodId, PodState};
use crate::slots::Slots;

pub use self::label_set::{LabelSet, Operator, Requirement, Selector};
pub use self::neighbours::{Neighbours, PodTerm, Scope, SpreadConstraint};
pub use self::refused::{Apart, NearRefusal};
pub use self::rule::NearRule;

/// Everything that is counted of neighbours.
#[derive(Clone, Debug, Default)]
pub(crate) struct Near {
    tallies: Slots<Tally>,
    ids: HashMap<Arc<TallyKey>, TallyId>,
    areas: Areas,
    leading: Leading,
    /// How each pod relates to tallies, by its number; most do not.
    of_pod: Vec<Option<Box<OfPod>>>,
    /// Labels of the namespaces that are there.
    namespaces: BTreeMap<Arc<str>, LabelSet>,
    texts: Texts,
    /// Tallies that no pod asked for at some moment of this change.
    unused: Vec<TallyId>,
    /// Waiting pods that ask for more than is counted at a time.
    beyond: BTreeSet<PodId>,
}

/// How a pod relates to tallies.
#[derive(Clone, Debug, Default)]
struct OfPod {
    /// Tallies that count it.
    counted_in: Vec<TallyId>,
    /// Tallies of pods that keep it away, sorted by what they are: the first that refuses is given as the reason, and
    /// must not depend on which came first.
    avoided_by: Vec<TallyId>,
    own: Own,
}

/// Tallies that a pod asks for.
#[derive(Clone, Debug, Default)]
struct Own {
    /// One for each label by which some pod must be near.
    wanted: Vec<TallyId>,
    avoided: Vec<TallyId>,
    /// The pod itself is counted in these.
    avoiding: Vec<TallyId>,
    spread: Vec<OwnSpread>,
}

#[derive(Clone, Copy, Debug)]
struct OwnSpread {
    tally: TallyId,
    /// One if the pod is among those that it spreads with.
    itself: u32,
    skew_max: u32,
    domains_min: u32,
}

impl OfPod {
    fn is_empty(&self) -> bool {
        self.counted_in.is_empty() && self.avoided_by.is_empty() && self.own.is_empty()
    }
}

impl Own {
    fn all(&self) -> impl Iterator<Item = TallyId> {
        let lists = self.wanted.iter().chain(&self.avoided).chain(&self.avoiding).copied();
        lists.chain(self.spread.iter().map(|spread| spread.tally))
    }

    fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }
}

impl Near {
    /// Lets a new pod share what others have too. Call it before [`Self::enter`].
    pub fn share(&mut self, pod: &mut Pod) {
        self.texts.enter(pod);
    }

    /// A pod is there from now on; it does not count on a node yet.
    pub fn enter(&mut self, id: PodId, pods: &Slots<PodState>, nodes: &Nodes) {
        let state = pods.get(id.0);
        self.leading.add_pod(id, state);
        for tally in self.leading.tallies_of(state) {
            self.mean(tally, id, pods);
        }
        if let Some(neighbours) = &state.pod.neighbours {
            if self.is_beyond(&state.pod, neighbours) {
                self.beyond.insert(id);
                return;
            }
            let own = self.ask(&state.pod, neighbours, pods, nodes);
            self.entry(id).own = own;
        }
    }

    /// A pod that does not count on any node is gone.
    pub fn leave(&mut self, id: PodId, state: &PodState) {
        self.beyond.remove(&id);
        self.leading.remove_pod(id, state);
        self.texts.leave(&state.pod);
        let Some(of_pod) = self.of_pod.get_mut(id.0 as usize).and_then(Option::take) else { return };
        for tally in of_pod.counted_in.iter().chain(&of_pod.avoided_by) {
            self.tallies.get_mut(tally.0).meant.remove(&id);
        }
        for tally in of_pod.own.all() {
            let users = &mut self.tallies.get_mut(tally.0).users;
            *users -= 1;
            if *users == 0 {
                self.unused.push(tally);
            }
        }
    }

    /// Forgets tallies that no pod asks for. Done at the end of a change, because a pod that changes leaves and comes
    /// back.
    pub fn sweep(&mut self, pods: &Slots<PodState>, nodes: &Nodes) {
        let before = self.bounded();
        for id in std::mem::take(&mut self.unused) {
            if self.tallies.find(id.0).is_none_or(|tally| tally.users > 0) {
                continue;
            }
            let tally = self.tallies.remove(id.0);
            self.ids.remove(&tally.what);
            self.areas.leave(tally.area);
            self.leading.remove_tally(id, tally.what.who.leading());
            for pod in tally.meant {
                self.unlist(pod, id);
            }
        }
        if self.bounded() != before {
            self.count_beyond(pods, nodes);
        }
    }

    /// Counts a pod on its node, or stops counting it.
    pub fn count(&mut self, id: PodId, state: &PodState, add: bool) {
        let of_pod = self.of_pod.get(id.0 as usize).and_then(Option::as_ref);
        let (Some(of_pod), Some(node)) = (of_pod, state.at) else { return };
        for tally in of_pod.counted_in.iter().chain(&of_pod.own.avoiding) {
            let tally = self.tallies.get_mut(tally.0);
            let spot = self.areas.get(tally.area).spot(node).filter(|spot| spot.counts);
            if let Some(spot) = spot.filter(|_| tally.what.who.counts(state)) {
                tally.count(spot.value, add);
            }
        }
    }

    /// Whether this change of a node may matter here.
    pub fn looks_at(&self, old: Option<&Node>, new: Option<&Node>) -> bool {
        let is_same = match (old, new) {
            (Some(old), Some(new)) => old.labels == new.labels && old.taints == new.taints,
            (None, None) => true,
            _ => false,
        };
        !self.areas.is_empty() && !is_same
    }

    /// A node is new, different or gone. No pod on it may be counted at that time.
    pub fn set_node(&mut self, id: NodeId, node: Option<&Node>) {
        self.areas.set_node(id, node);
    }

    /// The labels of a namespace, if it is there.
    pub fn namespace(&self, name: &str) -> Option<&LabelSet> {
        self.namespaces.get(name)
    }

    /// Every namespace that is there, by name.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Arc<str>, &LabelSet)> {
        self.namespaces.iter()
    }

    /// A namespace with these pods has these labels, or with `None` is not there.
    pub fn set_namespace(
        &mut self,
        name: &Arc<str>,
        labels: Option<LabelSet>,
        members: &BTreeSet<PodId>,
        pods: &Slots<PodState>,
    ) {
        match labels {
            Some(labels) => drop(self.namespaces.insert(name.clone(), labels)),
            None => drop(self.namespaces.remove(name)),
        }
        let asks = |(id, tally): (u32, &Tally)| tally.what.who.looks_at_namespaces().then_some(TallyId(id));
        let tallies: Vec<TallyId> = self.tallies.iter().filter_map(asks).collect();
        for &pod in members {
            for &tally in &tallies {
                let state = pods.get(pod.0);
                self.count(pod, state, false);
                if self.tallies.get_mut(tally.0).meant.remove(&pod) {
                    self.unlist(pod, tally);
                }
                self.count(pod, state, true);
                self.mean(tally, pod, pods);
            }
        }
    }

    /// Lists a pod in a tally, if the tally selects it. The pod counts there at once if it has a node.
    fn mean(&mut self, id: TallyId, pod: PodId, pods: &Slots<PodState>) {
        let state = pods.get(pod.0);
        let tally = self.tallies.get_mut(id.0);
        let namespace = self.namespaces.get(&state.pod.key.namespace);
        if !tally.what.who.means(&state.pod, namespace) || !tally.meant.insert(pod) {
            return;
        }
        if tally.what.who.counts_askers() {
            return self.list_avoiding(id, pod);
        }
        let spot = state.at.and_then(|node| self.areas.get(tally.area).spot(node));
        if let Some(spot) = spot.filter(|spot| spot.counts && tally.what.who.counts(state)) {
            tally.count(spot.value, true);
        }
        self.entry(pod).counted_in.push(id);
    }

    fn list_avoiding(&mut self, id: TallyId, pod: PodId) {
        let is_before = |other: &TallyId| self.tallies.get(other.0).what < self.tallies.get(id.0).what;
        let of_pod = self.of_pod.get(pod.0 as usize).and_then(Option::as_ref);
        let at = of_pod.map_or(0, |of_pod| of_pod.avoided_by.partition_point(is_before));
        self.entry(pod).avoided_by.insert(at, id);
    }

    /// Removes a pod from a tally, and from its count.
    fn unlist(&mut self, pod: PodId, tally: TallyId) {
        let Some(slot) = self.of_pod.get_mut(pod.0 as usize) else { return };
        if let Some(of_pod) = slot {
            of_pod.counted_in.retain(|other| *other != tally);
            of_pod.avoided_by.retain(|other| *other != tally);
            if of_pod.is_empty() {
                *slot = None;
            }
        }
    }

    fn entry(&mut self, pod: PodId) -> &mut OfPod {
        let index = pod.0 as usize;
        if self.of_pod.len() <= index {
            self.of_pod.resize_with(index + 1, || None);
        }
        self.of_pod[index].get_or_insert_default()
    }

    /// The tallies that a pod asks for, created if they are missing.
    fn ask(&mut self, pod: &Pod, asks: &Neighbours, pods: &Slots<PodState>, nodes: &Nodes) -> Own {
        own(pod, asks, |what| self.enter_tally(what, pods, nodes))
    }

    fn enter_tally(&mut self, what: TallyKey, pods: &Slots<PodState>, nodes: &Nodes) -> TallyId {
        if let Some(id) = self.ids.get(&what) {
            self.tallies.get_mut(id.0).users += 1;
            return *id;
        }
        let all = nodes.iter().map(|(id, node)| (id, node.object()));
        let area = self.areas.enter(what.area.clone(), all);
        let what = Arc::new(what);
        let id = TallyId(self.tallies.insert(Tally::new(what.clone(), area)));
        self.ids.insert(what.clone(), id);
        for pod in self.leading.add_tally(id, what.who.leading(), pods) {
            self.mean(id, pod, pods);
        }
        id
    }

    /// What is counted, in plain texts, to compare two states.
    pub fn dump(&self, pods: &Slots<PodState>) -> BTreeMap<String, TallyDump> {
        let used = self.tallies.iter().filter(|(_, tally)| tally.users > 0);
        let dump = |tally: &Tally| {
            let area = self.areas.get(tally.area);
            let key = |pod: &PodId| pods.get(pod.0).pod.key.to_string();
            TallyDump {
                users: tally.users,
                meant: tally.meant.iter().map(key).collect(),
                pods: tally.by_value().map(|(value, pods)| (area.text(value).clone(), pods)).collect(),
                domains: area.values().into_keys().cloned().collect(),
                fewest: tally.fewest(area.domains()),
            }
        };
        used.map(|(_, tally)| (format!("{:?}", tally.what), dump(tally))).collect()
    }
}

/// The tallies that a pod asks for, each created from its key.
fn own(pod: &Pod, asks: &Neighbours, mut enter: impl FnMut(TallyKey) -> TallyId) -> Own {
    let mut own = Own::default();
    let mut ask = |who: Who, area: AreaKey| enter(TallyKey { who, area });
    let keys: BTreeSet<&Arc<str>> = asks.affinity.iter().map(|term| &term.topology_key).collect();
    let scopes: BTreeSet<&Scope> = asks.affinity.iter().map(|term| &term.scope).collect();
    for key in keys {
        own.wanted.push(ask(Who::Wanted(scopes.iter().copied().cloned().collect()), AreaKey::of(key)));
    }
    for term in asks.anti_affinity.iter().collect::<BTreeSet<_>>() {
        let area = AreaKey::of(&term.topology_key);
        own.avoided.push(ask(Who::Avoided(term.scope.clone()), area.clone()));
        own.avoiding.push(ask(Who::Avoiding(term.scope.clone()), area));
    }
    for constraint in &asks.spread {
        let selector = constraint.selector.clone();
        let itself = selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels));
        let who = Who::Alike(pod.key.namespace.clone(), selector);
        own.spread.push(OwnSpread {
            tally: ask(who, spread_area(pod, asks, constraint)),
            itself: u32::from(itself),
            skew_max: constraint.skew_max,
            domains_min: constraint.domains_min,
        });
    }
    own
}

/// The nodes that a constraint looks at: they have the labels of all constraints of the pod.
fn spread_area(pod: &Pod, asks: &Neighbours, constraint: &SpreadConstraint) -> AreaKey {
    let keys = asks.spread.iter().map(|other| &other.topology_key);
    let mut inclusion = Inclusion::default();
    if constraint.honours_node_affinity {
        inclusion.node_selector.clone_from(&pod.node_selector);
        inclusion.node_affinity.clone_from(&pod.node_affinity);
    }
    if constraint.honours_node_taints {
        inclusion.tolerations = Some(pod.tolerations.clone());
    }
    AreaKey {
        key: constraint.topology_key.clone(),
        beside: keys.filter(|key| **key != constraint.topology_key).cloned().collect(),
        inclusion,
    }
}

/// One tally of a [`crate::Dump`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TallyDump {
    /// How many pods ask for it.
    pub users: u32,
    /// The pods that it selects.
    pub meant: BTreeSet<String>,
    /// How many pods count in each domain that has any.
    pub pods: BTreeMap<Arc<str>, u32>,
    /// The domains that count.
    pub domains: BTreeSet<Arc<str>>,
    /// The fewest in any domain.
    pub fewest: u32,
}
