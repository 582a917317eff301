//! Room in the tree of queues.

use cluster_model::plan::WaitReason;
use cluster_model::{ClusterState, GpuType, ResourceName};

use crate::gang::Request;

/// Every queue from the gang's own up to the root that has no room, for every resource that is short.
pub(crate) fn exceeded(
    state: &ClusterState,
    request: &Request,
    gpu_type: Option<&GpuType>,
) -> Vec<WaitReason> {
    if request.is_granted {
        return Vec::new();
    }
    let first = state.pod_id(&request.first_pod).expect("a pod of a gang that waits is known");
    let chain = match state.queue_chain_of(state.pod(first).pod()) {
        Ok(chain) => chain,
        Err(problem) => return vec![problem],
    };
    let needs = [
        (gpu_type.cloned().map(ResourceName::Gpu), request.needs.gpus),
        (Some(ResourceName::Cpu), request.needs.cpu_millis),
        (Some(ResourceName::Memory), request.needs.memory_bytes),
    ];
    let mut reasons = Vec::new();
    for (queue, usage) in chain {
        for (resource, asks) in &needs {
            let Some(resource) = resource.as_ref().filter(|_| *asks > 0) else { continue };
            let holds = usage.held(resource);
            if let Some(bound) = queue.bound(resource)
                && holds.saturating_add(*asks) > bound
            {
                let (queue, resource) = (queue.name.clone(), resource.clone());
                reasons.push(WaitReason::QuotaExceeded { queue, resource, holds, bound, asks: *asks });
            }
        }
    }
    reasons
}
