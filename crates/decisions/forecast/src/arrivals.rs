//! Arrivals of the last days: the best guess of what will come.

use std::collections::VecDeque;
use std::sync::Arc;

use cluster_model::{ClusterState, GangKey, Pod, PodKey};
use jiff::Timestamp;

/// How far back arrivals are remembered: a week has every day of the week.
const DAYS_MAX: i64 = 7;
const DAY_SECONDS: i64 = 24 * 3600;
/// The least time that arrivals are assumed to cover: what came in the first minutes does not come every few minutes.
const KNOWN_SECONDS_MIN: i64 = 3600;
/// The most gangs that are remembered, about 600 bytes each: 2,800 a day for a week. With more, fewer days are
/// covered.
const GANGS_MAX: usize = 20_000;

/// Gangs that arrived, the oldest first. Bounded: at most 20,000 gangs of the last seven days.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    gangs: VecDeque<Arrival>,
    /// When the first one ever came: how long is "always".
    since: Option<i64>,
}

#[derive(Clone, Debug)]
struct Arrival {
    second: i64,
    /// What each member asks for; members of most gangs differ only in name.
    members: Arc<[Pod]>,
    count: usize,
}

impl Arrivals {
    /// Records a gang that has just arrived. To be called once for each.
    pub fn note(&mut self, state: &ClusterState, gang: &GangKey, now: Timestamp) {
        let Some(gang) = state.gang(gang) else { return };
        let mut members: Vec<Pod> = gang.members().map(|id| as_new(state.pod(id).pod())).collect();
        let count = members.len();
        if members.iter().all(|pod| is_like(pod, &members[0])) {
            members.truncate(1);
        }
        let second = now.as_second();
        self.gangs.push_back(Arrival { second, members: members.into(), count });
        self.since.get_or_insert(second);
        let oldest = second - DAYS_MAX * DAY_SECONDS;
        while self.gangs.len() > GANGS_MAX || self.gangs.front().is_some_and(|it| it.second < oldest) {
            let gone = self.gangs.pop_front();
            // Days that are not remembered as a whole are not replayed.
            self.since = self.since.max(gone.map(|it| it.second));
        }
    }

    /// What the gangs are made of; one pod for members that are alike.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.gangs.iter().flat_map(|gang| gang.members.iter())
    }

    /// What arrives in one future: the last day, or the last two, …, once more, at the same time of day, again and
    /// again. Before a day is known, what is known of it.
    pub(crate) fn replay(&self, now: Timestamp, sample: u32) -> Replay<'_> {
        let now = now.as_second();
        let known = self.since.map_or(0, |since| now - since).max(KNOWN_SECONDS_MIN);
        let days = (known / DAY_SECONDS).min(DAYS_MAX);
        let period = if days > 0 { (1 + i64::from(sample) % days) * DAY_SECONDS } else { known };
        let first = self.gangs.partition_point(|it| it.second <= now - period);
        Replay { gangs: &self.gangs, first, next: first, shift: period, period, number: 0 }
    }
}

/// Arrivals of one future, by time.
pub(crate) struct Replay<'a> {
    gangs: &'a VecDeque<Arrival>,
    first: usize,
    next: usize,
    shift: i64,
    period: i64,
    number: u64,
}

impl Replay<'_> {
    /// When the next gang comes.
    pub fn next_at(&self) -> Option<i64> {
        self.gangs.get(self.next).map(|it| it.second + self.shift)
    }

    /// Its pods, under unused names.
    pub fn pop(&mut self) -> Vec<Pod> {
        let (Some(at), Some(arrival)) = (self.next_at(), self.gangs.get(self.next)) else {
            return Vec::new();
        };
        self.next += 1;
        if self.next == self.gangs.len() {
            self.next = self.first;
            self.shift += self.period;
        }
        self.number += 1;
        let created = Timestamp::from_second(at).unwrap_or(Timestamp::MAX);
        let name: Arc<str> = format!("\u{1f}forecast-{}", self.number).into();
        let member = |index: usize| {
            let like = arrival.members.get(index).unwrap_or(&arrival.members[0]);
            let namespace = like.key.namespace.clone();
            let member_name: Arc<str> =
                if arrival.count == 1 { name.clone() } else { format!("{name}-{index}").into() };
            Pod {
                key: PodKey::new(namespace.clone(), member_name, name.clone()),
                gang: GangKey::new(namespace, name.clone()),
                member_index: u32::try_from(index).ok(),
                created,
                ..like.clone()
            }
        };
        (0..arrival.count).map(member).collect()
    }
}

/// The pod before it had a node.
pub(crate) fn as_new(pod: &Pod) -> Pod {
    Pod {
        node: None,
        started: None,
        checkpointed: None,
        devices: Vec::new(),
        terminating: false,
        ..pod.clone()
    }
}

fn is_like(pod: &Pod, other: &Pod) -> bool {
    let named = Pod {
        key: other.key.clone(),
        created: other.created,
        member_index: other.member_index,
        ..pod.clone()
    };
    named == *other
}

#[cfg(test)]
mod tests {
    use cluster_model::{ClusterChange, Node, Resources};

    use super::*;

    const NOW: i64 = 100 * DAY_SECONDS;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    /// Gangs of two, noted this many seconds before now; they run.
    fn arrived(ages: impl IntoIterator<Item = i64>) -> Arrivals {
        let (mut state, mut arrivals) = (ClusterState::default(), Arrivals::default());
        state.apply(ClusterChange::Node(Node::new("node")));
        let gang = GangKey::new("team", "gang");
        let member = |index: u32| Pod {
            node: Some("node".into()),
            started: Some(at(NOW)),
            member_index: Some(index),
            requests: Resources { gpus: 4, ..Resources::default() },
            ..Pod::new(PodKey::new("team", format!("gang-{index}"), "uid"), gang.clone())
        };
        for index in [0, 1] {
            state.apply(ClusterChange::Pod(member(index)));
        }
        for age in ages {
            arrivals.note(&state, &gang, at(NOW - age));
        }
        arrivals
    }

    /// When the next gangs come, from now.
    fn coming(arrivals: &Arrivals, sample: u32, count: usize) -> Vec<i64> {
        let mut replay = arrivals.replay(at(NOW), sample);
        let mut next = || {
            let next = replay.next_at().map(|next| next - NOW);
            replay.pop();
            next
        };
        (0..count).map_while(|_| next()).collect()
    }

    #[test]
    fn what_came_comes_again_at_the_same_time_of_day() {
        let day = DAY_SECONDS;
        for (ages, sample, expected) in [
            (vec![], 0, vec![]),
            // One day is known: it is repeated, in every future.
            (vec![day, 80_000, 3_600], 0, vec![6_400, 82_800, day + 6_400, day + 82_800]),
            (vec![day, 80_000, 3_600], 1, vec![6_400, 82_800, day + 6_400, day + 82_800]),
            // Of two days the first future repeats the last one, and the second both.
            (vec![2 * day, 100_000, 40_000], 0, vec![46_400, day + 46_400]),
            (vec![2 * day, 100_000, 40_000], 1, vec![72_800, 132_800, 2 * day + 72_800]),
            (vec![2 * day, 100_000, 40_000], 2, vec![46_400, day + 46_400]),
            // Of less than a day all that is known is repeated, but no faster than every hour.
            (vec![7_200, 5_000], 3, vec![2_200, 9_400]),
            (vec![60], 0, vec![3_540, 7_140]),
        ] {
            let found = coming(&arrived(ages.clone()), sample, expected.len().max(1));
            assert_eq!(found, expected, "{ages:?}, future {sample}");
        }
    }

    #[test]
    fn who_comes_again_is_new_and_has_a_name_of_its_own() {
        let arrivals = arrived([100]);
        let mut replay = arrivals.replay(at(NOW), 0);
        let (first, second) = (replay.pop(), replay.pop());
        assert_eq!(first.len(), 2);
        for pod in first.iter().chain(&second) {
            assert_eq!((&pod.node, pod.started, pod.requests.gpus), (&None, None, 4), "{pod:?}");
            assert_ne!(pod.gang, GangKey::new("team", "gang"));
        }
        assert_eq!(first[0].created, at(NOW + 3_500));
        assert_eq!(first[0].gang, first[1].gang);
        let names = first.iter().chain(&second).map(|pod| (&pod.key.namespace, &pod.key.name));
        assert_eq!(names.collect::<std::collections::BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn no_more_is_kept_than_is_said_and_no_day_is_replayed_in_part() {
        let weeks = arrived((0..20 * 24).rev().map(|hour| hour * 3_600));
        assert_eq!(weeks.gangs.len(), 7 * 24 + 1, "of seven days");
        let crowded = arrived((0..30_000).rev().map(|number| number * 10));
        assert_eq!(crowded.gangs.len(), GANGS_MAX);
        // They are of 2.3 days, so that the third day would be known in part.
        let days = |sample| crowded.replay(at(NOW), sample).period / DAY_SECONDS;
        assert_eq!([0, 1, 2].map(days), [1, 2, 1]);
    }
}
