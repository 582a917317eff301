//! Takes away what can hide a rule.

use std::sync::Arc;

use cluster_model::{ClusterChange, DeviceAsk, Terms};

/// Leaves resources, queues, priorities and times.
pub fn make(change: &mut ClusterChange) {
    match change {
        ClusterChange::Node(node) => {
            (node.exact, node.spot, node.power) = (false, false, None);
        }
        ClusterChange::Pod(pod) => {
            if pod.device != DeviceAsk::Whole {
                (pod.device, pod.requests.gpus) = (DeviceAsk::Whole, 1);
            }
            pod.devices.clear();
            pod.neighbours = None;
            pod.group = None;
            let terms = &pod.terms;
            let (time_limit_seconds, deadline, eviction) =
                (terms.time_limit_seconds, terms.deadline, terms.eviction);
            pod.terms = Arc::new(Terms { time_limit_seconds, deadline, eviction, ..Terms::default() });
        }
        ClusterChange::Queue(queue) => (queue.out_of_budget, queue.lend) = (false, None),
        ClusterChange::NodeGone(_)
        | ClusterChange::PodGone(_)
        | ClusterChange::QueueGone(_)
        | ClusterChange::Namespace { .. }
        | ClusterChange::NamespaceGone(_)
        | ClusterChange::Budget(_)
        | ClusterChange::BudgetGone(_) => {}
    }
}
