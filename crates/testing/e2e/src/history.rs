//! The history of a cluster's pods and nodes: every revision, read from the store itself and judged by
//! `plan-check`.
//!
//! ```text
//!   etcd ──watch of pods, of nodes──► events in the order of revisions ─┬─► History:   is a node given more than it has?
//!                                                                       ├─► GangTimes: is a gang in part, a pod forgotten?
//!                                                                       └─► evictions, by whom and for whom
//! ```
//!
//! It never asks an API server, so it has no gap when one is killed or late. The cluster must be built with
//! `readable_store`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Context;
use cluster_convert::{node_change, node_gone, pod_change, pod_gone};
use cluster_model::{ClusterChange, NodeName, PodKey};
use plan_check::{GangTimes, HistoryJudge, HistoryViolation, InPart, PodLife, Sighting};
use slim_objects::{SlimNode, SlimPod};
use test_cluster::TestCluster;
use test_cluster::etcd::{Etcd, KeyEvent, Watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::bounds;

const PODS: &str = "/registry/pods/";
const NODES: &str = "/registry/minions/";
/// A gang may be in part for this long after the last fault.
const IN_PART_MAX: Duration = Duration::from_mins(1);

/// Records until it is asked to finish.
pub struct Recorder {
    began: Instant,
    stop: CancellationToken,
    watches: Vec<JoinHandle<anyhow::Result<Vec<Event>>>>,
}

/// The record, and its violations.
#[derive(Default)]
pub struct Judgement {
    /// How many events.
    pub events: usize,
    /// Every pod that was put on a node without room for it, or moved.
    pub double_booked: Vec<HistoryViolation>,
    /// Pods that were put on a node at the moment at which it came to have less.
    pub raced: usize,
    /// Gangs that were in part for more than a minute after the last fault, or are at the end.
    pub in_part: Vec<InPart>,
    /// The longest time in which a gang was in part, faults or not.
    pub longest_in_part: Duration,
    /// Pods of ours that have no node, or had none when they were deleted.
    pub lost: Vec<PodKey>,
    /// Gangs of ours of which some pod ever had a node, as `namespace/name`.
    pub started: BTreeSet<String>,
    /// Pods of ours that were told to end for others, in order.
    pub evictions: Vec<Eviction>,
}

/// A pod that was told to end for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The pod.
    pub pod: PodKey,
    /// Its gang.
    pub gang: String,
    /// The condition's reason.
    pub reason: String,
    /// The condition's message, which names the claimant.
    pub message: String,
}

struct Event {
    revision: u64,
    at: Duration,
    change: ClusterChange,
    sighting: Option<Sighting>,
    eviction: Option<Eviction>,
}

impl Recorder {
    /// Starts with everything that exists now.
    pub async fn start(cluster: &TestCluster) -> anyhow::Result<Self> {
        let began = Instant::now();
        let stop = CancellationToken::new();
        let mut watches = Vec::new();
        for (prefix, read) in [(PODS, read_pod as Reader), (NODES, read_node as Reader)] {
            let etcd = cluster.etcd();
            let (revision, existing) = etcd.list(prefix).await.context("failed to read what exists")?;
            let watch = etcd.watch(prefix, revision + 1).await.context("failed to watch the store")?;
            let recording = Recording { began, etcd, prefix, read, revision: 0, events: Vec::new() };
            watches.push(tokio::spawn(recording.run(existing, watch, stop.clone())));
        }
        Ok(Self { began, stop, watches })
    }

    /// Records up to now, then judges. Gangs get their minute from `faults_ended` on.
    pub async fn finish(self, faults_ended: Instant) -> anyhow::Result<Judgement> {
        self.stop.cancel();
        let mut events = Vec::new();
        for watch in self.watches {
            events.extend(watch.await.context("a recorder panicked")??);
        }
        events.sort_by_key(|event| event.revision);
        let faults_ended = faults_ended.saturating_duration_since(self.began);
        Ok(judge(&events, millis(faults_ended), millis(self.began.elapsed())))
    }
}

fn judge(events: &[Event], faults_ended_millis: i64, now_millis: i64) -> Judgement {
    let mut judgement = Judgement { events: events.len(), ..Judgement::default() };
    let (mut history, mut times) = (HistoryJudge::default(), GangTimes::default());
    let mut nodes = NodeChanges::default();
    for event in events {
        nodes.note(event);
        let before = history.violations().len();
        history.apply(event.revision, &event.change);
        for violation in &history.violations()[before..] {
            match violation {
                HistoryViolation::NodeOverGpus { by: None, .. } => {}
                HistoryViolation::NodeOverGpus { node, by: Some(_), .. } if nodes.raced(node, event.at) => {
                    judgement.raced += 1;
                }
                other => judgement.double_booked.push(other.clone()),
            }
        }
        if let Some(sighting) = &event.sighting {
            times.see(millis(event.at), sighting);
            if sighting.has_node {
                judgement.started.insert(sighting.gang.to_string());
            }
        }
        if let Some(eviction) = &event.eviction
            && !judgement.evictions.contains(eviction)
        {
            judgement.evictions.push(eviction.clone());
        }
    }
    judgement.in_part = times.in_part_too_long(millis(IN_PART_MAX), faults_ended_millis, now_millis);
    judgement.longest_in_part =
        Duration::from_millis(u64::try_from(times.longest_in_part_millis()).unwrap_or(0));
    judgement.lost = times.never_placed();
    judgement
}

/// When nodes came to have less than before, or came back.
#[derive(Default)]
struct NodeChanges {
    gpus: BTreeMap<NodeName, i64>,
    changed: BTreeMap<NodeName, Duration>,
}

impl NodeChanges {
    fn note(&mut self, event: &Event) {
        match &event.change {
            ClusterChange::Node(node) => {
                let before = self.gpus.insert(node.name.clone(), node.allocatable.gpus).unwrap_or(0);
                let has_less = node.allocatable.gpus < before;
                let is_new = before == 0;
                if has_less || is_new {
                    self.changed.insert(node.name.clone(), event.at);
                }
            }
            ClusterChange::NodeGone(name) => {
                self.gpus.remove(name);
            }
            _ => {}
        }
    }

    /// A bind that was under way when its node came to have less, or came back, could not know. A kubelet refuses such a
    /// pod; a fake node does not.
    fn raced(&self, node: &NodeName, at: Duration) -> bool {
        let race_max = bounds::BIND_UNDER_WAY.allowed();
        self.changed.get(node).is_some_and(|changed| at.saturating_sub(*changed) <= race_max)
    }
}

type Reader = fn(&KeyEvent) -> anyhow::Result<(ClusterChange, Option<Sighting>, Option<Eviction>)>;

struct Recording {
    began: Instant,
    etcd: Etcd,
    prefix: &'static str,
    read: Reader,
    revision: u64,
    events: Vec<Event>,
}

impl Recording {
    /// Follows every revision; once asked to stop, up to the newest object that exists then.
    async fn run(
        mut self,
        existing: Vec<KeyEvent>,
        mut watch: Watch,
        stop: CancellationToken,
    ) -> anyhow::Result<Vec<Event>> {
        for event in existing {
            self.take(&event)?;
        }
        let mut until = None;
        while until.is_none_or(|until| self.revision < until) {
            tokio::select! {
                events = watch.next() => {
                    for event in events.context("the watch of the store broke")? {
                        self.take(&event)?;
                    }
                }
                () = stop.cancelled(), if until.is_none() => {
                    let (_, newest) = self.etcd.list(self.prefix).await.context("failed to read what exists")?;
                    until = Some(newest.iter().map(|event| event.revision).max().unwrap_or(0));
                }
            }
        }
        Ok(self.events)
    }

    fn take(&mut self, event: &KeyEvent) -> anyhow::Result<()> {
        let (change, sighting, eviction) =
            (self.read)(event).with_context(|| format!("cannot read {}", event.key))?;
        self.revision = self.revision.max(event.revision);
        let (revision, at) = (event.revision, self.began.elapsed());
        self.events.push(Event { revision, at, change, sighting, eviction });
        Ok(())
    }
}

fn read_node(event: &KeyEvent) -> anyhow::Result<(ClusterChange, Option<Sighting>, Option<Eviction>)> {
    let node: SlimNode = serde_json::from_slice(newest(event)?)?;
    let change = if event.value.is_some() { node_change(&node) } else { node_gone(&node) };
    Ok((change, None, None))
}

fn read_pod(event: &KeyEvent) -> anyhow::Result<(ClusterChange, Option<Sighting>, Option<Eviction>)> {
    let mut pod: SlimPod = serde_json::from_slice(newest(event)?)?;
    let change = if event.value.is_some() { pod_change(&pod) } else { pod_gone(&pod) };
    let has_ended = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let is_deleted = pod.metadata.deletion_timestamp.is_some();
    let state = match (event.value.is_some(), has_ended, is_deleted) {
        (true, false, _) => PodLife::Living,
        (true, true, false) => PodLife::Ended,
        (true, true, true) | (false, ..) => PodLife::Gone,
    };
    // Only a living pod says which gang it belongs to.
    pod.status.phase = None;
    let ClusterChange::Pod(member) = pod_change(&pod) else { return Ok((change, None, None)) };
    if !member.ours {
        return Ok((change, None, None));
    }
    let eviction = pod.status.conditions.iter().find(|it| it.kind == "DisruptionTarget").map(|it| Eviction {
        pod: member.key.clone(),
        gang: member.gang.to_string(),
        reason: it.reason.clone().unwrap_or_default(),
        message: it.message.clone().unwrap_or_default(),
    });
    let sighting = Sighting {
        pod: member.key,
        gang: member.gang,
        gang_size: member.gang_size.map_or(1, |size| size as usize),
        has_node: member.node.is_some(),
        state,
    };
    Ok((change, Some(sighting), eviction))
}

fn newest(event: &KeyEvent) -> anyhow::Result<&Vec<u8>> {
    event.value.as_ref().or(event.previous.as_ref()).context("a deletion of something unknown")
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
