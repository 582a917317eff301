//! Tallies: how many pods of one kind are in each domain of an area.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::areas::{AreaId, AreaKey, ValueId};
use super::label_set::{LabelSet, Requirement, Selector};
use super::neighbours::Scope;
use crate::objects::Pod;
use crate::pods::{Place, PodId, PodState};

/// What a tally counts, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TallyKey {
    pub who: Who,
    pub area: AreaKey,
}

/// Which pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Who {
    /// Pods that each of these selects: some pod wants one of them near.
    Wanted(Vec<Scope>),
    /// Pods that this selects: some pod must not be near them.
    Avoided(Scope),
    /// Pods that keep away the pods that this selects.
    Avoiding(Scope),
    /// Pods of a namespace that some pod spreads with.
    Alike(Arc<str>, Option<Selector>),
}

impl Who {
    /// Whether the term selects a pod. `namespace` has the labels of its namespace.
    pub fn means(&self, pod: &Pod, namespace: Option<&LabelSet>) -> bool {
        match self {
            Self::Wanted(scopes) => scopes.iter().all(|scope| scope.means(pod, namespace)),
            Self::Avoided(scope) => scope.means(pod, namespace),
            Self::Avoiding(scope) => scope.shuns(pod, namespace),
            // A selector without requirements counts no pod, as in kube-scheduler.
            Self::Alike(namespace, Some(selector)) => {
                pod.key.namespace == *namespace && !selector.is_everything() && selector.matches(&pod.labels)
            }
            Self::Alike(_, None) => false,
        }
    }

    /// Whether it counts the pods that ask, and not those that are selected.
    pub fn counts_askers(&self) -> bool {
        matches!(self, Self::Avoiding(_))
    }

    /// Whether a pod that has a node, or for which one is held, counts. A pod that must be kept apart from others
    /// avoids held pods too; a pod that needs others near cannot rely on them.
    pub fn counts(&self, pod: &PodState) -> bool {
        let is_there = pod.place() != Some(Place::Held);
        match self {
            Self::Wanted(_) => is_there,
            Self::Avoided(_) | Self::Avoiding(_) => true,
            Self::Alike(..) => is_there && !pod.pod.terminating,
        }
    }

    /// Whether the labels of namespaces decide which pods are selected.
    pub fn looks_at_namespaces(&self) -> bool {
        self.scopes().iter().any(|scope| scope.namespace_selector.is_some())
    }

    /// A label that all selected pods have, with one of few values.
    pub fn leading(&self) -> Option<&Requirement> {
        let alike = match self {
            Self::Alike(_, selector) => selector.as_ref(),
            Self::Wanted(_) | Self::Avoided(_) | Self::Avoiding(_) => None,
        };
        let selectors = self.scopes().iter().filter_map(|scope| scope.selector.as_ref()).chain(alike);
        selectors.filter_map(Selector::leading).min_by_key(|it| it.values.len())
    }

    fn scopes(&self) -> &[Scope] {
        match self {
            Self::Wanted(scopes) => scopes,
            Self::Avoided(scope) | Self::Avoiding(scope) => std::slice::from_ref(scope),
            Self::Alike(..) => &[],
        }
    }
}

/// A tally's number. It is valid until the next change is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TallyId(pub u32);

/// Pods of one kind by domain.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub what: Arc<TallyKey>,
    pub area: AreaId,
    /// Pods that ask for it.
    pub users: u32,
    /// Pods that are selected, wherever they are.
    pub meant: BTreeSet<PodId>,
    /// How many there are in each domain that has any.
    by_value: BTreeMap<ValueId, u32>,
    /// How many domains have each of these counts.
    by_count: BTreeMap<u32, usize>,
}

impl Tally {
    /// For the one pod that asks.
    pub fn new(what: Arc<TallyKey>, area: AreaId) -> Self {
        let (by_value, by_count) = (BTreeMap::new(), BTreeMap::new());
        Self { what, area, users: 1, meant: BTreeSet::new(), by_value, by_count }
    }

    /// How many there are in a domain.
    pub fn pods_in(&self, value: ValueId) -> u32 {
        self.by_value.get(&value).copied().unwrap_or(0)
    }

    /// Whether there are none at all.
    pub fn is_empty(&self) -> bool {
        self.by_value.is_empty()
    }

    /// The fewest in any domain, if there are this many domains.
    pub fn fewest(&self, domains: usize) -> u32 {
        if self.by_value.len() < domains {
            return 0;
        }
        self.by_count.first_key_value().map_or(0, |(pods, _)| *pods)
    }

    pub fn by_value(&self) -> impl Iterator<Item = (ValueId, u32)> {
        self.by_value.iter().map(|(value, pods)| (*value, *pods))
    }

    pub fn count(&mut self, value: ValueId, add: bool) {
        let before = self.pods_in(value);
        let after = if add { before + 1 } else { before - 1 };
        if after == 0 {
            self.by_value.remove(&value);
        } else {
            self.by_value.insert(value, after);
        }
        if before > 0
            && let Some(domains) = self.by_count.get_mut(&before)
        {
            *domains -= 1;
            if *domains == 0 {
                self.by_count.remove(&before);
            }
        }
        if after > 0 {
            *self.by_count.entry(after).or_default() += 1;
        }
    }
}
