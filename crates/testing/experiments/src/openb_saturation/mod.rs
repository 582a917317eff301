//! X1 `openb-saturation`: the share of a cluster's GPUs in use when requests equal its capacity.
//!
//! Pods of the openb trace arrive one after the other and never leave; a pod that does not fit is refused. The
//! figure is the share of GPUs in use, averaged over the arrivals at which demand is 100 % of capacity. Random,
//! best fit and FGD (fragmentation gradient descent) are our re-implementations, to check that our protocol is
//! the published one. Ours is `placement::plan` on a `ClusterState`, one arrival and one plan at a time.

mod arrivals;
mod baselines;
mod production;

use cluster_model::Node;
use placement::Policy;
use simulator::Job;
use simulator::ratio;

pub use arrivals::first_come_bound_percent;
pub use baselines::Baseline;

/// Chooses a node for each pod.
#[derive(Clone, Debug)]
pub enum Chooser<'a> {
    /// A published policy.
    Baseline(Baseline),
    /// The planner, with a policy.
    Planner(&'a Policy),
}

/// The trace: nodes, and the pods that arrivals are drawn from.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Nodes, by name.
    pub nodes: Vec<Node>,
    /// Pods of one list.
    pub pods: Vec<Job>,
}

impl Trace {
    fn capacity_millis(&self) -> u64 {
        let gpus = self.nodes.iter().map(|node| u64::try_from(node.allocatable.gpus).unwrap_or(0));
        gpus.sum::<u64>() * 1000
    }
}

/// Percent of the GPUs in use at 100 % demand.
pub fn allocated_percent(trace: &Trace, seed: u64, chooser: &Chooser<'_>) -> f64 {
    match chooser {
        Chooser::Baseline(baseline) => {
            let mut cluster = baselines::Cluster::new(trace, *baseline, seed);
            measure(trace, seed, |pod| cluster.place(pod))
        }
        Chooser::Planner(policy) => {
            let mut cluster = production::Cluster::new(trace, policy);
            measure(trace, seed, |pod| cluster.place(pod))
        }
    }
}

/// The published protocol: a pod counts as arrived before it is placed; demand is rounded to whole percent, use
/// to hundredths, and the figure is the mean over all arrivals at 100 %.
fn measure(trace: &Trace, seed: u64, mut place: impl FnMut(usize) -> bool) -> f64 {
    let capacity = trace.capacity_millis();
    let (mut arrived, mut used) = (0, 0);
    let (mut sum, mut count) = (0, 0u32);
    for pod in arrivals::arrivals(trace, seed) {
        let millis = trace.pods[pod].gpu_millis();
        arrived += millis;
        if place(pod) {
            used += millis;
        }
        // Halves are rounded up: (200 a + c) / 2c is a / c in percent, rounded.
        let demand_percent = (200 * arrived + capacity) / (2 * capacity);
        if demand_percent == 100 {
            sum += (20_000 * used + capacity) / (2 * capacity);
            count += 1;
        }
        if demand_percent > 100 {
            break;
        }
    }
    ratio(sum, 100 * u64::from(count))
}
