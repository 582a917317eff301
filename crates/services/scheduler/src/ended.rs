//! Asks the API server how many members of a gang had a node and have ended: pods that ended are not watched.

use std::collections::BTreeSet;
use std::time::Duration;

use api_types::names::GANG_LABEL;
use cluster_model::GangKey;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ListParams};
use kube::{Client, Resource, ResourceExt};
use slim_objects::{SlimPod, bound_at, member_index};
use tokio::sync::mpsc;
use tracing::{debug, warn};

/// Pods per page; a gang has at most 10,000 members.
const PAGE_SIZE: u32 = 500;
const PAGES_MAX: u32 = 40;
/// An answer takes milliseconds; after this long the connection is dead.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// A Job makes a failed pod anew after a wait that doubles up to ten minutes. If there is no new pod after half
/// as long again, the index has failed for good.
const ANEW_MAX: SignedDuration = SignedDuration::from_mins(15);

/// How many members of a gang had a node, ended, and are not made anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The gang.
    pub gang: GangKey,
    /// The number; `None` if it could not be found out.
    pub members: Option<u32>,
}

/// Answers questions one after the other, each with one answer, until the channel closes. If an answer is
/// `None`, the dispatcher asks again later.
pub async fn answer(
    client: Client,
    mut questions: mpsc::UnboundedReceiver<GangKey>,
    answers: mpsc::UnboundedSender<Ended>,
) {
    while let Some(gang) = questions.recv().await {
        let asked = tokio::time::timeout(ANSWER_MAX, ended_members(&client, &gang)).await;
        let members = match asked.unwrap_or_else(|elapsed| Err(kube::Error::Service(elapsed.into()))) {
            Ok(members) => {
                debug!(%gang, members, "Asked how many members of a waiting gang have ended.");
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

/// A pod with the gang's label, as far as we read it.
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
    /// It failed, and is not made anew.
    Failed,
    /// It failed, and its controller may make it anew.
    FailedJustNow,
    /// It ended without ever having a node, or is about to be gone.
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

    /// Its controller, and its place in the gang.
    fn member(&self) -> (Option<&str>, &str) {
        (self.owner.as_deref(), &self.place)
    }
}

/// How many members of the present gang had a node and ended. The gang's name may have been used before, so a
/// pod counts only if it has the controller of a living pod, and no living pod has its place. Pods without a
/// controller get their node only after all members exist, so a pod that had its node before a living one was
/// created is of an earlier gang. A failed member counts only when it is not made anew: otherwise its gang
/// would start without it, and be in part when it comes.
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

/// The last recorded change of a pod.
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
    use serde_json::json;
    use slim_objects::SlimPod;

    use super::{Seen, count_ended};

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
}
