//! The input of decisions about a Run: the Run, its Job, its pods, and the world around them.

use std::collections::BTreeMap;
use std::time::Duration;

use api_types::Run;
use api_types::run::Attempt;
use jiff::Timestamp;

use super::build::grace_seconds;
use super::job::JobFacts;
use super::member::Member;
use crate::nodes::NodesByName;

/// After the grace period of a member on a silent machine, this much longer until the member counts as dead.
const SILENCE: Duration = Duration::from_secs(10);

/// A Run, with the objects of its last attempt.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// The Run as it was read.
    pub run: &'a Run,
    /// Its last attempt's Job, if there is one.
    pub job: Option<&'a JobFacts>,
    /// The pods of the Run, of any Job, in any order.
    pub pods: &'a [Member],
}

/// The world around a Run.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// Every node.
    pub nodes: &'a NodesByName,
    /// Most nodes are silent, so probably the control plane does not hear them.
    pub is_deaf: bool,
    /// For how many more members of this Run there is room; only computed for elastic Runs.
    pub room: u32,
    /// The time.
    pub now: Timestamp,
}

impl<'a> Sight<'a> {
    /// The last attempt.
    pub fn attempt(self) -> Option<&'a Attempt> {
        self.run.status.as_ref()?.attempts.last()
    }

    /// The pods of the last attempt's recorded Job.
    pub fn own_pods(self) -> impl Iterator<Item = &'a Member> {
        let job_uid = self.attempt().and_then(|attempt| attempt.job_uid.as_deref());
        self.pods.iter().filter(move |pod| Some(pod.job_uid.as_str()) == job_uid)
    }

    /// The newest pod of each index, of the recorded Job only: an older one was replaced.
    pub fn current_members(self) -> BTreeMap<u32, &'a Member> {
        let mut members: BTreeMap<u32, &'a Member> = BTreeMap::new();
        for pod in self.own_pods() {
            let newest = members.entry(pod.index).or_insert(pod);
            // Ties are broken by name.
            if (pod.created, &pod.pod) > (newest.created, &newest.pod) {
                *newest = pod;
            }
        }
        members
    }

    /// How many members the last attempt has.
    pub fn members(self) -> u32 {
        let recorded = self.attempt().map_or(0, |attempt| attempt.members);
        // Old records have no number: they had all of the Run's members.
        if recorded == 0 { self.run.spec.members } else { recorded }
    }

    /// Whether any member of the last attempt has started.
    pub fn has_begun(self) -> bool {
        self.attempt().is_some_and(|attempt| attempt.started_at.is_some())
            || self.own_pods().any(|pod| pod.started_at.is_some())
    }

    /// Whether the members of the last attempt were told to save and leave.
    pub fn is_told(self) -> bool {
        self.attempt().is_some_and(|attempt| attempt.told_at.is_some())
    }

    /// Whether no part of the attempt runs any more, after its members were told to leave. Members on a machine
    /// that has been silent for longer than their grace period count as dead. If they live after all, the
    /// checkpoints' own fence keeps them from writing.
    pub fn is_over(self, world: &World<'_>) -> bool {
        let dead = self.own_pods().filter(|pod| !pod.is_over() && self.is_gone(pod, world)).count();
        let is_idle = |job: &JobFacts| {
            let ended = job.end.is_some() || job.deleting_since.is_some();
            ended || (job.is_idle && usize::try_from(job.terminating).is_ok_and(|left| left <= dead))
        };
        self.members_are_gone(world) && self.job.is_none_or(is_idle)
    }

    /// Whether none of the attempt's seen pods runs any more.
    pub fn members_are_gone(self, world: &World<'_>) -> bool {
        self.own_pods().all(|pod| self.is_gone(pod, world))
    }

    fn is_gone(self, pod: &Member, world: &World<'_>) -> bool {
        pod.is_over() || (pod.deleted && self.is_presumed_dead(pod, world))
    }

    fn is_presumed_dead(self, pod: &Member, world: &World<'_>) -> bool {
        let node = pod.node.as_ref().and_then(|node| world.nodes.get(node));
        let grace = Duration::from_secs(u64::from(grace_seconds(&self.run.spec)));
        let lost_since = node.and_then(|node| node.lost_since).filter(|_| !world.is_deaf);
        lost_since.is_some_and(|since| since + grace + SILENCE <= world.now)
    }
}
