//! Gangs that seem to miss members. Pods that ended are not watched, so a member that ended before the rest of its
//! gang was bound (the start was interrupted by a crash) looks like one that was never created. The API server is
//! asked, one gang at a time, after a wait in which members that are being created have appeared.

use std::collections::BTreeMap;
use std::time::Duration;

use api_types::names::GANG_LABEL;
use cluster_convert::SlimPod;
use cluster_model::GangKey;
use cluster_model::plan::{WaitReason, WaitingGang};
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{info, warn};

/// A Job creates its pods within seconds; only then is it worth asking.
const PATIENCE: Duration = Duration::from_secs(3);
/// A gang that really misses members is asked about so seldom that it does not matter.
const ASK_AGAIN: Duration = Duration::from_mins(1);
/// Pods per page; a gang has at most 10,000 members.
const PAGE_SIZE: u32 = 500;
const PAGES_MAX: u32 = 40;

/// When to ask about which gang. Holds no gang that does not wait.
#[derive(Debug, Default)]
pub struct Absent {
    due: BTreeMap<GangKey, Instant>,
}

impl Absent {
    /// Takes in which gangs wait now.
    pub fn update(&mut self, waiting: &[WaitingGang], now: Instant) {
        let missing = waiting.iter().filter(|gang| {
            gang.reasons.iter().any(|reason| matches!(reason, WaitReason::MembersMissing { .. }))
        });
        let known = std::mem::take(&mut self.due);
        self.due = missing
            .map(|gang| (gang.gang.clone(), known.get(&gang.gang).copied().unwrap_or(now + PATIENCE)))
            .collect();
    }

    /// When the next gang is to be asked about.
    pub fn next(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    /// Gangs to ask about now.
    pub fn take_due(&mut self, now: Instant) -> Vec<GangKey> {
        let due: Vec<_> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(gang, _)| gang.clone()).collect();
        for gang in &due {
            self.due.insert(gang.clone(), now + ASK_AGAIN);
        }
        due
    }
}

/// How many members of a gang had a node and ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The gang.
    pub gang: GangKey,
    /// So many.
    pub members: u32,
}

/// Answers questions one after the other, until nobody asks any more. An answer that fails is asked for again later.
pub async fn answer(
    client: Client,
    mut questions: mpsc::UnboundedReceiver<GangKey>,
    answers: mpsc::UnboundedSender<Ended>,
) {
    while let Some(gang) = questions.recv().await {
        match ended_members(&client, &gang).await {
            Ok(0) => {}
            Ok(members) => {
                info!(%gang, members, "Members ended before the rest of their gang was bound.");
                // Without a receiver the process is ending.
                let _ = answers.send(Ended { gang, members });
            }
            Err(error) => warn!(%gang, %error, "Could not ask about members that ended."),
        }
    }
}

async fn ended_members(client: &Client, gang: &GangKey) -> kube::Result<u32> {
    let pods: Api<SlimPod> = Api::namespaced(client.clone(), &gang.namespace);
    let mut page = ListParams::default().labels(&format!("{GANG_LABEL}={}", gang.name)).limit(PAGE_SIZE);
    let mut ended = 0;
    for _ in 0..PAGES_MAX {
        let list = pods.list(&page).await?;
        ended += list.items.iter().filter(|pod| has_ended_on_a_node(pod)).count();
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    Ok(u32::try_from(ended).unwrap_or(u32::MAX))
}

fn has_ended_on_a_node(pod: &SlimPod) -> bool {
    let ended = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    ended && pod.spec.node_name.is_some() && pod.meta().deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use cluster_model::plan::{WaitReason, WaitingGang};
    use cluster_model::{GangKey, PodKey};
    use tokio::time::Instant;

    use super::{ASK_AGAIN, Absent, PATIENCE};

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
        absent.update(&[missing.clone(), gated], now);
        assert!(absent.take_due(now).is_empty(), "its pods may be on their way");
        assert_eq!(absent.take_due(now + PATIENCE), [GangKey::new("ns", "missing")]);
        assert_eq!(absent.next(), Some(now + PATIENCE + ASK_AGAIN));
        absent.update(&[missing], now + ASK_AGAIN);
        assert_eq!(absent.next(), Some(now + PATIENCE + ASK_AGAIN), "an update does not start the wait anew");
        absent.update(&[], now);
        assert_eq!(absent.next(), None);
    }
}
