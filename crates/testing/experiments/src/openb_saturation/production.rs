//! The production planner: a pod is seen, a plan is made, and its placements are assumed.

use cluster_model::{ClusterChange, ClusterState, GangKey, Pod, PodKey, Queue};
use jiff::Timestamp;
use placement::Policy;
use simulator::Job;

use super::Trace;

const NAMESPACE: &str = "openb";

pub(super) struct Cluster<'a> {
    state: ClusterState,
    policy: &'a Policy,
    pods: &'a [Job],
    arrived: u64,
    now: Timestamp,
}

impl<'a> Cluster<'a> {
    pub fn new(trace: &'a Trace, policy: &'a Policy) -> Self {
        let mut state = ClusterState::default();
        let queue = Queue { namespaces: [NAMESPACE.into()].into(), ..Queue::new(NAMESPACE) };
        state.apply(ClusterChange::Queue(queue));
        for node in &trace.nodes {
            state.apply(ClusterChange::Node(node.clone()));
        }
        Self { state, policy, pods: &trace.pods, arrived: 0, now: Timestamp::UNIX_EPOCH }
    }

    /// Places a pod; returns whether it fitted.
    pub fn place(&mut self, pod: usize) -> bool {
        self.arrived += 1;
        let pod = self.pod(&self.pods[pod]);
        let key = pod.key.clone();
        self.state.apply(ClusterChange::Pod(pod));
        let plan = placement::plan(&mut self.state, self.policy, self.now);
        let is_placed = !plan.placements.is_empty() && self.state.commit(&plan).whole().is_ok();
        if !is_placed {
            self.state.apply(ClusterChange::PodGone(key));
        }
        is_placed
    }

    fn pod(&self, job: &Job) -> Pod {
        let name = format!("pod-{}", self.arrived);
        let key = PodKey::new(NAMESPACE, name.as_str(), name.as_str());
        Pod {
            gang_size: Some(1),
            requests: job.requests,
            device: job.device,
            gpu_types: job.gpu_types.to_vec(),
            created: self.now,
            ..Pod::new(key, GangKey::new(NAMESPACE, name))
        }
    }
}
