//! Queues: amounts as integers.

use api_types::queue::{BankSpec, FairShareSpec, ReclaimSpec};
use api_types::{BuyingBounds, QueueSpec, ResourceAmounts, price};
use cluster_model::{
    Amounts, BankTerms, ClusterChange, HALF_LIFE_SECONDS_DEFAULT, Queue, QueueName, Reclaim, Tier,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use slim_objects::quantity;

/// The cluster change for a queue that was seen.
pub fn queue_change(queue: &api_types::Queue) -> ClusterChange {
    let QueueSpec {
        parent,
        weight,
        quota,
        limit,
        lend,
        reclaim,
        fair_share,
        bank,
        highest_priority,
        max_price,
        machines,
        namespaces,
    } = &queue.spec;
    let reclaim = reclaim
        .map(|ReclaimSpec { grace_seconds, min_run_seconds }| Reclaim { grace_seconds, min_run_seconds });
    let half_life_seconds = fair_share.map(|FairShareSpec { half_life_seconds }| half_life_seconds);
    ClusterChange::Queue(Queue {
        parent: parent.as_deref().map(Into::into),
        weight: *weight,
        quota: quota.as_ref().map(amounts),
        limit: limit.as_ref().map(amounts),
        lend: lend.as_ref().map(amounts),
        reclaim: reclaim.unwrap_or_default(),
        half_life_seconds: half_life_seconds.unwrap_or(HALF_LIFE_SECONDS_DEFAULT),
        bank: bank
            .map(|BankSpec { earn_millis, cap_gpu_seconds }| BankTerms { earn_millis, cap_gpu_seconds }),
        highest_tier: highest_priority.map(|tier| Tier::of(tier.priority_value())),
        // The API server refuses a text that is not a price. If one gets through, nothing is bought.
        max_price_micros: max_price.as_deref().map(|price| price::micros(price).unwrap_or(0)),
        machines_max: machines.as_ref().and_then(|bounds| bounds.most_machines),
        machines_per_hour_micros_max: machines.as_ref().and_then(BuyingBounds::per_hour_micros),
        namespaces: namespaces.iter().map(|namespace| namespace.as_str().into()).collect(),
        ..Queue::new(name(queue))
    })
}

/// The cluster change for a queue that was deleted.
pub fn queue_gone(queue: &api_types::Queue) -> ClusterChange {
    ClusterChange::QueueGone(name(queue))
}

fn name(queue: &api_types::Queue) -> QueueName {
    queue.metadata.name.as_deref().unwrap_or_default().into()
}

/// The API server refuses a text that is not a quantity. If one gets through, the bound is zero, and not missing.
fn amounts(ResourceAmounts { gpus, cpu, memory }: &ResourceAmounts) -> Amounts {
    let read = |amount: &Option<Quantity>, read: fn(&str) -> Result<i64, quantity::Error>| {
        amount.as_ref().map(|amount| read(&amount.0).unwrap_or(0))
    };
    Amounts {
        gpus: gpus.iter().map(|(gpu_type, gpus)| (gpu_type.as_str().into(), i64::from(*gpus))).collect(),
        cpu_millis: read(cpu, quantity::millis),
        memory_bytes: read(memory, quantity::units),
    }
}
