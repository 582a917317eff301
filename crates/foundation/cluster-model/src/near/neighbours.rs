//! What a pod asks of the pods around it, as Kubernetes words it: affinity, anti-affinity, and an even spread.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::label_set::Selector;

/// What a pod asks of other pods. Hard rules only: preferences rank nodes elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Neighbours {
    /// Pods that must be near: one pod that all of the terms select, for each term in the same domain of its key.
    pub affinity: Vec<PodTerm>,
    /// Pods that must not be near.
    pub anti_affinity: Vec<PodTerm>,
    /// Over which domains similar pods are spread.
    pub spread: Vec<SpreadConstraint>,
}

impl Neighbours {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.affinity.is_empty() && self.anti_affinity.is_empty() && self.spread.is_empty()
    }

    /// Whether new pods may help: then a gang that found no nodes may find some although nothing left.
    pub fn is_helped_by_others(&self) -> bool {
        !self.affinity.is_empty() || !self.spread.is_empty()
    }
}

/// Pods, and what counts as near them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodTerm {
    /// Which pods.
    pub scope: Scope,
    /// Nodes with the same value of this label are near each other.
    pub topology_key: Arc<str>,
}

/// Which pods a term selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Scope {
    /// By their labels; without it, no pod is selected.
    pub selector: Option<Selector>,
    /// By their namespace, which is one of these …
    pub namespaces: BTreeSet<Arc<str>>,
    /// … or has such labels.
    pub namespace_selector: Option<Selector>,
}

impl Scope {
    /// Pods of one namespace.
    pub fn within(namespace: impl Into<Arc<str>>, selector: Selector) -> Self {
        Self { selector: Some(selector), namespaces: [namespace.into()].into(), namespace_selector: None }
    }
}

/// Similar pods are spread over the domains of a key: no domain has over `skew_max` more than another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpreadConstraint {
    /// Nodes with the same value of this label are one domain.
    pub topology_key: Arc<str>,
    /// The most that two domains may differ by.
    pub skew_max: u32,
    /// Which pods of the same namespace count; without it, none. A selector without requirements counts only the pod
    /// itself.
    pub selector: Option<Selector>,
    /// If there are fewer domains than this, one more empty domain is assumed.
    pub domains_min: u32,
    /// Whether only nodes that the pod's node selector and node affinity admit count.
    pub honours_node_affinity: bool,
    /// Whether only nodes whose taints the pod tolerates count.
    pub honours_node_taints: bool,
}

impl SpreadConstraint {
    /// Over a key, with Kubernetes' defaults.
    pub fn new(topology_key: impl Into<Arc<str>>, skew_max: u32, selector: Selector) -> Self {
        Self {
            topology_key: topology_key.into(),
            skew_max,
            selector: Some(selector),
            domains_min: 1,
            honours_node_affinity: true,
            honours_node_taints: false,
        }
    }
}
