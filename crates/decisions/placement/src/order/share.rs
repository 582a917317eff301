//! What a queue has of the cluster, per weight: now, and with the past.
//!
//! For a queue and all below it:
//!
//! ```text
//!   held   h   the largest of: GPUs of one type, CPU, memory; held / what the cluster has
//!   used   u   decayed GPU time / (GPUs of the cluster · m)
//!              m = half-life / ln 2, as all GPUs used for ever decay to that many GPU-seconds: u is an average, 0 to 1
//!
//!   share    = (u + h/16) / weight
//! ```
//!
//! Siblings are served by the lowest share. The sixteenth says that what a queue holds counts as if it went on to be held
//! for another `m/16` (15 hours, for a half-life of a week). This way
//! - under constant demand GPU time settles at the ratio of weights: gangs are not divisible, but an error of `e` in what
//!   is held leaves an error of at most `e/16` in the average;
//! - a queue steps back while a plan is made, with every gang of it that starts;
//! - the past fades by half in each half-life.
//!
//! By the past alone, a queue that used an idle cluster would be shut out for up to a half-life once another queue
//! came. So a queue that *holds* less than half of what its rivals hold on average, per weight, is served before all
//! others (`tree.rs`). That much is left to every queue with demand, and a new queue still gets more than its share
//! until the past is even.
//!
//! A queue that borrows is measured by what it holds and used beyond its quota: the weight divides what is left over,
//! and what a queue owns is not held against it. A queue within its quota is measured by all of it. The past is GPU
//! time of all types together; CPU and memory have none.

use cluster_model::{ClusterState, Queue, QueueName, QueueUsage, ResourceName};

use crate::quota;

/// Fixed point: all of a resource of the cluster, at weight 1. Amounts stay below 2^63, so that products with it stay
/// far from the end of 128 bits, and one GPU of 100,000 at a weight of 1,000 is still 600 of these.
const WHOLE: i128 = 1 << 40;

/// How much more the past weighs than the present.
const PAST_WEIGHS: i128 = 16;

/// 1 / ln 2, in millionths: the mean life of use in half-lives.
const MEAN_LIFE_MILLIONTHS: i128 = 1_442_695;

/// A queue's share. Only `used` is divided by the weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    /// The share of the documentation above; the lowest comes first.
    pub used: i128,
    /// What is held, not divided by the weight.
    pub held: i128,
    /// The weight.
    pub weight: i128,
}

impl Share {
    /// The share of a queue that holds `usage` and used `past`; with `beyond`, of what it has beyond its quota.
    pub fn of(state: &ClusterState, queue: &Queue, usage: &QueueUsage, past: Past, beyond: bool) -> Self {
        let owned = |resource: &ResourceName| quota::owned(queue, resource).filter(|_| beyond).unwrap_or(0);
        let gpu_types = usage.gpus.keys().map(|gpu_type| ResourceName::Gpu(gpu_type.clone()));
        let held = gpu_types.chain([ResourceName::Cpu, ResourceName::Memory]).map(|resource| {
            let held = usage.held(&resource).saturating_sub(owned(&resource)).max(0);
            of_cluster(held, state.capacity_of(&resource))
        });
        let held = held.max().unwrap_or(0);
        let used = if beyond { past.beyond } else { past.all };
        let weight = i128::from(queue.weight);
        Self { used: per_weight(used + held / PAST_WEIGHS, weight), held, weight }
    }

    /// What is held, per weight.
    pub fn held_per_weight(&self) -> i128 {
        per_weight(self.held, self.weight)
    }
}

/// What a queue used: the `u` of the documentation above. It does not change while a plan is made, as time stands still.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past {
    all: i128,
    beyond: i128,
}

impl Past {
    /// What a queue and all below it used.
    pub fn of(state: &ClusterState, queue: &QueueName) -> Self {
        let Some((object, _)) = state.queue(queue) else { return Self::default() };
        let mean_life_milliseconds = i128::from(object.half_life_seconds) * MEAN_LIFE_MILLIONTHS / 1000;
        let gpus = i128::from(gpus_of_cluster(state).max(1));
        let in_balance = (mean_life_milliseconds * gpus).max(1);
        let average = |decayed: u64| i128::from(decayed) * WHOLE / in_balance;
        Self {
            all: average(state.decayed_gpu_milliseconds(queue)),
            beyond: average(state.decayed_beyond_quota_gpu_milliseconds(queue)),
        }
    }

    /// Takes away what a queue below used, so that what the queue itself used is left; all of it counts.
    pub fn without(self, below: Self) -> Self {
        let all = (self.all - below.all).max(0);
        Self { all, beyond: all }
    }
}

fn gpus_of_cluster(state: &ClusterState) -> i64 {
    state.capacity().values().sum()
}

fn of_cluster(amount: i64, capacity: i64) -> i128 {
    i128::from(amount) * WHOLE / i128::from(capacity.max(1))
}

/// A queue without weight comes after all that have one.
fn per_weight(share: i128, weight: i128) -> i128 {
    if weight == 0 { i128::MAX } else { share / weight }
}
