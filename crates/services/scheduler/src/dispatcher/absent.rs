//! Gangs that seem to miss members, and when to ask the API server about them. Pods that ended are not watched, so a member
//! that ended before the rest of its gang was bound (a crash interrupted the start) looks like one that was never created,
//! and a gang of which all but a few members have ended looks like one that is bound in part. We ask the API
//! server (`crate::ended`) after a wait in which members that are being created appear. There is one open
//! question per gang at most. If members of a waiting gang have ended, we ask about it again and again, because
//! its Job may still create them anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster_model::plan::{WaitReason, WaitingGang};
use cluster_model::{ClusterState, Gang, GangKey};
use tokio::time::Instant;

use super::unwinding::is_in_part;
use crate::ended::Ended;

/// A Job creates its pods within seconds; before that a question would be in vain.
const PATIENCE: Duration = Duration::from_secs(3);
/// For a gang that really misses members: rare enough to cost nothing.
const ASK_AGAIN: Duration = Duration::from_mins(1);

/// The gangs to ask about, and when.
#[derive(Debug, Default)]
pub struct Absent {
    /// Only gangs that wait.
    due: BTreeMap<GangKey, Instant>,
    /// Gangs that were asked about, until the answer comes.
    asked: BTreeSet<GangKey>,
}

impl Absent {
    /// Notes the gangs that wait after a plan.
    pub fn planned(&mut self, state: &ClusterState, waiting: &[WaitingGang], now: Instant) {
        // The last answer about ended members may be out of date.
        let in_doubt = |gang: &Gang| gang.ended() > 0 || is_in_part(state, gang);
        self.update(waiting, |gang| state.gang(gang).is_some_and(in_doubt), now);
    }

    /// The same, with a function that says which gangs are in doubt although no member seems to be missing.
    fn update(&mut self, waiting: &[WaitingGang], is_in_doubt: impl Fn(&GangKey) -> bool, now: Instant) {
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

    /// A question was answered. It replaces the answer before: members that had ended may have been made anew.
    /// But ended pods are deleted some day and then cannot be found, so the count sinks only as far as living
    /// members take their place.
    pub fn answered(&mut self, state: &mut ClusterState, Ended { gang: key, members }: &Ended) {
        self.asked.remove(key);
        let (Some(members), Some(gang)) = (*members, state.gang(key)) else { return };
        let size = state.pod(gang.lead()).pod().gang_size.unwrap_or(0);
        let missing = size.saturating_sub(u32::try_from(gang.members().count()).unwrap_or(u32::MAX));
        let ended = members.max(gang.ended().min(missing));
        state.note_ended(key, ended);
    }
}

#[cfg(test)]
mod tests {
    use cluster_model::plan::{WaitReason, WaitingGang};
    use cluster_model::{ClusterState, GangKey, PodKey};
    use tokio::time::Instant;

    use super::{ASK_AGAIN, Absent, PATIENCE};
    use crate::ended::Ended;

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
        let answer = Ended { gang: asked[0].clone(), members: None };
        absent.answered(&mut ClusterState::default(), &answer);
        assert_eq!(absent.next(), Some(now + PATIENCE + ASK_AGAIN));
        absent.update(&[missing], |_| false, now + ASK_AGAIN);
        assert_eq!(absent.next(), Some(now + PATIENCE + ASK_AGAIN), "an update does not start the wait anew");
        absent.update(&[], |_| false, now);
        assert_eq!(absent.next(), None);
        absent.update(&[gated], |_| true, now);
        assert_eq!(absent.next(), Some(now + PATIENCE), "members of a gang in part may have ended");
    }
}
