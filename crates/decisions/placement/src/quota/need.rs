//! What a gang needs, by resource that queues count.

use cluster_model::{GpuType, ResourceName, Resources};

/// What a gang needs of one resource that queues count.
pub(crate) type Need = (ResourceName, i64);

/// What is asked for, by resource; without those not asked for.
pub(crate) fn needs(asks: &Resources, gpu_type: Option<&GpuType>) -> Vec<Need> {
    let needs = [
        gpu_type.map(|gpu_type| (ResourceName::Gpu(gpu_type.clone()), asks.gpus)),
        Some((ResourceName::Cpu, asks.cpu_millis)),
        Some((ResourceName::Memory, asks.memory_bytes)),
    ];
    needs.into_iter().flatten().filter(|(_, asks)| *asks > 0).collect()
}
