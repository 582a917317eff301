//! The share that each queue has, and the share that it is due. Pure.

use api_types::outlook::QueueShare;
use cluster_model::{ClusterState, QUEUE_DEPTH_MAX, Queue, QueueName, QueueUsage};

/// Every queue, by name.
pub fn shares(state: &ClusterState) -> Vec<QueueShare> {
    let capacity: i64 = state.capacity().values().sum();
    let mut shares = Vec::new();
    below(state, None, 100.0, 0, &mut |queue, usage, fair_percent| {
        let used: i64 = usage.gpus.values().sum();
        shares.push(QueueShare {
            name: queue.name.to_string(),
            gpus_used: u64::try_from(used).unwrap_or(0),
            used_percent: tenths(percent(used, capacity)),
            fair_percent: tenths(fair_percent),
            decayed_gpu_hours: tenths(hours(state, &queue.name)),
        });
    });
    shares.sort_by(|one, other| one.name.cmp(&other.name));
    shares
}

/// Children divide their parent's due share by weight. Queues whose parents form a ring are left out.
fn below(
    state: &ClusterState,
    parent: Option<&QueueName>,
    due_percent: f64,
    depth: usize,
    each: &mut impl FnMut(&Queue, &QueueUsage, f64),
) {
    let weights: u64 = state.queues_below(parent).map(|(queue, _)| u64::from(queue.weight)).sum();
    if depth == QUEUE_DEPTH_MAX || weights == 0 {
        return;
    }
    for (queue, usage) in state.queues_below(parent) {
        let due = due_percent * f64::from(queue.weight) / as_float(weights);
        each(queue, usage, due);
        below(state, Some(&queue.name), due, depth + 1, each);
    }
}

fn hours(state: &ClusterState, queue: &QueueName) -> f64 {
    as_float(state.decayed_gpu_seconds(queue)) / 3600.0
}

fn percent(part: i64, whole: i64) -> f64 {
    let float = |count: i64| as_float(u64::try_from(count).unwrap_or(0));
    if whole > 0 { 100.0 * float(part) / float(whole) } else { 0.0 }
}

#[allow(clippy::cast_precision_loss, reason = "shown to a tenth")]
fn as_float(count: u64) -> f64 {
    count as f64
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use cluster_model::{ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Queue, Resources};

    use super::shares;

    #[test]
    fn children_share_what_is_due_to_their_parent_and_hold_for_it() {
        let mut state = ClusterState::default();
        let gpus = |gpus| Resources { gpus, pods: 10, ..Resources::default() };
        state.apply(ClusterChange::Node(Node {
            gpu_type: Some("H100".into()),
            allocatable: gpus(16),
            ..Node::new("n")
        }));
        let queue = |name: &str, parent: Option<&str>, weight| Queue {
            parent: parent.map(Into::into),
            weight,
            namespaces: [name.into()].into(),
            ..Queue::new(name)
        };
        for (name, parent, weight) in
            [("a", None, 3), ("b", None, 1), ("a1", Some("a"), 1), ("a2", Some("a"), 2)]
        {
            state.apply(ClusterChange::Queue(queue(name, parent, weight)));
        }
        let pod = Pod {
            node: Some("n".into()),
            requests: Resources { gpus: 4, pods: 1, ..Resources::default() },
            ..Pod::new(PodKey::new("a2", "p", "u"), GangKey::new("a2", "p"))
        };
        state.apply(ClusterChange::Pod(pod));
        let found: Vec<_> = shares(&state)
            .into_iter()
            .map(|it| (it.name, it.gpus_used, it.used_percent.to_string(), it.fair_percent.to_string()))
            .collect();
        let expect = [("a", 4, "25", "75"), ("a1", 0, "0", "25"), ("a2", 4, "25", "50"), ("b", 0, "0", "25")];
        let expect: Vec<_> = expect
            .into_iter()
            .map(|(name, gpus, used, fair)| (name.to_owned(), gpus, used.to_owned(), fair.to_owned()))
            .collect();
        assert_eq!(found, expect);
    }
}
