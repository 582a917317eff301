//! A job as pods: what a cluster would show of it.

use std::collections::HashMap;
use std::sync::Arc;

use cluster_model::{ClusterChange, ClusterState, GangKey, NodeName, Pod, PodKey, QueueName};
use jiff::Timestamp;
use trace_format::Job;

/// Names of pods and gangs; texts that many have in common are kept once.
#[derive(Default)]
pub(super) struct Names {
    namespaces: HashMap<QueueName, Arc<str>>,
    uids: Vec<Arc<str>>,
}

impl Names {
    /// Every queue is open to the namespace of its name, and jobs that name no team are in it.
    pub fn namespace(&mut self, queue: &QueueName) -> Arc<str> {
        if let Some(known) = self.namespaces.get(queue) {
            return known.clone();
        }
        let namespace: Arc<str> = queue.as_str().into();
        self.namespaces.insert(queue.clone(), namespace.clone());
        namespace
    }

    fn namespace_of(&mut self, job: &Job) -> Arc<str> {
        job.team.clone().unwrap_or_else(|| self.namespace(&job.queue))
    }

    pub fn gang(&mut self, job: &Job) -> GangKey {
        GangKey::new(self.namespace_of(job), job.name.clone())
    }

    /// A member's key in an attempt. The uid of a pod differs only from that of an earlier pod of its name.
    pub fn key(&mut self, job: &Job, attempt: u32, member: u32) -> PodKey {
        let name = if job.members == 1 { job.name.clone() } else { format!("{}-{member}", job.name).into() };
        while self.uids.len() <= attempt as usize {
            self.uids.push(self.uids.len().to_string().into());
        }
        PodKey::new(self.namespace_of(job), name, self.uids[attempt as usize].clone())
    }

    /// A member without a node.
    pub fn pod(&mut self, job: &Job, attempt: u32, member: u32, created: Timestamp) -> Pod {
        let mut pod = Pod::new(self.key(job, attempt, member), self.gang(job));
        pod.gang_size = Some(job.members_min);
        pod.queue = Some(job.queue.clone());
        pod.requests = job.requests;
        pod.gpu_types = job.gpu_types.to_vec();
        pod.priority = job.priority;
        pod.created = created;
        pod.run = Some(job.name.clone());
        pod.member_index = Some(member);
        pod.terms = job.terms.clone();
        pod.device = job.device;
        pod
    }
}

/// The member as the API server would show it after a change; `None` if it is gone.
pub(super) fn changed(
    state: &ClusterState,
    key: &PodKey,
    change: impl FnOnce(&mut Pod),
) -> Option<ClusterChange> {
    let mut pod = state.pod(state.pod_id(key)?).pod().clone();
    change(&mut pod);
    Some(ClusterChange::Pod(pod))
}

/// What binding does to a pod.
pub(super) fn bind(pod: &mut Pod, node: &NodeName, now: Timestamp) {
    pod.node = Some(node.clone());
    pod.started = Some(now);
}
