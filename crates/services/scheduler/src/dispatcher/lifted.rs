//! Lifted taints: a taint that evicts counts for a moment longer than it lasts.
//!
//! Kubernetes' taint eviction watches nodes and pods separately. If it sees a new pod on a node before it sees
//! that the taint is lifted, it deletes the pod at once. Karpenter's machines have such a taint until they are
//! registered, and a waiting gang is bound to them within milliseconds. In a busy cluster one machine in
//! hundreds lost its pod that way.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster_model::{ClusterChange, ClusterState, Node, NodeName, Taint, TaintEffect};
use tokio::time::Instant;

/// For how long: many times what Kubernetes takes to see the change, and little compared to the boot of a
/// machine.
const COUNTS_FOR: Duration = Duration::from_secs(2);
/// Every pod tolerates these for some minutes, so no pod is deleted for them this soon.
const TOLERATED_BY_ALL: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// The taints that still count after they were lifted.
#[derive(Debug, Default)]
pub(super) struct Lifted {
    /// Taints that evict, by node, as they were last seen.
    seen: BTreeMap<NodeName, Vec<Taint>>,
    /// Lifted taints that still count, and until when.
    counting: BTreeMap<NodeName, Vec<(Taint, Instant)>>,
}

impl Lifted {
    /// Changes a cluster change into the one to apply.
    pub fn adapt(&mut self, change: &mut ClusterChange, now: Instant) {
        match change {
            ClusterChange::Node(node) => self.see(node, now),
            ClusterChange::NodeGone(node) => {
                self.seen.remove(node);
                self.counting.remove(node);
            }
            _ => {}
        }
    }

    fn see(&mut self, node: &mut Node, now: Instant) {
        let evict: Vec<Taint> = node.taints.iter().filter(|taint| evicts(taint)).cloned().collect();
        let before = self.seen.remove(&node.name).unwrap_or_default();
        let mut counting = self.counting.remove(&node.name).unwrap_or_default();
        counting.extend(before.into_iter().map(|taint| (taint, now + COUNTS_FOR)));
        counting.retain(|(taint, until)| *until > now && !evict.contains(taint));
        // At the end, so that the others are where the API server has them.
        node.taints.extend(counting.iter().map(|(taint, _)| taint.clone()));
        if !counting.is_empty() {
            self.counting.insert(node.name.clone(), counting);
        }
        if !evict.is_empty() {
            self.seen.insert(node.name.clone(), evict);
        }
    }

    /// When the next taint stops counting.
    pub fn next(&self) -> Option<Instant> {
        self.counting.values().flatten().map(|(_, until)| *until).min()
    }

    /// Removes taints that have counted for long enough.
    pub fn clear(&mut self, state: &mut ClusterState, now: Instant) {
        for (name, taints) in self.take_due(now) {
            if let Some(mut node) = state.node_object(&name).cloned() {
                node.taints.retain(|taint| !taints.contains(taint));
                state.apply(ClusterChange::Node(node));
            }
        }
    }

    /// The taints that stop counting, by node.
    fn take_due(&mut self, now: Instant) -> BTreeMap<NodeName, Vec<Taint>> {
        let mut due: BTreeMap<NodeName, Vec<Taint>> = BTreeMap::new();
        self.counting.retain(|node, counting| {
            for (taint, _) in counting.extract_if(.., |(_, until)| *until <= now) {
                due.entry(node.clone()).or_default().push(taint);
            }
            !counting.is_empty()
        });
        due
    }
}

fn evicts(taint: &Taint) -> bool {
    taint.effect == TaintEffect::NoExecute && !TOLERATED_BY_ALL.contains(&&*taint.key)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster_model::{ClusterChange, Node, Taint, TaintEffect};
    use tokio::time::Instant;

    use crate::dispatcher::Dispatcher;
    use crate::dispatcher::testing::dispatcher;

    fn taint(key: &str, effect: TaintEffect) -> Taint {
        Taint { key: key.into(), value: "".into(), effect }
    }

    fn see(dispatcher: &mut Dispatcher, taints: &[&Taint]) {
        let taints = taints.iter().map(|&taint| taint.clone()).collect();
        dispatcher.apply(ClusterChange::Node(Node { taints, ..Node::new("node") }));
    }

    fn keys(dispatcher: &Dispatcher) -> Vec<String> {
        let node = dispatcher.state.node_object(&"node".into()).expect("it is there");
        node.taints.iter().map(|taint| taint.key.to_string()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_taint_that_evicts_counts_a_little_longer_and_no_other_does() {
        let starting = taint("unregistered", TaintEffect::NoExecute);
        let others = [
            taint("node.kubernetes.io/not-ready", TaintEffect::NoExecute),
            taint("closed", TaintEffect::NoSchedule),
        ];
        let mut dispatcher = dispatcher();
        see(&mut dispatcher, &[&starting, &others[0], &others[1]]);
        see(&mut dispatcher, &[]);
        assert_eq!(keys(&dispatcher), ["unregistered"]);
        let due = dispatcher.lifted.next().expect("it ends");
        assert_eq!(dispatcher.next_timer(), Some(due));
        tokio::time::sleep(Duration::from_secs(1)).await;
        see(&mut dispatcher, &[&others[1]]);
        dispatcher.lifted.clear(&mut dispatcher.state, Instant::now());
        assert_eq!(keys(&dispatcher), ["closed", "unregistered"], "also when the node is seen again");
        tokio::time::sleep_until(due).await;
        dispatcher.lifted.clear(&mut dispatcher.state, Instant::now());
        assert_eq!((keys(&dispatcher), dispatcher.lifted.next()), (vec!["closed".to_owned()], None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_taint_that_is_back_is_no_lifted_one_and_a_node_that_is_gone_has_none() {
        let starting = taint("unregistered", TaintEffect::NoExecute);
        let mut dispatcher = dispatcher();
        for taints in [vec![&starting], vec![], vec![&starting]] {
            see(&mut dispatcher, &taints);
        }
        assert_eq!((keys(&dispatcher), dispatcher.lifted.next()), (vec!["unregistered".to_owned()], None));
        see(&mut dispatcher, &[]);
        dispatcher.apply(ClusterChange::NodeGone("node".into()));
        see(&mut dispatcher, &[]);
        assert_eq!(keys(&dispatcher), [""; 0]);
    }
}
