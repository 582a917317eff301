//! What became of binds, and when those that failed are tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster_apply::{BindReport, Outcome};
use cluster_model::{Gang, GangKey, PodKey};
use tokio::time::Instant;

use super::Planner;
use crate::absent::Ended;

/// A pod whose bind failed stays assumed for this long, then is planned again; doubles with each failure in a row.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_mins(1);
/// Of a gang that has a part of its nodes, the rest is tried again before the gang is unwound, and more than once.
const RETRY_IN_PART_MAX: Duration = Duration::from_secs(4);

impl Planner {
    /// A bound pod stays assumed until the watch shows it on its node. One that was not bound is planned again.
    pub(super) fn settle(&mut self, report: BindReport) {
        self.observe_bind(&report);
        match report.outcome {
            Outcome::Bound => {
                self.retries.ended(&report.pod);
                self.rooms.landed(&report.pod);
            }
            // The process is about to end, and nothing may be planned any more.
            Outcome::Fenced(_) => {}
            // Also what is gone: until the watch says so too, it would be planned and bound over and over.
            Outcome::Gone
            | Outcome::OnAnotherNode(_)
            | Outcome::Refused(_)
            | Outcome::Throttled(_)
            | Outcome::Unknown(_) => {
                let wait_max = if self.is_in_part(&report.pod) { RETRY_IN_PART_MAX } else { RETRY_MAX };
                self.retries.failed(report.pod, wait_max, Instant::now());
            }
        }
    }

    /// Whether another member of the pod's gang has its node.
    fn is_in_part(&self, pod: &PodKey) -> bool {
        let gang = self.state.pod_id(pod).map(|id| &self.state.pod(id).pod().gang);
        let mut members = gang.and_then(|gang| self.state.gang(gang)).into_iter().flat_map(Gang::members);
        members.any(|id| self.state.pod(id).pod().node.is_some())
    }

    /// Gangs with members whose last bind failed.
    pub(super) fn failing_gangs(&self) -> BTreeSet<GangKey> {
        let pods = self.retries.failures.keys().filter_map(|pod| self.state.pod_id(pod));
        pods.map(|id| self.state.pod(id).pod().gang.clone()).collect()
    }

    pub(super) fn retry_due(&mut self, now: Instant) {
        for pod in self.retries.take_due(now) {
            if self.state.pod_id(&pod).is_none() {
                // Its last report came after its end.
                self.retries.ended(&pod);
            }
            self.state.forget(&pod);
        }
    }

    /// An answer takes the place of the one before: members that had ended may have been made anew. But pods that ended are
    /// deleted some day, and then nobody can find them: it becomes fewer only as far as members are there instead.
    pub(super) fn note_ended(&mut self, Ended { gang: key, members }: &Ended) {
        self.absent.answered(key);
        let (Some(members), Some(gang)) = (*members, self.state.gang(key)) else { return };
        let size = self.state.pod(gang.lead()).pod().gang_size.unwrap_or(0);
        let missing = size.saturating_sub(u32::try_from(gang.members().count()).unwrap_or(u32::MAX));
        self.state.note_ended(key, members.max(gang.ended().min(missing)));
    }
}

/// Pods whose bind failed, until they are planned again. Bounded by the number of pods, and of those that ended
/// within [`RETRY_MAX`].
#[derive(Debug, Default)]
pub(super) struct Retries {
    due: BTreeSet<(Instant, PodKey)>,
    /// In a row, of pods that are neither bound nor gone.
    failures: BTreeMap<PodKey, u32>,
}

impl Retries {
    pub fn failed(&mut self, pod: PodKey, wait_max: Duration, now: Instant) {
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

    pub fn take_due(&mut self, now: Instant) -> Vec<PodKey> {
        let mut pods = Vec::new();
        while self.due.first().is_some_and(|(due, _)| *due <= now) {
            pods.extend(self.due.pop_first().map(|(_, pod)| pod));
        }
        pods
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster_apply::{BindReport, Outcome};
    use cluster_model::{Change, PodKey};
    use cluster_watch::Message;
    use tokio::time::Instant;

    use super::{RETRY_IN_PART_MAX, RETRY_MAX, RETRY_MIN, Retries};
    use crate::absent::Ended;
    use crate::planner::testing::{member, pair, planner, planner_of_a_gang_in_part};
    use crate::unwind::is_in_part;

    #[tokio::test]
    async fn a_pod_that_is_gone_is_not_planned_again_at_once_and_leaves_nothing_behind() {
        let pod = PodKey::new("ns", "pod", "uid");
        let gone = BindReport {
            pod: pod.clone(),
            node: "node".into(),
            outcome: Outcome::Gone,
            took: Duration::ZERO,
        };
        let mut planner = planner();
        let before = Instant::now();
        planner.settle(gone.clone());
        let due = planner.retries.next().expect("it is planned again later");
        assert!(due >= before + RETRY_MIN);
        planner.take_in(Message::Change(Change::PodGone(pod)));
        assert!(planner.retries.failures.is_empty(), "the watch says that it is gone");
        planner.settle(gone);
        planner.retry_due(Instant::now() + 2 * RETRY_MIN);
        assert!(planner.retries.failures.is_empty(), "the report came after the watch");
        assert_eq!(planner.retries.next(), None);
    }

    #[tokio::test]
    async fn a_gang_whose_rest_cannot_be_bound_counts_as_bound_in_part() {
        let mut planner = planner_of_a_gang_in_part();
        let pod = PodKey::new("ns", "rest", "rest");
        planner.state.assume(&pod, &"node".into()).expect("it waits");
        assert_eq!(planner.gangs_in_part(), 0, "its bind is under way");
        let outcome = Outcome::Refused("no".to_owned());
        planner.settle(BindReport { pod: pod.clone(), node: "node".into(), outcome, took: Duration::ZERO });
        assert_eq!(planner.gangs_in_part(), 1);
        planner.retries.ended(&pod);
        assert_eq!(planner.gangs_in_part(), 0);
    }

    #[tokio::test]
    async fn a_gang_that_started_without_a_member_that_comes_after_all_is_in_part_once_that_is_found_out() {
        let (mut planner, gang) = (planner_of_a_gang_in_part(), pair());
        for (members, in_part) in [(Some(1), false), (None, false), (Some(0), true)] {
            planner.note_ended(&Ended { gang: gang.clone(), members });
            let known = planner.state.gang(&gang).expect("it waits");
            assert_eq!(is_in_part(&planner.state, known), in_part, "{members:?} ended");
        }
    }

    #[tokio::test]
    async fn while_a_gang_waits_whose_members_are_said_to_have_ended_that_is_asked_again() {
        let (mut planner, gang) = (planner(), pair());
        planner.state.apply(Change::Pod(member("rest")));
        planner.note_ended(&Ended { gang: gang.clone(), members: Some(1) });
        planner.plan();
        let due = planner.absent.next().expect("no member is missing, and yet it is in doubt");
        assert_eq!(planner.absent.take_due(due), [gang]);
    }

    #[tokio::test]
    async fn members_that_ended_count_also_when_their_pods_are_deleted_until_others_take_their_place() {
        let (mut planner, gang) = (planner(), pair());
        planner.state.apply(Change::Pod(member("rest")));
        for (members, expect) in [(1, 1), (0, 1)] {
            planner.note_ended(&Ended { gang: gang.clone(), members: Some(members) });
            assert_eq!(planner.state.gang(&gang).expect("it waits").ended(), expect, "{members} found");
        }
        planner.state.apply(Change::Pod(member("made anew")));
        planner.note_ended(&Ended { gang: gang.clone(), members: Some(0) });
        assert_eq!(planner.state.gang(&gang).expect("it waits").ended(), 0);
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
