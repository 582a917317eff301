//! Resources other than GPUs, CPU, memory and the number of pods: scratch space, huge pages, and whatever a cluster's
//! nodes offer under a name of their own.
//!
//! Few pods ask for them, so they are kept apart from [`crate::Resources`], which every pod and class carries. A
//! node's class knows what is free of those that some pod asks for, and which ports of the host are taken:
//! [`Extras`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ports::{HostPort, HostPorts};

/// Amounts by the name of the resource; none is zero. Mostly there are none, which costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OtherResources(Option<Arc<BTreeMap<Arc<str>, i64>>>);

impl OtherResources {
    /// Every resource with its amount, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, i64)> {
        self.0.iter().flat_map(|amounts| amounts.iter()).map(|(name, amount)| (name, *amount))
    }

    /// The amount of one.
    pub fn get(&self, name: &str) -> i64 {
        self.0.as_ref().and_then(|amounts| amounts.get(name)).copied().unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How often it fits into what is free of each; without bound if nothing is asked for.
    pub fn times_in(&self, free: impl Fn(&str) -> i64) -> i64 {
        let asked = self.iter().filter(|(_, asked)| *asked > 0);
        asked.map(|(name, asked)| (free(name) / asked).max(0)).min().unwrap_or(i64::MAX)
    }
}

impl FromIterator<(Arc<str>, i64)> for OtherResources {
    fn from_iter<T: IntoIterator<Item = (Arc<str>, i64)>>(amounts: T) -> Self {
        let amounts: BTreeMap<_, _> = amounts.into_iter().filter(|(_, amount)| *amount != 0).collect();
        Self((!amounts.is_empty()).then(|| Arc::new(amounts)))
    }
}

/// What else is free or taken on the nodes of a class: of the resources that some pod asks for, and the ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extras {
    /// What is free by name, if it is not zero. Below zero if more is used than there is.
    pub(crate) free: Vec<(Arc<str>, i64)>,
    /// Ports that pods have taken, in order.
    pub(crate) ports: Vec<HostPort>,
}

impl Extras {
    /// What is free of a resource.
    pub fn free_of(&self, name: &str) -> i64 {
        self.free.iter().find(|(other, _)| **other == *name).map_or(0, |(_, free)| *free)
    }

    /// Ports that pods have taken, in order.
    pub fn ports(&self) -> impl Iterator<Item = &HostPort> {
        self.ports.iter()
    }

    /// Whether none of the ports is taken.
    pub fn are_free(&self, ports: &HostPorts) -> bool {
        ports.iter().all(|port| !self.ports.iter().any(|taken| taken.conflicts(port)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.is_empty() && self.ports.is_empty()
    }
}

/// What pods on a node use of other resources; none is zero. Anybody may write any amount, so sums are wide enough
/// for any number of pods, and what was added can be taken off again.
pub(crate) type OthersInUse = BTreeMap<Arc<str>, i128>;

pub(crate) fn count_others(in_use: &mut OthersInUse, asked: &OtherResources, add: bool) {
    for (name, amount) in asked.iter() {
        let used = in_use.entry(name.clone()).or_default();
        *used += i128::from(if add { amount } else { -amount });
        if *used == 0 {
            in_use.remove(name);
        }
    }
}

/// Which other resources pods ask for, and how many pods ask for each. One that no pod asks for does not set nodes
/// apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(HashMap<Arc<str>, u32>);

impl Asked {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Counts what a pod asks for. Returns the names that begin or cease to matter.
    pub fn count(&mut self, asked: &OtherResources, add: bool) -> Vec<Arc<str>> {
        let mut changed = Vec::new();
        for (name, _) in asked.iter() {
            let pods = self.0.entry(name.clone()).or_default();
            *pods = if add { *pods + 1 } else { *pods - 1 };
            if add && *pods == 1 || *pods == 0 {
                changed.push(name.clone());
            }
            if *pods == 0 {
                self.0.remove(name);
            }
        }
        changed
    }
}
