//! Attacks on quota: a gang waits that calls its work more urgent than what another queue runs on GPUs of its own.

use cluster_model::{ClusterState, Gang, Pod, Queue, QueueName, QueueUsage, Tier};

/// Levels that are told apart: roots, their children, and all below.
pub const LEVELS: usize = 3;

/// At which levels of the tree a queue owns what an attack is on.
pub fn attacked_levels(state: &ClusterState) -> [bool; LEVELS] {
    let lead = |gang: &Gang| state.pod(gang.lead()).pod();
    let waiting: Vec<&Pod> = state.waiting_gangs().filter_map(|key| state.gang(key)).map(lead).collect();
    let running: Vec<&Pod> = state.running_gangs().filter_map(|key| state.gang(key)).map(lead).collect();
    let mut attacked = [false; LEVELS];
    for (claims, gives) in
        waiting.iter().flat_map(|claims| running.iter().map(move |gives| (*claims, *gives)))
    {
        if Tier::of(claims.priority) <= Tier::of(gives.priority) || gives.requests.gpus == 0 {
            continue;
        }
        let (to, from) = (above(state, claims), above(state, gives));
        let own = from.iter().rev().enumerate().filter(|(_, queue)| !to.contains(queue));
        for (level, queue) in own {
            attacked[level.min(LEVELS - 1)] |=
                state.queue(queue).is_some_and(|(queue, usage)| owns(queue, usage));
        }
    }
    attacked
}

/// Whether all that the queue holds of some GPU type is its own.
fn owns(queue: &Queue, usage: &QueueUsage) -> bool {
    let quota = queue.quota.iter().flat_map(|quota| &quota.gpus);
    quota
        .into_iter()
        .any(|(gpu_type, quota)| usage.gpus.get(gpu_type).is_some_and(|held| *held > 0 && held <= quota))
}

/// The pod's queue and those above it; the root comes last.
fn above(state: &ClusterState, pod: &Pod) -> Vec<QueueName> {
    let chain = state.queue_chain_of(pod).unwrap_or_default();
    chain.into_iter().map(|(queue, _)| queue.name.clone()).collect()
}
