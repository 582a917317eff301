//! Gangs that seem to miss members. Pods that ended are not watched, so a member that ended before the rest of its
//! gang was bound (the start was interrupted by a crash) looks like one that was never created, and a gang that is
//! through but for a few members looks like one that is bound in part. The API server is
//! asked, one gang at a time, after a wait in which members that are being created have appeared. No gang is asked
//! about again before there is an answer, so that there are never more questions than gangs. One that waits though members
//! of it ended is asked about again and again: they may be made anew after all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_types::names::GANG_LABEL;
use cluster_convert::{SlimPod, bound_at, member_index};
use cluster_model::GangKey;
use cluster_model::plan::{WaitReason, WaitingGang};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ListParams};
use kube::{Client, Resource, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};

/// A Job creates its pods within seconds; only then is it worth asking.
const PATIENCE: Duration = Duration::from_secs(3);
/// A gang that really misses members is asked about so seldom that it does not matter.
const ASK_AGAIN: Duration = Duration::from_mins(1);
/// Pods per page; a gang has at most 10,000 members.
const PAGE_SIZE: u32 = 500;
const PAGES_MAX: u32 = 40;
/// An answer takes milliseconds; after this long the connection is dead.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// A Job makes a pod that failed anew after a wait that doubles up to ten minutes. What is not there after half as long
/// again does not come: the index has failed for good.
const ANEW_MAX: SignedDuration = SignedDuration::from_mins(15);

/// When to ask about which gang.
#[derive(Debug, Default)]
pub struct Absent {
    /// Holds no gang that does not wait.
    due: BTreeMap<GangKey, Instant>,
    /// Gangs that were asked about, until the answer comes.
    asked: BTreeSet<GangKey>,
}

impl Absent {
    /// Takes in which gangs wait now, and which of them are in doubt though no member seems to be missing.
    pub fn update(&mut self, waiting: &[WaitingGang], is_in_doubt: impl Fn(&GangKey) -> bool, now: Instant) {
        let is_missing = |reason: &WaitReason| matches!(reason, WaitReason::MembersMissing { .. });
        let asked = waiting.iter().filter(|it| it.reasons.iter().any(is_missing) || is_in_doubt(&it.gang));
        let known = std::mem::take(&mut self.due);
        self.due = asked
            .map(|gang| (gang.gang.clone(), known.get(&gang.gang).copied().unwrap_or(now + PATIENCE)))
            .collect();
    }

    /// When the next gang is to be asked about.
    pub fn next(&self) -> Option<Instant> {
        let free = self.due.iter().filter(|(gang, _)| !self.asked.contains(*gang));
        free.map(|(_, at)| *at).min()
    }

    /// Gangs to ask about now; each stays asked until [`Absent::answered`].
    pub fn take_due(&mut self, now: Instant) -> Vec<GangKey> {
        let is_due = |(gang, at): &(&GangKey, &Instant)| **at <= now && !self.asked.contains(*gang);
        let due: Vec<_> = self.due.iter().filter(is_due).map(|(gang, _)| gang.clone()).collect();
        for gang in &due {
            self.due.insert(gang.clone(), now + ASK_AGAIN);
            self.asked.insert(gang.clone());
        }
        due
    }

    /// Notes that a question was answered.
    pub fn answered(&mut self, gang: &GangKey) {
        self.asked.remove(gang);
    }
}

/// How many members of a gang had a node and ended, and are not made anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The gang.
    pub gang: GangKey,
    /// So many, if it could be found out.
    pub members: Option<u32>,
}

/// Answers questions one after the other, each with one answer, until nobody asks any more. What could not be found out
/// is asked for again later.
pub async fn answer(
    client: Client,
    mut questions: mpsc::UnboundedReceiver<GangKey>,
    answers: mpsc::UnboundedSender<Ended>,
) {
    while let Some(gang) = questions.recv().await {
        let asked = tokio::time::timeout(ANSWER_MAX, ended_members(&client, &gang)).await;
        let members = match asked.unwrap_or_else(|elapsed| Err(kube::Error::Service(elapsed.into()))) {
            Ok(members) => {
                debug!(%gang, members, "Asked how many members of a gang that waits have ended.");
                Some(members)
            }
            Err(error) => {
                warn!(%gang, %error, "Could not ask about members that ended.");
                None
            }
        };
        // Without a receiver the process is ending.
        let _ = answers.send(Ended { gang, members });
    }
}

async fn ended_members(client: &Client, gang: &GangKey) -> kube::Result<u32> {
    let pods: Api<SlimPod> = Api::namespaced(client.clone(), &gang.namespace);
    let mut page = ListParams::default().labels(&format!("{GANG_LABEL}={}", gang.name)).limit(PAGE_SIZE);
    let (mut seen, now) = (Vec::new(), Timestamp::now());
    for _ in 0..PAGES_MAX {
        let list = pods.list(&page).await?;
        seen.extend(list.items.iter().map(|pod| Seen::of(pod, now)));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    Ok(count_ended(&seen))
}

/// What is read of a pod that has the gang's label.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    /// The uid of its controller.
    owner: Option<String>,
    /// Its index in the gang, else its name: a pod made anew for the same index is the same member.
    place: String,
    created: Option<Timestamp>,
    /// When it got its node.
    bound: Option<Timestamp>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Alive,
    Succeeded,
    /// It failed, and nobody makes it anew.
    Failed,
    /// It failed, and its controller may make it anew.
    FailedJustNow,
    /// It ended without ever having had a node, or is about to be gone.
    Neither,
}

impl Seen {
    fn of(pod: &SlimPod, now: Timestamp) -> Self {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        let owner = owners.find(|it| it.controller == Some(true)).map(|it| it.uid.clone());
        let is_over = owner.is_none() || last_change(pod).is_some_and(|at| now.duration_since(at) > ANEW_MAX);
        Self {
            owner,
            place: member_index(pod).map_or_else(|| pod.name_any(), |index| index.to_string()),
            created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            bound: bound_at(pod),
            phase: match pod.status.phase.as_deref() {
                Some("Failed") if !is_over => Phase::FailedJustNow,
                Some("Failed") if stays_on_a_node(pod) => Phase::Failed,
                Some("Succeeded") if stays_on_a_node(pod) => Phase::Succeeded,
                Some("Succeeded" | "Failed") => Phase::Neither,
                _ => Phase::Alive,
            },
        }
    }

    /// Whose member it is, and which.
    fn member(&self) -> (Option<&str>, &str) {
        (self.owner.as_deref(), &self.place)
    }
}

/// How many members of the gang that lives now had a node and ended. The gang's name may have been used before, so a
/// pod counts only if it has the controller of a pod that lives, and none that lives has its place. Pods without a
/// controller had their node only after all members were there, so one that had it before a living one was created is
/// of an earlier use. A member that failed counts only when it is not made anew, however often it was before: else its
/// gang would start without it, and be in part when it comes.
fn count_ended(seen: &[Seen]) -> u32 {
    let members = |phase: Phase| -> BTreeSet<(Option<&str>, &str)> {
        seen.iter().filter(|pod| pod.phase == phase).map(Seen::member).collect()
    };
    let (alive, failed_just_now) = (members(Phase::Alive), members(Phase::FailedJustNow));
    let owners: BTreeSet<Option<&str>> = alive.iter().map(|(owner, _)| *owner).collect();
    let newest = seen.iter().filter(|pod| pod.phase == Phase::Alive).filter_map(|pod| pod.created).max();
    let of_earlier_use = |pod: &Seen| {
        pod.owner.is_none() && pod.bound.zip(newest).is_some_and(|(bound, newest)| bound < newest)
    };
    let is_through = |pod: &Seen| match pod.phase {
        Phase::Succeeded => true,
        Phase::Failed => !failed_just_now.contains(&pod.member()),
        Phase::Alive | Phase::FailedJustNow | Phase::Neither => false,
    };
    let ended: BTreeSet<_> = seen
        .iter()
        .filter(|pod| is_through(pod) && !of_earlier_use(pod))
        .map(Seen::member)
        .filter(|member| owners.contains(&member.0) && !alive.contains(member))
        .collect();
    u32::try_from(ended.len()).unwrap_or(u32::MAX)
}

/// The last that happened to a pod, as far as it says.
fn last_change(pod: &SlimPod) -> Option<Timestamp> {
    let containers = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let ends = containers.filter_map(|it| it.state.terminated.as_ref()?.finished_at.as_ref());
    let turns = pod.status.conditions.iter().filter_map(|it| it.last_transition_time.as_ref());
    ends.chain(turns).map(|time| time.0).max()
}

fn stays_on_a_node(pod: &SlimPod) -> bool {
    pod.spec.node_name.is_some() && pod.meta().deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use cluster_convert::SlimPod;
    use cluster_model::plan::{WaitReason, WaitingGang};
    use cluster_model::{GangKey, PodKey};
    use serde_json::json;
    use tokio::time::Instant;

    use super::{ASK_AGAIN, Absent, PATIENCE, Seen, count_ended};

    /// The second at which the API server is asked.
    const NOW: i64 = 10_000;

    fn at(second: i64) -> jiff::Timestamp {
        jiff::Timestamp::from_second(second).expect("in range")
    }

    /// A pod of the gang: its name, its Job, its index, its phase, and the seconds at which it was created and bound.
    fn seen(
        name: &str,
        job: Option<&str>,
        index: Option<u32>,
        phase: &str,
        created: i64,
        bound: Option<i64>,
    ) -> Seen {
        let time = |second| at(second).to_string();
        let conditions = bound.map(
            |second| json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": time(second) }),
        );
        let owners = job.map(|uid| {
            json!({ "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": true })
        });
        let labels =
            index.map(|index| json!({ "batch.kubernetes.io/job-completion-index": index.to_string() }));
        let pod: SlimPod = serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": "ns", "creationTimestamp": time(created), "labels": labels,
                "ownerReferences": owners.into_iter().collect::<Vec<_>>(),
            },
            "spec": { "nodeName": bound.map(|_| "n") },
            "status": { "phase": phase, "conditions": conditions.into_iter().collect::<Vec<_>>() },
        }))
        .expect("it is a pod");
        Seen::of(&pod, at(NOW))
    }

    #[test]
    fn only_members_of_the_gang_that_lives_count_as_ended_each_once() {
        let alive = seen("j-2-x", Some("new"), Some(2), "Pending", 10, None);
        let ended = seen("j-0-a", Some("new"), Some(0), "Succeeded", 10, Some(11));
        let same_place = seen("j-0-b", Some("new"), Some(0), "Failed", 10, Some(11));
        let place_is_alive = seen("j-2-y", Some("new"), Some(2), "Failed", 10, Some(11));
        let other_job = seen("j-1-a", Some("old"), Some(1), "Succeeded", 1, Some(2));
        let no_job = seen("plain", None, None, "Succeeded", 1, Some(2));
        let never_bound = seen("j-1-b", Some("new"), Some(1), "Failed", 10, None);
        let count = |others: &[&Seen]| {
            count_ended(&others.iter().copied().chain([&alive]).cloned().collect::<Vec<_>>())
        };
        assert_eq!(count(&[&ended]), 1);
        assert_eq!(count(&[&ended, &same_place]), 1, "one member, made anew");
        assert_eq!(count(&[&place_is_alive]), 0);
        assert_eq!(count(&[&other_job]), 0, "an earlier use of the name");
        assert_eq!(count(&[&no_job]), 0);
        assert_eq!(count(&[&never_bound]), 0);
    }

    #[test]
    fn a_pod_without_a_controller_that_was_bound_before_a_living_one_was_created_is_of_an_earlier_use() {
        let alive = seen("b", None, None, "Pending", 10, None);
        let ended = seen("a", None, None, "Succeeded", 9, Some(10));
        let earlier = seen("z", None, None, "Succeeded", 1, Some(9));
        assert_eq!(count_ended(&[alive, ended, earlier]), 1);
    }

    #[test]
    fn a_member_that_failed_is_through_only_when_nobody_makes_it_anew() {
        let alive = seen("j-0-a", Some("job"), Some(0), "Pending", NOW, None);
        let third = |phase: &str, bound: i64| seen("j-3", Some("job"), Some(3), phase, bound, Some(bound));
        let count = |others: &[&Seen]| {
            count_ended(&others.iter().copied().chain([&alive]).cloned().collect::<Vec<_>>())
        };
        let (just_now, long_ago) = (third("Failed", NOW - 20), third("Failed", NOW - 3_600));
        assert_eq!(count(&[&just_now]), 0, "its Job may make it anew");
        assert_eq!(count(&[&long_ago]), 1, "its Job would have made it anew by now");
        assert_eq!(count(&[&long_ago, &just_now]), 0, "its Job has made it anew before");
        assert_eq!(count(&[&just_now, &third("Succeeded", NOW - 5)]), 1, "it was made anew, and is through");
        let waits = seen("b", None, None, "Pending", NOW - 30, None);
        let failed = seen("a", None, None, "Failed", NOW - 30, Some(NOW - 20));
        assert_eq!(count_ended(&[waits, failed]), 1, "it has nobody who would make it anew");
    }

    fn gang(name: &str, reason: WaitReason) -> WaitingGang {
        WaitingGang {
            gang: GangKey::new("ns", name),
            run: None,
            first_pod: PodKey::new("ns", name, "uid"),
            reasons: vec![reason],
        }
    }

    #[test]
    fn only_gangs_that_miss_members_for_a_while_are_asked_about_and_seldom() {
        let missing = gang("missing", WaitReason::MembersMissing { have: 1, want: 2 });
        let gated = gang("gated", WaitReason::Gated { members: 1 });
        let now = Instant::now();
        let mut absent = Absent::default();
        absent.update(&[missing.clone(), gated.clone()], |_| false, now);
        assert!(absent.take_due(now).is_empty(), "its pods may be on their way");
        let asked = [GangKey::new("ns", "missing")];
        assert_eq!(absent.take_due(now + PATIENCE), asked);
        assert_eq!(absent.next(), None, "there is no answer yet");
        assert!(absent.take_due(now + ASK_AGAIN * 10).is_empty(), "there is no answer yet");
        absent.answered(&asked[0]);
        assert_eq!(absent.next(), Some(now + PATIENCE + ASK_AGAIN));
        absent.update(&[missing], |_| false, now + ASK_AGAIN);
        assert_eq!(absent.next(), Some(now + PATIENCE + ASK_AGAIN), "an update does not start the wait anew");
        absent.update(&[], |_| false, now);
        assert_eq!(absent.next(), None);
        absent.update(&[gated], |_| true, now);
        assert_eq!(absent.next(), Some(now + PATIENCE), "members of a gang in part may have ended");
    }
}
