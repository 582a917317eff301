//! For how long a gang was neither whole nor without nodes, and which pods never got a node.

use std::collections::BTreeMap;
use std::fmt;

use cluster_model::{GangKey, PodKey};

/// The state of a pod, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodLife {
    /// It waits, or holds its node.
    Living,
    /// It did its work to the end.
    Ended,
    /// It was deleted, or stopped because it is being deleted.
    Gone,
}

/// One look at one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The pod.
    pub pod: PodKey,
    /// Its gang.
    pub gang: GangKey,
    /// How many members must start together.
    pub gang_size: usize,
    /// Whether it has a node.
    pub has_node: bool,
    /// The pod's state.
    pub state: PodLife,
}

/// A time in which a gang held nodes for some of its members while others had none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPart {
    /// The gang.
    pub gang: GangKey,
    /// How many members had a node at the end of it, or had done their work.
    pub started: usize,
    /// How many must.
    pub size: usize,
    /// From when.
    pub since_millis: i64,
    /// Until when; `None` if it still is so.
    pub until_millis: Option<i64>,
}

impl fmt::Display for InPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gang, started, size, since_millis, until_millis } = self;
        let until = until_millis.map_or_else(|| "the end".to_owned(), |millis| format!("{millis} ms"));
        write!(f, "gang {gang} had {started} of {size} members on nodes from {since_millis} ms to {until}")
    }
}

/// Everything that was seen of gangs. Feed it in the order of time.
#[derive(Clone, Debug, Default)]
pub struct GangTimes {
    gangs: BTreeMap<GangKey, Members>,
    past: Vec<InPart>,
    /// Pods that were deleted without ever having had a node.
    deleted_unplaced: Vec<PodKey>,
}

#[derive(Clone, Debug, Default)]
struct Members {
    size: usize,
    pods: BTreeMap<PodKey, Member>,
    in_part_since: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    has_node: bool,
    ended: bool,
}

impl GangTimes {
    /// Takes in one look at one pod.
    pub fn see(&mut self, at_millis: i64, seen: &Sighting) {
        let members = self.gangs.entry(seen.gang.clone()).or_default();
        members.size = seen.gang_size;
        let before = members.pods.get(&seen.pod).copied();
        let had_ended = before.is_some_and(|member| member.ended);
        if seen.state == PodLife::Gone && !had_ended {
            members.pods.remove(&seen.pod);
            if before.is_some_and(|member| !member.has_node) && !seen.has_node {
                self.deleted_unplaced.push(seen.pod.clone());
            }
        } else {
            let ended = had_ended || seen.state == PodLife::Ended;
            members.pods.insert(seen.pod.clone(), Member { has_node: seen.has_node, ended });
        }
        let part = members.part();
        match (members.in_part_since, part) {
            (None, Some(_)) => members.in_part_since = Some(at_millis),
            (Some(since_millis), None) => {
                members.in_part_since = None;
                self.past.push(InPart {
                    gang: seen.gang.clone(),
                    started: members.started(),
                    size: members.size,
                    since_millis,
                    until_millis: Some(at_millis),
                });
            }
            _ => {}
        }
        if members.pods.is_empty() {
            self.gangs.remove(&seen.gang);
        }
    }

    /// Gangs that were in part for longer than `limit_millis`, counted from `faults_ended_millis` if they were in
    /// part before; and those that still are at `now_millis`, even if not for long.
    pub fn in_part_too_long(
        &self,
        limit_millis: i64,
        faults_ended_millis: i64,
        now_millis: i64,
    ) -> Vec<InPart> {
        let now = self.gangs.iter().filter_map(|(gang, members)| {
            Some(InPart {
                gang: gang.clone(),
                started: members.part()?,
                size: members.size,
                since_millis: members.in_part_since?,
                until_millis: None,
            })
        });
        let lasted = |part: &InPart| {
            part.until_millis.unwrap_or(now_millis) - part.since_millis.max(faults_ended_millis)
        };
        let too_long = self.past.iter().filter(|part| lasted(part) > limit_millis);
        too_long.cloned().chain(now).collect()
    }

    /// The longest time that a gang was in part, whatever caused it.
    pub fn longest_in_part_millis(&self) -> i64 {
        self.past.iter().filter_map(|part| Some(part.until_millis? - part.since_millis)).max().unwrap_or(0)
    }

    /// Pods that have no node, and pods that were deleted without ever having had one.
    pub fn never_placed(&self) -> Vec<PodKey> {
        let pods = self.gangs.values().flat_map(|members| &members.pods);
        let waiting = pods.filter(|(_, member)| !member.has_node && !member.ended).map(|(pod, _)| pod);
        waiting.chain(&self.deleted_unplaced).cloned().collect()
    }
}

impl Members {
    fn started(&self) -> usize {
        self.pods.values().filter(|member| member.has_node).count()
    }

    /// How many have started, if the gang holds a node and is not whole.
    fn part(&self) -> Option<usize> {
        let holds = self.pods.values().any(|member| member.has_node && !member.ended);
        let started = self.started();
        (holds && started < self.size).then_some(started)
    }
}

#[cfg(test)]
mod tests {
    use super::{GangKey, GangTimes, PodKey, PodLife, Sighting};

    fn seen(name: &str, has_node: bool, state: PodLife) -> Sighting {
        Sighting {
            pod: PodKey::new("ns", name, name),
            gang: GangKey::new("ns", "gang"),
            gang_size: 2,
            has_node,
            state,
        }
    }

    fn judge(sightings: &[(i64, Sighting)]) -> GangTimes {
        let mut times = GangTimes::default();
        for (at, sighting) in sightings {
            times.see(*at, sighting);
        }
        times
    }

    #[test]
    fn the_time_between_the_first_and_the_last_member_counts_from_the_last_fault_on() {
        let (waits, runs) =
            (|name| seen(name, false, PodLife::Living), |name| seen(name, true, PodLife::Living));
        let events = [(0, waits("a")), (0, waits("b")), (10, runs("a")), (100, runs("b"))];
        let times = judge(&events);
        assert_eq!(times.longest_in_part_millis(), 90);
        assert_eq!(times.in_part_too_long(80, 0, 200).len(), 1);
        assert_eq!(times.in_part_too_long(90, 0, 200), []);
        assert_eq!(times.in_part_too_long(80, 30, 200), [], "70 ms after the last fault");
        assert!(times.never_placed().is_empty());
        let open = judge(&events[..3]);
        assert_eq!(open.in_part_too_long(1_000, 0, 20).len(), 1, "it is so at the end");
        assert_eq!(open.never_placed(), [PodKey::new("ns", "b", "b")]);
    }

    #[test]
    fn work_that_is_done_counts_as_started_and_deleted_members_do_not() {
        let done = [
            (0, seen("a", true, PodLife::Living)),
            (5, seen("b", true, PodLife::Living)),
            (6, seen("a", true, PodLife::Ended)),
            (7, seen("a", true, PodLife::Gone)),
        ];
        assert_eq!(judge(&done).in_part_too_long(0, 5, 100), []);
        let lost = [done[0].clone(), done[1].clone(), (6, seen("a", true, PodLife::Gone))];
        assert_eq!(judge(&lost).in_part_too_long(0, 5, 100).len(), 1);
        let unwound =
            [lost[0].clone(), lost[1].clone(), lost[2].clone(), (9, seen("b", true, PodLife::Gone))];
        assert_eq!(judge(&unwound).in_part_too_long(3, 5, 100), [], "nothing is held any more");
        assert_eq!(judge(&unwound).in_part_too_long(2, 5, 100).len(), 1);
    }

    #[test]
    fn a_pod_that_is_deleted_before_it_was_placed_is_found() {
        let times = judge(&[(0, seen("a", false, PodLife::Living)), (1, seen("a", false, PodLife::Gone))]);
        assert_eq!(times.never_placed(), [PodKey::new("ns", "a", "a")]);
    }
}
