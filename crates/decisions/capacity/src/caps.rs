//! Caps: the most that may be bought, in the whole cluster, of each machine type, and for each queue with those below it.
//! `tally.rs` compares with them.

use std::sync::Arc;

use api_types::{BuyingBounds, BuyingPolicy, BuyingPolicySpec};
use cluster_model::Queue;

/// Why nothing is bought in a cluster that says nothing about it.
pub const NO_POLICY: &str = "there is no BuyingPolicy, which says how much may be bought: docs/guides/buy-machines.md has one to begin with";
const PAUSED: &str = "buying is paused by the BuyingPolicy";

/// How many machines at most, and at what price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cap {
    /// Machines at a time.
    pub machines: Option<u32>,
    /// What they cost, in millionths of the currency per hour.
    pub per_hour_micros: Option<i64>,
}

impl From<&BuyingBounds> for Cap {
    fn from(bounds: &BuyingBounds) -> Self {
        Self { machines: bounds.most_machines, per_hour_micros: bounds.per_hour_micros() }
    }
}

impl From<&BuyingPolicySpec> for Cap {
    fn from(spec: &BuyingPolicySpec) -> Self {
        Self { machines: Some(spec.most_machines), per_hour_micros: Some(spec.per_hour_micros()) }
    }
}

impl Cap {
    /// The cap on machines for a queue and those below it.
    pub fn of_queue(queue: &Queue) -> Self {
        Self { machines: queue.machines_max, per_hour_micros: queue.machines_per_hour_micros_max }
    }
}

/// Whether machines are bought, and how many in the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buying {
    /// Why nothing is bought at all.
    pub stopped: Option<Arc<str>>,
    /// The most in the whole cluster.
    pub cap: Cap,
}

impl Buying {
    /// What the cluster's policy says.
    pub fn of(policy: Option<&BuyingPolicy>) -> Self {
        let Some(BuyingPolicy { spec, .. }) = policy else { return Self::stopped(NO_POLICY) };
        Self { stopped: spec.paused.then(|| PAUSED.into()), cap: spec.into() }
    }

    /// Nothing is bought.
    pub fn stopped(why: &str) -> Self {
        Self { stopped: Some(why.into()), cap: Cap::default() }
    }
}
