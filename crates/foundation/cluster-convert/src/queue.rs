//! Queues: amounts as integers.

use api_types::{ResourceAmounts, price};
use cluster_model::{Amounts, BankTerms, Change, HALF_LIFE_SECONDS_DEFAULT, Queue, QueueName, Reclaim};
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
        lend: spec.lend.as_ref().map(amounts),
        reclaim: spec.reclaim.map_or_else(Reclaim::default, |reclaim| Reclaim {
            grace_seconds: reclaim.grace_seconds,
            min_run_seconds: reclaim.min_run_seconds,
        }),
        half_life_seconds: spec.fair_share.map_or(HALF_LIFE_SECONDS_DEFAULT, |share| share.half_life_seconds),
        bank: spec
            .bank
            .map(|bank| BankTerms { earn_millis: bank.earn_millis, cap_gpu_seconds: bank.cap_gpu_seconds }),
        // The API server refuses what is no price; should one get through, nothing is bought rather than anything.
        max_price_micros: spec.max_price.as_deref().map(|price| price::micros(price).unwrap_or(0)),
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
