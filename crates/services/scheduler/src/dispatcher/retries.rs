//! Pods whose bind failed, and when they are planned again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster_model::{ClusterState, Gang, GangKey, PodKey};
use tokio::time::Instant;

/// A pod whose bind failed stays assumed for this long, then is planned again; doubles with each failure in a row.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_mins(1);
/// If a gang has only a part of its nodes, the rest is tried again more than once before the gang is unwound.
const RETRY_IN_PART_MAX: Duration = Duration::from_secs(4);

/// Pods whose bind failed, until they are planned again. Bounded by the number of pods, and of those that ended
/// within [`RETRY_MAX`].
#[derive(Debug, Default)]
pub(super) struct Retries {
    due: BTreeSet<(Instant, PodKey)>,
    /// Failures in a row of pods that are neither bound nor gone.
    failures: BTreeMap<PodKey, u32>,
}

impl Retries {
    /// A pod was not bound. It stays assumed for a while, then is planned again.
    pub fn not_bound(&mut self, state: &ClusterState, pod: PodKey, now: Instant) {
        let wait_max = if has_member_on_node(state, &pod) { RETRY_IN_PART_MAX } else { RETRY_MAX };
        self.failed(pod, wait_max, now);
    }

    fn failed(&mut self, pod: PodKey, wait_max: Duration, now: Instant) {
        let failures = self.failures.entry(pod.clone()).or_default();
        let wait = wait_max.min(RETRY_MIN * 2_u32.pow((*failures).min(6)));
        *failures += 1;
        self.due.insert((now + wait, pod));
    }

    /// The pod is bound, or gone.
    pub fn ended(&mut self, pod: &PodKey) {
        self.failures.remove(pod);
    }

    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Gangs with members whose last bind failed.
    pub fn failing_gangs(&self, state: &ClusterState) -> BTreeSet<GangKey> {
        let pods = self.failures.keys().filter_map(|pod| state.pod_id(pod));
        pods.map(|id| state.pod(id).pod().gang.clone()).collect()
    }

    /// Releases pods that have waited for long enough, so that they are planned again.
    pub fn release_due(&mut self, state: &mut ClusterState, now: Instant) {
        for pod in self.take_due(now) {
            if state.pod_id(&pod).is_none() {
                // The pod's last report came after its end.
                self.ended(&pod);
            }
            state.forget(&pod);
        }
    }

    fn take_due(&mut self, now: Instant) -> Vec<PodKey> {
        let mut pods = Vec::new();
        while self.due.first().is_some_and(|(due, _)| *due <= now) {
            pods.extend(self.due.pop_first().map(|(_, pod)| pod));
        }
        pods
    }
}

/// Whether another member of the pod's gang has its node.
fn has_member_on_node(state: &ClusterState, pod: &PodKey) -> bool {
    let gang = state.pod_id(pod).map(|id| &state.pod(id).pod().gang);
    let mut members = gang.and_then(|gang| state.gang(gang)).into_iter().flat_map(Gang::members);
    members.any(|id| state.pod(id).pod().node.is_some())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster_apply::{BindOutcome, BindReport};
    use cluster_model::{ClusterChange, PodKey};
    use cluster_watch::Message;
    use tokio::time::Instant;

    use super::{RETRY_IN_PART_MAX, RETRY_MAX, RETRY_MIN, Retries};
    use crate::dispatcher::Dispatcher;
    use crate::dispatcher::testing::{dispatcher, dispatcher_of_a_gang_in_part, member, pair};
    use crate::dispatcher::unwinding::{count_in_part, is_in_part};
    use crate::ended::Ended;

    fn gangs_in_part(dispatcher: &Dispatcher) -> usize {
        count_in_part(&dispatcher.state, &dispatcher.retries.failing_gangs(&dispatcher.state))
    }

    #[tokio::test]
    async fn a_pod_that_is_gone_is_not_planned_again_at_once_and_leaves_nothing_behind() {
        let pod = PodKey::new("ns", "pod", "uid");
        let gone = BindReport {
            pod: pod.clone(),
            node: "node".into(),
            outcome: BindOutcome::Gone,
            took: Duration::ZERO,
        };
        let mut dispatcher = dispatcher();
        let before = Instant::now();
        dispatcher.settle_bind(gone.clone());
        let due = dispatcher.retries.next().expect("it is planned again later");
        assert!(due >= before + RETRY_MIN);
        dispatcher.take_in(Message::Change(ClusterChange::PodGone(pod)));
        assert!(dispatcher.retries.failures.is_empty(), "the watch says that it is gone");
        dispatcher.settle_bind(gone);
        dispatcher.retries.release_due(&mut dispatcher.state, Instant::now() + 2 * RETRY_MIN);
        assert!(dispatcher.retries.failures.is_empty(), "the report came after the watch");
        assert_eq!(dispatcher.retries.next(), None);
    }

    #[tokio::test]
    async fn a_gang_whose_rest_cannot_be_bound_counts_as_bound_in_part() {
        let mut dispatcher = dispatcher_of_a_gang_in_part();
        let pod = PodKey::new("ns", "rest", "rest");
        dispatcher.state.assume(&pod, &"node".into()).expect("it waits");
        assert_eq!(gangs_in_part(&dispatcher), 0, "its bind is under way");
        let outcome = BindOutcome::Refused("no".to_owned());
        dispatcher.settle_bind(BindReport {
            pod: pod.clone(),
            node: "node".into(),
            outcome,
            took: Duration::ZERO,
        });
        assert_eq!(gangs_in_part(&dispatcher), 1);
        dispatcher.retries.ended(&pod);
        assert_eq!(gangs_in_part(&dispatcher), 0);
    }

    #[tokio::test]
    async fn a_gang_that_started_without_a_member_that_comes_after_all_is_in_part_once_that_is_found_out() {
        let (mut dispatcher, gang) = (dispatcher_of_a_gang_in_part(), pair());
        for (members, in_part) in [(Some(1), false), (None, false), (Some(0), true)] {
            dispatcher.absent.answered(&mut dispatcher.state, &Ended { gang: gang.clone(), members });
            let known = dispatcher.state.gang(&gang).expect("it waits");
            assert_eq!(is_in_part(&dispatcher.state, known), in_part, "{members:?} ended");
        }
    }

    #[tokio::test]
    async fn while_a_gang_waits_whose_members_are_said_to_have_ended_that_is_asked_again() {
        let (mut dispatcher, gang) = (dispatcher(), pair());
        dispatcher.state.apply(ClusterChange::Pod(member("rest")));
        dispatcher.absent.answered(&mut dispatcher.state, &Ended { gang: gang.clone(), members: Some(1) });
        dispatcher.plan();
        let due = dispatcher.absent.next().expect("no member is missing, and yet it is in doubt");
        assert_eq!(dispatcher.absent.take_due(due), [gang]);
    }

    #[tokio::test]
    async fn members_that_ended_count_also_when_their_pods_are_deleted_until_others_take_their_place() {
        let (mut dispatcher, gang) = (dispatcher(), pair());
        dispatcher.state.apply(ClusterChange::Pod(member("rest")));
        for (members, expect) in [(1, 1), (0, 1)] {
            dispatcher
                .absent
                .answered(&mut dispatcher.state, &Ended { gang: gang.clone(), members: Some(members) });
            assert_eq!(dispatcher.state.gang(&gang).expect("it waits").ended(), expect, "{members} found");
        }
        dispatcher.state.apply(ClusterChange::Pod(member("made anew")));
        dispatcher.absent.answered(&mut dispatcher.state, &Ended { gang: gang.clone(), members: Some(0) });
        assert_eq!(dispatcher.state.gang(&gang).expect("it waits").ended(), 0);
    }

    #[test]
    fn a_failing_pod_is_tried_less_and_less_often_until_it_is_bound() {
        let pod = PodKey::new("ns", "pod", "uid");
        let mut retries = Retries::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..8 {
            retries.failed(pod.clone(), RETRY_MAX, now);
            let due = retries.next().expect("one is due");
            assert!(retries.take_due(due - Duration::from_millis(1)).is_empty());
            assert_eq!(retries.take_due(due), std::slice::from_ref(&pod));
            waits.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        retries.ended(&pod);
        assert!(retries.failures.is_empty(), "nothing is kept of a pod that is bound or gone");
        retries.failed(pod, RETRY_MAX, now);
        assert_eq!(retries.next(), Some(now + Duration::from_secs(1)));
    }

    #[test]
    fn the_rest_of_a_gang_in_part_is_tried_often() {
        let pod = PodKey::new("ns", "pod", "uid");
        let mut retries = Retries::default();
        let now = Instant::now();
        for _ in 0..8 {
            retries.failed(pod.clone(), RETRY_IN_PART_MAX, now);
        }
        assert!(retries.due.iter().all(|(due, _)| *due <= now + RETRY_IN_PART_MAX));
    }
}
