//! What a pod asks of the pods around it, as Kubernetes words it: affinity, anti-affinity, and an even spread.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::label_set::{LabelSet, Selector};
use crate::objects::Pod;

/// What a pod asks of other pods. Hard rules only: preferences rank nodes elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Neighbours {
    /// Pods that must be near: one pod that all of the terms mean, for each term in the same domain of its key.
    pub affinity: Vec<PodTerm>,
    /// Pods that must not be near.
    pub anti_affinity: Vec<PodTerm>,
    /// Over which domains pods alike are spread.
    pub spread: Vec<SpreadConstraint>,
}

impl Neighbours {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.affinity.is_empty() && self.anti_affinity.is_empty() && self.spread.is_empty()
    }

    /// Whether others that come may make room: then what found no room may find it though nobody left.
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

/// Which pods a term means.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Scope {
    /// By their labels; without it no pod is meant.
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

    /// Whether it means a pod, for the pod that asks and is to be placed. `namespace` are the labels of the other pod's
    /// namespace, if that is known.
    ///
    /// kube-scheduler lists the namespaces that the selector means, and then asks the selector once more, about no labels
    /// at all: a selector that these satisfy (as `NotIn` and `DoesNotExist` do) means every namespace. We say the same.
    pub fn means(&self, pod: &Pod, namespace: Option<&LabelSet>) -> bool {
        let by_selector = || {
            self.namespace_selector.as_ref().is_some_and(|selector| {
                namespace.is_some_and(|labels| selector.matches(labels))
                    || selector.matches(&LabelSet::default())
            })
        };
        (self.namespaces.contains(&pod.key.namespace) || by_selector()) && self.has_labels(pod)
    }

    /// Whether it means a pod that is to be placed, for a pod that is there and keeps others away. A namespace that is not
    /// known has no labels.
    pub fn shuns(&self, pod: &Pod, namespace: Option<&LabelSet>) -> bool {
        let by_selector = || {
            let none = LabelSet::default();
            let labels = namespace.unwrap_or(&none);
            self.namespace_selector.as_ref().is_some_and(|selector| selector.matches(labels))
        };
        (self.namespaces.contains(&pod.key.namespace) || by_selector()) && self.has_labels(pod)
    }

    fn has_labels(&self, pod: &Pod) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }
}

/// Pods alike are spread over the domains of a key: none has more than `skew_max` more than another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpreadConstraint {
    /// Nodes with the same value of this label are one domain.
    pub topology_key: Arc<str>,
    /// The most that two domains may differ by.
    pub skew_max: u32,
    /// Which pods of the same namespace count; without it none does. Of one without requirements neither, but the pod
    /// itself.
    pub selector: Option<Selector>,
    /// If there are fewer domains than this, an empty one is thought beside them.
    pub domains_min: u32,
    /// Whether only nodes count that the pod's node selector and node affinity admit.
    pub honours_node_affinity: bool,
    /// Whether only nodes count whose taints the pod tolerates.
    pub honours_node_taints: bool,
}

impl SpreadConstraint {
    /// Over a key, with what Kubernetes takes where nothing is said.
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
