//! What one gang asks for, and what is wrong with it before any node is looked at.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use cluster_model::plan::WaitReason;
use cluster_model::{
    ClusterState, Gang, GangKey, GpuType, Pod, PodId, PodKey, QueueName, Resources, Toleration,
};

/// A gang's members without a node, and what they need together.
pub(crate) struct Request {
    pub key: GangKey,
    pub run: Option<Arc<str>>,
    pub queue: Option<QueueName>,
    /// The first member without a node.
    pub first_pod: PodKey,
    /// Members alike, the largest first: what is hard to place goes first.
    pub groups: Vec<Group>,
    /// What all of them need.
    pub needs: Resources,
    /// Whether the gang was granted its room before, and only finishes its start.
    pub is_granted: bool,
    /// Reasons that hold whatever the nodes have.
    pub problems: Vec<WaitReason>,
    gpu_type: Option<GpuType>,
}

/// Members that differ only in their names.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub shape: Arc<Shape>,
    pub members: Vec<PodId>,
}

/// What decides which nodes would do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub requests: Resources,
    pub node_selector: BTreeMap<Arc<str>, Arc<str>>,
    pub tolerations: Vec<Toleration>,
}

impl Request {
    pub fn read(state: &ClusterState, key: &GangKey) -> Self {
        let gang = state.gang(key).expect("a gang that waits is known");
        let lead = state.pod(gang.lead()).pod();
        let pending: Vec<(PodId, &Pod)> = gang.pending().map(|id| (id, state.pod(id).pod())).collect();
        let (_, first) = pending.first().expect("a gang that waits has a member without a node");
        let mut needs = Resources::default();
        for (_, pod) in &pending {
            needs += pod.requests;
        }
        let bound_type = gang
            .members()
            .filter(|_| gang.bound() > 0 && needs.gpus > 0)
            .map(|id| state.pod(id))
            .filter(|member| member.pod().requests.gpus > 0 && !member.pod().terminating)
            .find_map(|member| state.node(member.at()?).gpu_type());
        let asked_type =
            pending.iter().find_map(|(_, pod)| pod.gpu_type.clone().filter(|_| pod.requests.gpus > 0));
        Self {
            key: key.clone(),
            run: lead.run.clone(),
            queue: state.queue_of(first).ok().cloned(),
            first_pod: first.key.clone(),
            groups: groups(&pending),
            needs,
            is_granted: gang.finishes_its_start(lead.gang_size),
            problems: problems(state, gang, lead, &pending),
            gpu_type: asked_type.or(bound_type),
        }
    }

    /// The GPU types to try, one after the other: the one that was asked for or that bound members have, else all
    /// that exist, by name. `None` is a gang without GPUs.
    pub fn gpu_types(&self, state: &ClusterState) -> Vec<Option<GpuType>> {
        if self.needs.gpus == 0 {
            return vec![None];
        }
        if let Some(gpu_type) = &self.gpu_type {
            return vec![Some(gpu_type.clone())];
        }
        let types: BTreeSet<_> = state.pools().keys().filter_map(|pool| pool.gpu_type.clone()).collect();
        types.into_iter().map(Some).collect()
    }

    /// The class of the gang for the search: equal classes find or miss the same nodes.
    pub fn class(&self) -> Vec<(Arc<Shape>, usize)> {
        self.groups.iter().map(|group| (group.shape.clone(), group.members.len())).collect()
    }
}

fn groups(pending: &[(PodId, &Pod)]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (id, pod) in pending {
        let same = |group: &Group| {
            group.shape.requests == pod.requests
                && group.shape.node_selector == pod.node_selector
                && group.shape.tolerations == pod.tolerations
        };
        // Members of a gang are mostly alike, so the last group is mostly the right one.
        if let Some(group) = groups.iter_mut().rev().find(|group| same(group)) {
            group.members.push(*id);
        } else {
            let shape = Shape {
                requests: pod.requests,
                node_selector: pod.node_selector.clone(),
                tolerations: pod.tolerations.clone(),
            };
            groups.push(Group { shape: Arc::new(shape), members: vec![*id] });
        }
    }
    groups.sort_by(|one, other| {
        (Reverse(one.shape.requests), &one.shape).cmp(&(Reverse(other.shape.requests), &other.shape))
    });
    groups
}

fn problems(state: &ClusterState, gang: &Gang, lead: &Pod, pending: &[(PodId, &Pod)]) -> Vec<WaitReason> {
    let mut problems = Vec::new();
    let pods = || pending.iter().map(|(_, pod)| *pod);

    let fields: BTreeSet<&String> = pods().flat_map(|pod| &pod.unsupported).collect();
    if !fields.is_empty() {
        problems.push(WaitReason::Unsupported { fields: fields.into_iter().cloned().collect() });
    }
    if pods().any(|pod| pod.queue != lead.queue) {
        problems.push(WaitReason::MembersDisagree { field: "queue" });
    }
    // Who speaks for the gang changes when the oldest member goes; its size must not change with that.
    if pods().any(|pod| pod.gang_size != lead.gang_size) {
        problems.push(WaitReason::MembersDisagree { field: "gang size" });
    }
    let mut gpu_types = pods().filter(|pod| pod.requests.gpus > 0).map(|pod| &pod.gpu_type);
    if let Some(first) = gpu_types.next()
        && gpu_types.any(|other| other != first)
    {
        problems.push(WaitReason::MembersDisagree { field: "GPU type" });
    }
    if let Err(problem) = state.queue_chain_of(lead) {
        problems.push(problem);
    }
    let gated = pods().filter(|pod| pod.gated).count();
    if gated > 0 {
        problems.push(WaitReason::Gated { members: u32::try_from(gated).unwrap_or(u32::MAX) });
    }
    // Once a member has a node, the gang is not asked to be complete again: members that ended are gone for good. Pods
    // that ended, alone, do not say whether all members were ever there, so they only count as members.
    let have = gang.bound() + gang.ended() + u32::try_from(pending.len()).unwrap_or(u32::MAX);
    let want = lead.gang_size.unwrap_or(have);
    if gang.bound() == 0 && have < want {
        problems.push(WaitReason::MembersMissing { have, want });
    }
    problems
}
