//! Queues: amounts as integers.

use api_types::ResourceAmounts;
use cluster_model::{Amounts, Change, Queue, QueueName};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::quantity;

/// What a queue that was seen means.
pub fn queue_change(queue: &api_types::Queue) -> Change {
    let spec = &queue.spec;
    Change::Queue(Queue {
        parent: spec.parent.as_deref().map(Into::into),
        weight: spec.weight,
        quota: spec.quota.as_ref().map(amounts),
        limit: spec.limit.as_ref().map(amounts),
        namespaces: spec.namespaces.iter().map(|namespace| namespace.as_str().into()).collect(),
        ..Queue::new(name(queue))
    })
}

/// What a queue that was deleted means.
pub fn queue_gone(queue: &api_types::Queue) -> Change {
    Change::QueueGone(name(queue))
}

fn name(queue: &api_types::Queue) -> QueueName {
    queue.metadata.name.as_deref().unwrap_or_default().into()
}

/// The API server refuses what is not a quantity; should one get through, it bounds at zero rather than not at all.
fn amounts(amounts: &ResourceAmounts) -> Amounts {
    let read = |amount: &Option<Quantity>, read: fn(&str) -> Result<i64, quantity::Error>| {
        amount.as_ref().map(|amount| read(&amount.0).unwrap_or(0))
    };
    Amounts {
        gpus: amounts
            .gpus
            .iter()
            .map(|(gpu_type, gpus)| (gpu_type.as_str().into(), i64::from(*gpus)))
            .collect(),
        cpu_millis: read(&amounts.cpu, quantity::millis),
        memory_bytes: read(&amounts.memory, quantity::units),
    }
}
