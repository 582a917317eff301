//! Rules of a pod on the labels and the name of its node, as in Kubernetes' required node affinity.
//!
//! Terms are alternatives. Within a term every rule must hold. A list without terms matches no node, and neither does
//! an empty term. This module never looks at preferences.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::names::NodeName;

/// What a pod requires of its node: one of the terms must match the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeAffinity {
    /// The alternatives.
    pub terms: Vec<NodeTerm>,
}

/// One alternative: all of it must hold. An empty one matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeTerm {
    /// Rules on labels.
    pub labels: Vec<LabelRule>,
    /// Rules on the node's name.
    pub names: Vec<NameRule>,
}

/// A rule on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LabelRule {
    /// The label.
    pub key: Arc<str>,
    /// What must hold for its value.
    pub test: LabelTest,
}

/// What must hold for a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LabelTest {
    /// It has one of these values.
    In(BTreeSet<Arc<str>>),
    /// It is not there, or has none of these values.
    NotIn(BTreeSet<Arc<str>>),
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
    /// It is a whole number above this one.
    Above(i64),
    /// It is a whole number below this one.
    Below(i64),
}

impl LabelTest {
    /// Whether it holds for a label with this value, or for none.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|value| values.contains(value)),
            Self::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Above(bound) => number().is_some_and(|number| number > *bound),
            Self::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// A rule on the node's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NameRule {
    /// It is this one.
    Is(NodeName),
    /// It is not this one.
    IsNot(NodeName),
}

impl NameRule {
    pub(crate) fn holds(&self, name: &NodeName) -> bool {
        match self {
            Self::Is(wanted) => wanted == name,
            Self::IsNot(unwanted) => unwanted != name,
        }
    }
}

impl NodeTerm {
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.names.is_empty()
    }
}

impl NodeAffinity {
    /// Whether it may admit a node of which only the labels that `is_known` names are known. The others are taken to
    /// match.
    pub fn might_admit(
        &self,
        labels: &BTreeMap<Arc<str>, Arc<str>>,
        is_known: impl Fn(&str) -> bool,
    ) -> bool {
        let value = |key: &str| labels.get(key).map(|value| &**value);
        self.terms.iter().filter(|term| !term.is_empty()).any(|term| {
            term.labels.iter().all(|rule| !is_known(&rule.key) || rule.test.holds(value(&rule.key)))
        })
    }

    /// Whether the labels that `is_known` names are enough to decide it.
    pub fn is_decided_by(&self, is_known: impl Fn(&str) -> bool) -> bool {
        self.terms
            .iter()
            .all(|term| term.names.is_empty() && term.labels.iter().all(|rule| is_known(&rule.key)))
    }

    /// The labels that it looks at; some perhaps more than once.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.terms.iter().flat_map(|term| &term.labels).map(|rule| &rule.key)
    }
}
