//! Disruption budgets: how many pods of a kind may be taken away at present. Whoever made them reckons that; here they are
//! only kept, for whoever decides about evictions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gangs::GangSlot;
use crate::near::Selector;
use crate::objects::Pod;
use crate::state::ClusterState;

/// A budget's identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BudgetKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// How many of some pods may be taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Its identity; it is about pods of its namespace.
    pub key: BudgetKey,
    /// Which of them; none of them if absent.
    pub selector: Option<Selector>,
    /// So many at present, those that leave already taken off as far as its maker knows.
    pub allowed: u32,
    /// What its maker reckoned that from.
    #[serde(default)]
    pub counts: BudgetCounts,
    /// How many of them were told to go since its maker was last heard: it may not know yet, also when they are gone.
    pub told: u32,
}

/// What a budget's maker counted. It reckons anew when a pod comes, goes, or is well or not, and writes only what differs: a
/// budget that comes with the same counts was listed again or touched by others, and is no word of its maker's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetCounts {
    /// Pods that are well.
    pub healthy: i32,
    /// How many must be.
    pub desired: i32,
    /// All pods that it is about.
    pub expected: i32,
    /// The generation of the budget that was reckoned for.
    pub generation: i64,
}

impl Budget {
    /// Whether it is about a pod.
    pub fn covers(&self, pod: &Pod) -> bool {
        let selector = self.selector.as_ref().filter(|_| self.key.namespace == pod.key.namespace);
        selector.is_some_and(|selector| selector.matches(&pod.labels))
    }

    /// Whether it says no more than what is known. How many were told to go is ours to know, and not for it to say.
    pub(crate) fn is_known_as(&self, known: &Self) -> bool {
        *known == Self { told: known.told, ..self.clone() }
    }
}

/// All budgets, by name.
pub(crate) type Budgets = BTreeMap<BudgetKey, Budget>;

impl ClusterState {
    /// Every budget, by name.
    pub fn budgets(&self) -> impl ExactSizeIterator<Item = &Budget> {
        self.budgets.values()
    }

    /// Counts those of a gang that have a node where budgets cover them: they are told to go, or were not told after all.
    pub(crate) fn count_told(&mut self, gang: GangSlot, is_told: bool, concerns: impl Fn(&Pod) -> bool) {
        if self.budgets.is_empty() {
            return;
        }
        let members = self.gangs.get(gang).members();
        let pods = members.map(|id| &self.pods.get(id.0).pod);
        for pod in pods.filter(|pod| pod.node.is_some() && concerns(pod)) {
            for budget in self.budgets.values_mut().filter(|budget| budget.covers(pod)) {
                let told = budget.told;
                budget.told = if is_told { told.saturating_add(1) } else { told.saturating_sub(1) };
            }
        }
    }
}
