//! How far the watch is behind: from the answer to a bind to the pod on its node.

use std::collections::HashMap;

use cluster_model::{Change, PodKey};
use tokio::time::Instant;

/// Binds of which the watch has not told yet. As many as are under way, unless the watch is broken.
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

    /// The pod, and the seconds that it took, if the change is what was awaited.
    pub fn seen<'a>(&mut self, change: &'a Change, now: Instant) -> Option<(&'a PodKey, f64)> {
        let pod = match change {
            Change::Pod(pod) if pod.node.is_some() => &pod.key,
            Change::PodGone(pod) => return self.bound.remove(pod).and(None),
            _ => return None,
        };
        self.bound.remove(pod).map(|bound| (pod, (now - bound).as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster_model::{Change, GangKey, Pod, PodKey};
    use tokio::time::Instant;

    use super::Lag;

    #[test]
    fn a_pod_is_awaited_until_the_watch_shows_it_on_its_node() {
        let (mut lag, now) = (Lag::default(), Instant::now());
        let key = PodKey::new("ns", "p", "u");
        let pod = |node: Option<&str>| {
            Change::Pod(Pod { node: node.map(Into::into), ..Pod::new(key.clone(), GangKey::new("ns", "p")) })
        };
        lag.bound(&key, now);
        let later = now + Duration::from_millis(250);
        assert_eq!(lag.seen(&pod(None), later), None);
        assert_eq!(lag.seen(&pod(Some("n")), later), Some((&key, 0.25)));
        assert_eq!(lag.seen(&pod(Some("n")), later), None, "once");
        lag.bound(&key, now);
        assert_eq!(lag.seen(&Change::PodGone(key.clone()), later), None);
        assert_eq!(lag.seen(&pod(Some("n")), later), None, "it was gone");
    }
}
