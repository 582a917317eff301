//! Classes of nodes in the order in which members of one shape take them, kept from gang to gang and from plan to plan.
//!
//! ```text
//!   classes that got nodes since last time (the model's log) ──► scored once ──► in order
//!   the first in order has no nodes any more ──► out, until the log names it again
//! ```
//!
//! A score depends on the class alone, so a node that changes costs one look-up, and k members cost k steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::{ClassContent, ClassId, ClusterState, DomainId, GpuType, NodeClass, NodeId};

use super::fit;
use super::score::{Score, Scoring};
use crate::Packing;
use crate::gang::Shape;

/// What a ranking is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ask {
    pub packing: Packing,
    pub shape: Arc<Shape>,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Ranking {
    /// By GPU type; for a shape that uses no GPUs all are under `None`.
    ordered: BTreeMap<Option<GpuType>, BTreeSet<Ranked>>,
    /// How many are in order.
    entries: usize,
    /// What is known of each class, by its number.
    known: Vec<Known>,
    /// How much of the model's log was read; `None` before the first time.
    read: Option<u64>,
}

/// What is known about the class with this number and birth.
#[derive(Clone, Copy, Default)]
struct Known {
    born: u64,
    fit: Option<Fit>,
}

#[derive(Clone, Copy)]
struct Fit {
    score: Score,
    level: u16,
    times: i64,
}

/// A class in order. Among equal scores the content decides, which does not depend on the history of events.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    score: Score,
    content: ClassContent,
    class: ClassId,
    born: u64,
    level: u16,
}

impl Ranked {
    /// Whether the class is still the one that was put in order.
    fn is_there(&self, state: &ClusterState) -> bool {
        state.has_class(self.class) && state.class(self.class).born() == self.born
    }
}

/// A node for the next member, and what is free of the device that it gets a part of.
pub(super) struct ChosenNode {
    pub node: NodeId,
    pub level: u16,
    pub score: Score,
}

impl Ranking {
    /// Takes in what changed since last time.
    pub fn update(&mut self, state: &ClusterState, scoring: &mut Scoring, ask: &Ask) {
        let log = state.class_log();
        let missed = self.read.and_then(|read| log.since(read));
        if let Some(filled) = missed {
            for class in filled.filter(|class| state.has_class(*class)) {
                self.insert(state, class, scoring, ask);
            }
        } else {
            *self = Self::default();
            for (class, _) in state.classes() {
                self.insert(state, class, scoring, ask);
            }
        }
        self.read = Some(log.end());
    }

    /// The classes of a GPU type in one domain, in an order that lives as long as the search in it. `self` only remembers
    /// scores.
    pub fn within(
        &mut self,
        state: &ClusterState,
        (domain, gpu_type): (DomainId, Option<&GpuType>),
        scoring: &mut Scoring,
        ask: &Ask,
    ) -> Local {
        let mut local = Local { domain, ordered: BTreeSet::new() };
        for (class, _) in state.classes_in_any_order(domain) {
            if is_of(state.class(class), gpu_type) {
                self.insert_local(state, &mut local, class, scoring, ask);
            }
        }
        local
    }

    /// Puts the class that a node is in now into the order of a domain.
    pub fn insert_local(
        &mut self,
        state: &ClusterState,
        local: &mut Local,
        class: ClassId,
        scoring: &mut Scoring,
        ask: &Ask,
    ) {
        local.ordered.extend(self.rank(state, class, scoring, ask));
    }

    /// The best node in all that is of the type and admitted.
    pub fn best(
        &mut self,
        state: &ClusterState,
        gpu_type: Option<&GpuType>,
        admits: impl Fn(NodeId) -> bool,
    ) -> Option<ChosenNode> {
        // There are few types, and a reference to an option cannot be looked up.
        let (_, ordered) = self.ordered.iter_mut().find(|(key, _)| key.as_ref() == gpu_type)?;
        let before = ordered.len();
        let found = best(ordered, state, state.root(), admits);
        self.entries -= before - ordered.len();
        found
    }

    /// How many members fit on nodes of a type in a domain, counted up to `enough`.
    pub fn room(
        &mut self,
        state: &ClusterState,
        (domain, gpu_type): (DomainId, Option<&GpuType>),
        enough: i64,
        scoring: &mut Scoring,
        ask: &Ask,
    ) -> i64 {
        if domain == state.root() {
            self.update(state, scoring, ask);
            return self.room_in_all(state, gpu_type, enough);
        }
        let mut room: i64 = 0;
        for (id, nodes) in state.classes_in_any_order(domain) {
            if is_of(state.class(id), gpu_type) {
                let times = self.know(state, id, scoring, ask).map_or(0, |fit| fit.times);
                room = room.saturating_add(times.saturating_mul(nodes.into()));
            }
            if room >= enough {
                break;
            }
        }
        room.min(enough)
    }

    /// The same for the whole cluster: only classes on which members fit are in order.
    fn room_in_all(&mut self, state: &ClusterState, gpu_type: Option<&GpuType>, enough: i64) -> i64 {
        let Some((_, ordered)) = self.ordered.iter_mut().find(|(key, _)| key.as_ref() == gpu_type) else {
            return 0;
        };
        let (mut room, mut without_nodes): (i64, _) = (0, Vec::new());
        for ranked in ordered.iter() {
            let nodes = if ranked.is_there(state) { state.class(ranked.class).len() } else { 0 };
            if nodes == 0 {
                without_nodes.push(ranked.clone());
                continue;
            }
            let times = self.known[ranked.class.index()].fit.map_or(0, |fit| fit.times);
            room = room.saturating_add(times.saturating_mul(i64::try_from(nodes).unwrap_or(i64::MAX)));
            if room >= enough {
                break;
            }
        }
        self.entries -= without_nodes.len();
        for ranked in without_nodes {
            ordered.remove(&ranked);
        }
        room.min(enough)
    }

    /// How much it remembers.
    pub fn len(&self) -> usize {
        self.known.len() + self.entries
    }

    fn insert(&mut self, state: &ClusterState, class: ClassId, scoring: &mut Scoring, ask: &Ask) {
        let Some(ranked) = self.rank(state, class, scoring, ask) else { return };
        let gpu_type = if ask.shape.uses_gpus() { &state.class(class).kind().gpu_type } else { &None };
        if !self.ordered.contains_key(gpu_type) {
            self.ordered.insert(gpu_type.clone(), BTreeSet::new());
        }
        let is_new = self.ordered.get_mut(gpu_type).is_some_and(|ordered| ordered.insert(ranked));
        self.entries += usize::from(is_new);
    }

    fn rank(
        &mut self,
        state: &ClusterState,
        class: ClassId,
        scoring: &mut Scoring,
        ask: &Ask,
    ) -> Option<Ranked> {
        let Fit { score, level, .. } = self.know(state, class, scoring, ask)?;
        let content = state.class(class);
        Some(Ranked { score, content: content.content(), class, born: content.born(), level })
    }

    fn know(&mut self, state: &ClusterState, id: ClassId, scoring: &mut Scoring, ask: &Ask) -> Option<Fit> {
        let (index, class) = (id.index(), state.class(id));
        if index >= self.known.len() {
            self.known.resize(index + 1, Known::default());
        }
        if self.known[index].born != class.born() {
            self.known[index] = Known { born: class.born(), fit: look(state, (id, class), scoring, ask) };
        }
        self.known[index].fit
    }
}

/// Whether nodes of the class have GPUs of the type; any type if none is named.
pub(super) fn is_of(class: &NodeClass, gpu_type: Option<&GpuType>) -> bool {
    gpu_type.is_none() || class.kind().gpu_type.as_ref() == gpu_type
}

fn look(
    state: &ClusterState,
    (id, class): (ClassId, &NodeClass),
    scoring: &mut Scoring,
    ask: &Ask,
) -> Option<Fit> {
    let times = fit::times_taken(state, class, &ask.shape);
    if times <= 0 {
        return None;
    }
    let (score, level) = scoring.score(ask.packing, id, class, &ask.shape);
    Some(Fit { score, level, times })
}

/// See [`Ranking::within`].
pub(super) struct Local {
    domain: DomainId,
    ordered: BTreeSet<Ranked>,
}

impl Local {
    /// The best node of the domain that is admitted.
    pub fn best(&mut self, state: &ClusterState, admits: impl Fn(NodeId) -> bool) -> Option<ChosenNode> {
        best(&mut self.ordered, state, self.domain, admits)
    }
}

fn best(
    ordered: &mut BTreeSet<Ranked>,
    state: &ClusterState,
    domain: DomainId,
    admits: impl Fn(NodeId) -> bool,
) -> Option<ChosenNode> {
    let mut without_nodes = Vec::new();
    let mut found = None;
    for ranked in ordered.iter() {
        let mut nodes = ranked
            .is_there(state)
            .then(|| state.nodes_in(domain, ranked.class))
            .into_iter()
            .flatten()
            .peekable();
        if nodes.peek().is_none() {
            without_nodes.push(ranked.clone());
            continue;
        }
        if let Some(node) = nodes.find(|node| admits(*node)) {
            found = Some(ChosenNode { node, level: ranked.level, score: ranked.score });
            break;
        }
    }
    for ranked in without_nodes {
        ordered.remove(&ranked);
    }
    found
}
