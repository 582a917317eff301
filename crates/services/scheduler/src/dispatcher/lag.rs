//! The lag of the watch: from the answer to a bind until the watch shows the pod on its node.

use std::collections::HashMap;

use cluster_model::{ClusterChange, PodKey};
use tokio::time::Instant;

/// Binds that the watch has not shown yet. Unless the watch is broken, there are only as many as are under way.
const AWAITED_MAX: usize = 16_384;

/// Pods that were bound and not yet seen on their node.
#[derive(Debug, Default)]
pub struct Lag {
    bound: HashMap<PodKey, Instant>,
}

impl Lag {
    /// A bind was done, and the watch has not shown it yet.
    pub fn bound(&mut self, pod: &PodKey, now: Instant) {
        if self.bound.len() >= AWAITED_MAX {
            self.bound.clear();
        }
        self.bound.insert(pod.clone(), now);
    }

    /// The pod and the lag in seconds, if this change was awaited.
    pub fn seen<'a>(&mut self, change: &'a ClusterChange, now: Instant) -> Option<(&'a PodKey, f64)> {
        let pod = match change {
            ClusterChange::Pod(pod) if pod.node.is_some() => &pod.key,
            ClusterChange::PodGone(pod) => return self.bound.remove(pod).and(None),
            _ => return None,
        };
        self.bound.remove(pod).map(|bound| (pod, (now - bound).as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster_model::{ClusterChange, GangKey, Pod, PodKey};
    use tokio::time::Instant;

    use super::Lag;

    #[test]
    fn a_pod_is_awaited_until_the_watch_shows_it_on_its_node() {
        let (mut lag, now) = (Lag::default(), Instant::now());
        let key = PodKey::new("ns", "p", "u");
        let pod = |node: Option<&str>| {
            ClusterChange::Pod(Pod {
                node: node.map(Into::into),
                ..Pod::new(key.clone(), GangKey::new("ns", "p"))
            })
        };
        lag.bound(&key, now);
        let later = now + Duration::from_millis(250);
        assert_eq!(lag.seen(&pod(None), later), None);
        assert_eq!(lag.seen(&pod(Some("n")), later), Some((&key, 0.25)));
        assert_eq!(lag.seen(&pod(Some("n")), later), None, "once");
        lag.bound(&key, now);
        assert_eq!(lag.seen(&ClusterChange::PodGone(key.clone()), later), None);
        assert_eq!(lag.seen(&pod(Some("n")), later), None, "it was gone");
    }
}
