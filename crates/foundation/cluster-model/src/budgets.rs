//! Disruption budgets: how many pods of a kind may be evicted at present. A controller of Kubernetes computes that;
//! the model only keeps it, for decisions about evictions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::near::Selector;

/// A budget's identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BudgetKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// How many of some pods may be evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Its identity; it covers pods of its namespace.
    pub key: BudgetKey,
    /// Which of them; none if absent.
    pub selector: Option<Selector>,
    /// How many at present. Pods that leave are already subtracted, as far as the controller knows.
    pub allowed: u32,
    /// The counts that the controller computed it from.
    #[serde(default)]
    pub counts: BudgetCounts,
    /// How many of them were told to leave since the controller was last heard. It may not know of them yet, even
    /// when they are gone.
    pub told: u32,
}

/// What the controller counted. It counts again when a pod comes, goes, or changes its health, and writes only what
/// differs. So a budget with the same counts was listed again or touched by others, and is no news from the
/// controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetCounts {
    /// Healthy pods.
    pub healthy: i32,
    /// How many must be healthy.
    pub desired: i32,
    /// All pods that it covers.
    pub expected: i32,
    /// The generation of the budget that was counted.
    pub generation: i64,
}

impl Budget {
    /// Whether it says nothing new. `told` is our own count and is not compared.
    pub(crate) fn is_known_as(&self, known: &Self) -> bool {
        *known == Self { told: known.told, ..self.clone() }
    }
}

/// All budgets, by name.
pub(crate) type Budgets = BTreeMap<BudgetKey, Budget>;
