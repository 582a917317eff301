//! Takes away what a rule alone is hidden by.

use std::sync::Arc;

use cluster_model::{Change, DeviceAsk, Terms};

/// Leaves resources, queues, priorities and times.
pub fn make(change: &mut Change) {
    match change {
        Change::Node(node) => {
            (node.exact, node.spot, node.power) = (false, false, None);
        }
        Change::Pod(pod) => {
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
        Change::Queue(queue) => (queue.out_of_budget, queue.lend) = (false, None),
        Change::NodeGone(_)
        | Change::PodGone(_)
        | Change::QueueGone(_)
        | Change::Namespace { .. }
        | Change::NamespaceGone(_)
        | Change::Budget(_)
        | Change::BudgetGone(_) => {}
    }
}
