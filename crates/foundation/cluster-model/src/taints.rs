//! Taints keep pods off a node, tolerations let them onto it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The key of the taint that a cordoned node has.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Keeps off a node pods that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// The taint's key.
    pub key: Arc<str>,
    /// The taint's value, often empty.
    pub value: Arc<str>,
    /// What it does to pods that do not tolerate it.
    pub effect: TaintEffect,
}

impl Taint {
    /// Whether it keeps new pods away; `PreferNoSchedule` only asks for it.
    pub fn repels(&self) -> bool {
        self.effect != TaintEffect::PreferNoSchedule
    }

    /// The taint of a node that somebody closed to new pods. Only pods that tolerate it go there.
    pub fn cordon() -> Self {
        Self { key: CORDON.into(), value: Arc::default(), effect: TaintEffect::NoSchedule }
    }

    /// Whether it says that somebody closed the node.
    pub fn is_cordon(&self) -> bool {
        *self == Self::cordon()
    }

    /// Whether one of the tolerations is for it.
    pub fn tolerated_by(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|toleration| toleration.tolerates(self))
    }
}

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    /// No new pods.
    NoSchedule,
    /// Preferably no new pods; not a rule.
    PreferNoSchedule,
    /// No new pods, and running ones are evicted.
    NoExecute,
}

/// Lets a pod onto nodes with a taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// The taint's key; every key if absent.
    pub key: Option<Arc<str>>,
    /// The taint's value; every value if absent.
    pub value: Option<Arc<str>>,
    /// The taint's effect; every effect if absent.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// Whether it is for this taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}
