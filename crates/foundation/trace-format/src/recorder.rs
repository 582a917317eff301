//! A live cluster's history as a trace: it takes in one cluster change after the other, and returns lines that
//! `warpyard simulate` reads.
//!
//! ```text
//!   begin ─► nodes and queues that are there
//!   change ─► a node came, changed, went ──────────────────────► event
//!             a queue is new or different ─────────────────────► event
//!             the last pod of a gang that ran is gone ─────────► job: when it was submitted, and for how long it ran
//!   end ───► gangs that still run, with the time so far
//! ```
//!
//! A gang that gave way runs again under its name: its times are added up, and it is written once. A gang that never
//! ran is not written, because its run time is unknown. Cordons are not written: traces have no word for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::{ClusterChange, ClusterState, GangKey, NodeName, Pod, PodKey};
use jiff::Timestamp;

use crate::json_lines;
use crate::workload::{Event, Job, Workload};

/// The most gangs that are remembered after they gave way and until they come back.
const INTERRUPTED_MAX: usize = 10_000;

/// See the module. For each gang that is there it holds a few hundred bytes.
#[derive(Debug, Default)]
pub struct Recorder {
    open: BTreeMap<GangKey, Open>,
    /// Gangs that gave way: when they were first submitted, and for how long they ran.
    interrupted: BTreeMap<GangKey, (Timestamp, i64)>,
    /// How each node was last written.
    nodes: BTreeMap<NodeName, String>,
    has_begun: bool,
}

#[derive(Debug)]
struct Open {
    lead: Pod,
    alive: BTreeSet<PodKey>,
    members: u32,
    started: Option<Timestamp>,
}

impl Recorder {
    /// The lines that a trace begins with: what is there. May be called again for a new file.
    pub fn begin(&mut self, state: &ClusterState) -> Vec<String> {
        self.has_begun = true;
        let mut nodes: Vec<_> = state.nodes().filter_map(|(_, node)| node.object().cloned()).collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let queues = state.queues().map(|(queue, _)| queue.clone()).collect();
        let lines: Vec<String> =
            json_lines::write(&Workload { nodes: nodes.clone(), queues, ..Workload::default() }).collect();
        self.nodes = nodes.into_iter().map(|node| node.name).zip(lines.iter().cloned()).collect();
        lines
    }

    /// The lines that a change adds. To be called before the change is applied.
    pub fn change(&mut self, state: &ClusterState, change: &ClusterChange, now: Timestamp) -> Vec<String> {
        match change {
            ClusterChange::Pod(pod) if pod.ours => {
                self.pod(pod, now);
                Vec::new()
            }
            ClusterChange::PodGone(key) => self.pod_gone(state, key, now),
            ClusterChange::Node(node) if self.has_begun => {
                let only = Workload { nodes: vec![node.clone()], ..Workload::default() };
                let line = json_lines::write(&only).next().unwrap_or_default();
                if self.nodes.get(&node.name) == Some(&line) {
                    return Vec::new();
                }
                self.nodes.insert(node.name.clone(), line);
                event(now, Event::NodeUp(node.clone()))
            }
            ClusterChange::NodeGone(name) if self.nodes.remove(name).is_some() => {
                event(now, Event::NodeDown(name.clone()))
            }
            ClusterChange::Queue(queue) if self.has_begun => {
                let is_known = state.queue(&queue.name).is_some_and(|(known, _)| known == queue);
                if is_known { Vec::new() } else { event(now, Event::Queue(queue.clone())) }
            }
            _ => Vec::new(),
        }
    }

    /// Gangs that still run, as if they ended now.
    pub fn end(&mut self, state: &ClusterState, now: Timestamp) -> Vec<String> {
        let open = std::mem::take(&mut self.open);
        open.into_iter().flat_map(|(key, open)| self.job(state, &key, &open, now)).collect()
    }

    fn pod(&mut self, pod: &Pod, now: Timestamp) {
        let open = self.open.entry(pod.gang.clone()).or_insert_with(|| Open {
            lead: pod.clone(),
            alive: BTreeSet::new(),
            members: 0,
            started: None,
        });
        open.alive.insert(pod.key.clone());
        let alive = u32::try_from(open.alive.len()).unwrap_or(u32::MAX);
        open.members = open.members.max(alive).max(pod.gang_size.unwrap_or(1));
        if pod.node.is_some() {
            let started = pod.started.unwrap_or(now);
            open.started = Some(open.started.map_or(started, |before| before.min(started)));
        }
    }

    fn pod_gone(&mut self, state: &ClusterState, key: &PodKey, now: Timestamp) -> Vec<String> {
        let Some(gang) = state.pod_id(key).map(|id| state.pod(id).pod().gang.clone()) else {
            return Vec::new();
        };
        let Some(open) = self.open.get_mut(&gang) else { return Vec::new() };
        open.alive.remove(key);
        if !open.alive.is_empty() {
            return Vec::new();
        }
        let Some(open) = self.open.remove(&gang) else { return Vec::new() };
        let gave_way = state.gang(&gang).is_some_and(cluster_model::Gang::is_leaving);
        if gave_way && self.interrupted.len() < INTERRUPTED_MAX {
            let (submitted, ran) = self.so_far(&gang, &open, now);
            self.interrupted.insert(gang, (submitted, ran));
            return Vec::new();
        }
        self.job(state, &gang, &open, now)
    }

    /// When it was first submitted, and for how long it ran in all.
    fn so_far(&self, gang: &GangKey, open: &Open, now: Timestamp) -> (Timestamp, i64) {
        let ran = open.started.map_or(0, |started| (now.as_second() - started.as_second()).max(0));
        let (submitted, before) = self.interrupted.get(gang).copied().unwrap_or((open.lead.created, 0));
        (submitted, before + ran)
    }

    fn job(&mut self, state: &ClusterState, gang: &GangKey, open: &Open, now: Timestamp) -> Vec<String> {
        let (submitted, ran) = self.so_far(gang, open, now);
        let was_interrupted = self.interrupted.remove(gang).is_some();
        let Ok(queue) = state.queue_of(&open.lead) else { return Vec::new() };
        if open.started.is_none() && !was_interrupted {
            return Vec::new();
        }
        let lead = &open.lead;
        // A name may be used again later; not in the same second.
        let name: Arc<str> = format!("{}/{}@{}", gang.namespace, gang.name, submitted.as_second()).into();
        let job = Job {
            run_seconds: u32::try_from(ran).unwrap_or(u32::MAX),
            members: open.members,
            members_min: lead.gang_size.unwrap_or(open.members).clamp(1, open.members),
            requests: lead.requests,
            device: lead.device,
            gpu_types: lead.gpu_types.clone().into(),
            priority: lead.priority,
            terms: Arc::clone(&lead.terms),
            ..Job::new(name, queue.clone(), submitted)
        };
        json_lines::write(&Workload { jobs: vec![job], ..Workload::default() }).collect()
    }
}

fn event(now: Timestamp, event: Event) -> Vec<String> {
    json_lines::write(&Workload { events: vec![(now, event)], ..Workload::default() }).collect()
}

#[cfg(test)]
mod tests {
    use cluster_model::plan::Departure;
    use cluster_model::{ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Queue, Resources};
    use jiff::Timestamp;

    use super::Recorder;
    use crate::json_lines;
    use crate::workload::{Event, Workload};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn node(gpus: i64) -> Node {
        let allocatable = Resources { gpus, cpu_millis: 64_000, memory_bytes: 512 << 30, pods: 110 };
        Node { gpu_type: Some("H100".into()), allocatable, ..Node::new("n") }
    }

    fn pod(gang: &str, index: u32, created: i64, started: Option<i64>) -> Pod {
        Pod {
            created: at(created),
            node: started.map(|_| "n".into()),
            started: started.map(at),
            gang_size: Some(2),
            member_index: Some(index),
            requests: Resources { gpus: 4, pods: 1, ..Resources::default() },
            ..Pod::new(
                PodKey::new("team", format!("{gang}-{index}"), format!("{created}")),
                GangKey::new("team", gang),
            )
        }
    }

    /// Everything that is recorded while these changes happen, read as a trace.
    fn recorded(changes: Vec<(i64, ClusterChange)>, evicted: Option<(usize, &str)>) -> Workload {
        let (mut state, mut recorder) = (ClusterState::default(), Recorder::default());
        state.apply(ClusterChange::Queue(Queue { namespaces: ["team".into()].into(), ..Queue::new("q") }));
        state.apply(ClusterChange::Node(node(8)));
        let mut lines = recorder.begin(&state);
        let mut last = 0;
        for (number, (second, change)) in changes.into_iter().enumerate() {
            if let Some((_, victim)) = evicted.filter(|(when, _)| *when == number) {
                state.mark_leaving(
                    &GangKey::new("team", victim),
                    &Departure::For(GangKey::new("team", "claimant")),
                );
            }
            lines.extend(recorder.change(&state, &change, at(second)));
            state.apply(change);
            last = second;
        }
        lines.extend(recorder.end(&state, at(last)));
        json_lines::read(&lines.join("\n")).expect("it is a trace")
    }

    fn gone(pod: Pod) -> ClusterChange {
        ClusterChange::PodGone(pod.key)
    }

    #[test]
    fn a_gang_that_ran_is_a_job_with_its_times() {
        let workload = recorded(
            vec![
                (10, ClusterChange::Pod(pod("a", 0, 10, None))),
                (11, ClusterChange::Pod(pod("a", 1, 10, None))),
                (20, ClusterChange::Pod(pod("a", 0, 10, Some(20)))),
                (21, ClusterChange::Pod(pod("a", 1, 10, Some(21)))),
                (50, gone(pod("a", 0, 10, Some(20)))),
                (80, gone(pod("a", 1, 10, Some(21)))),
                (90, ClusterChange::Pod(pod("never", 0, 90, None))),
                (95, gone(pod("never", 0, 90, None))),
                (96, ClusterChange::Pod(pod("runs", 0, 96, Some(97)))),
                (100, ClusterChange::Queue(Queue { namespaces: ["team".into()].into(), ..Queue::new("q") })),
            ],
            None,
        );
        assert_eq!((workload.nodes.len(), workload.queues.len(), workload.events.len()), (1, 1, 0));
        let jobs: Vec<_> = workload.jobs.iter().map(|it| (&*it.name, it.submitted, it.run_seconds)).collect();
        assert_eq!(jobs, [("team/a@10", at(10), 60), ("team/runs@96", at(96), 3)]);
        let job = &workload.jobs[0];
        assert_eq!((job.members, job.members_min, job.requests.gpus, job.queue.as_str()), (2, 2, 4, "q"));
    }

    #[test]
    fn a_gang_that_gave_way_is_one_job_that_ran_for_both_times() {
        let workload = recorded(
            vec![
                (10, ClusterChange::Pod(pod("a", 0, 10, Some(10)))),
                (30, gone(pod("a", 0, 10, Some(10)))),
                (31, ClusterChange::Pod(pod("a", 0, 31, None))),
                (60, ClusterChange::Pod(pod("a", 0, 31, Some(60)))),
                (70, gone(pod("a", 0, 31, Some(60)))),
            ],
            Some((1, "a")),
        );
        let jobs: Vec<_> = workload.jobs.iter().map(|it| (it.submitted, it.run_seconds)).collect();
        assert_eq!(jobs, [(at(10), 30)]);
    }

    #[test]
    fn nodes_that_come_change_and_go_are_events_and_heartbeats_are_not() {
        let labelled = Node { labels: [("a".into(), "b".into())].into(), ..node(8) };
        let workload = recorded(
            vec![
                (5, ClusterChange::Node(node(8))),
                (6, ClusterChange::Node(labelled)),
                (7, ClusterChange::Node(node(4))),
                (8, ClusterChange::NodeGone("n".into())),
                (9, ClusterChange::NodeGone("nobody".into())),
            ],
            None,
        );
        let expect = [(at(7), Event::NodeUp(node(4))), (at(8), Event::NodeDown("n".into()))];
        assert_eq!(workload.events, expect);
    }
}
