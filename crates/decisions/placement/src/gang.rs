//! What one gang asks for, and what is wrong with it before any node is looked at.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use cluster_model::plan::WaitReason;
use cluster_model::{
    Apart, ClusterState, DeviceAsk, Features, Gang, GangKey, GpuType, HostPorts, Node, NodeAffinity,
    OtherResources, Pod, PodId, PodKey, QueueChain, QueueName, Resources, Terms, Tier, Toleration,
    TopologyTerms,
};
use jiff::Timestamp;

use crate::elastic;

/// The reason of pods that ask for more of other pods than is counted at a time.
const TOO_MUCH: &str =
    "spec.affinity or spec.topologySpreadConstraints: too many different rules are in use at a time";

/// A gang's members without a node, and what they need together.
#[derive(Clone)]
pub(crate) struct Request {
    pub key: GangKey,
    pub run: Option<Arc<str>>,
    pub queue: Option<QueueName>,
    /// The first member without a node.
    pub first_pod: PodKey,
    /// Since when it waits.
    pub waiting_since: Timestamp,
    /// Its members without a node, in the groups that its terms name.
    pub root: Grouping,
    /// What all of them need.
    pub needs: Resources,
    /// What the gang asks beyond resources.
    pub terms: Arc<Terms>,
    /// How many of the members it could start without.
    pub optional: usize,
    /// Whether the gang was granted its room before, and only finishes its start.
    pub is_granted: bool,
    /// Reasons that hold whatever the nodes have.
    pub problems: Vec<WaitReason>,
    /// Whether other pods decide where its members may go, now or once those pods have come: then gangs that ask for
    /// the same may find other nodes.
    pub depends_on_neighbours: bool,
    /// Whether new pods may help it. Then nothing follows from what it found before.
    pub is_helped_by_others: bool,
    /// The GPU types that are acceptable; any if empty.
    gpu_types: Vec<GpuType>,
}

/// Members that belong together, and the groups within. All of it starts together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grouping {
    /// The group's name; none at the root.
    pub name: Option<Arc<str>>,
    /// Where it must or should be, within the place of the grouping around it.
    pub topology: TopologyTerms,
    /// Members that are in no inner group, alike in each entry, the largest first: those are the hardest to place.
    pub groups: Vec<Group>,
    /// Inner groups, by name.
    pub within: Vec<Grouping>,
}

/// Members that differ only in their names, by index.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub shape: Arc<Shape>,
    pub members: Vec<PodId>,
}

/// All members of a gang as far as it decides where they may go.
pub(crate) type Members = Vec<Alike>;

/// Members of one shape as far as it decides where they may go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Alike {
    /// The name of the group that they are in.
    group: Option<Arc<str>>,
    shape: Arc<Shape>,
    members: usize,
    /// Their indexes, if those say which segment each is in.
    indexes: Vec<u32>,
    /// What they are kept apart from, in order, each with the number of members in a row that share it.
    apart: Vec<(Apart, usize)>,
}

/// What decides which nodes are suitable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub requests: Resources,
    pub other_requests: OtherResources,
    pub host_ports: HostPorts,
    pub node_affinity: Option<Arc<NodeAffinity>>,
    pub node_features: Features,
    pub node_selector: BTreeMap<Arc<str>, Arc<str>>,
    pub tolerations: Vec<Toleration>,
    pub device: DeviceAsk,
    pub takes_spot: bool,
}

impl Shape {
    /// What a pod asks of its node.
    pub fn of(pod: &Pod) -> Self {
        Self {
            requests: pod.requests,
            other_requests: pod.other_requests.clone(),
            host_ports: pod.host_ports.clone(),
            node_affinity: pod.node_affinity.clone(),
            node_features: pod.node_features,
            node_selector: pod.node_selector.clone(),
            tolerations: pod.tolerations.clone(),
            device: pod.device,
            takes_spot: pod.terms.takes_spot,
        }
    }

    /// Whether it is what a pod asks for; the same as comparing with [`Self::of`], without making one.
    pub fn is_of(&self, pod: &Pod) -> bool {
        self.requests == pod.requests
            && self.other_requests == pod.other_requests
            && self.host_ports == pod.host_ports
            && self.node_affinity == pod.node_affinity
            && self.node_features == pod.node_features
            && self.node_selector == pod.node_selector
            && self.tolerations == pod.tolerations
            && self.device == pod.device
            && self.takes_spot == pod.terms.takes_spot
    }

    /// How many members fit on one node by their ports and other resources: `free` says what is left of each
    /// resource.
    pub fn times_by_others(&self, free: impl Fn(&str) -> i64) -> i64 {
        // No two pods with the same port fit on one node.
        let by_ports = if self.host_ports.is_empty() { i64::MAX } else { 1 };
        self.other_requests.times_in(free).min(by_ports)
    }

    /// Whether it asks for anything that not all pods ask for.
    pub fn has_extras(&self) -> bool {
        !self.other_requests.is_empty() || !self.host_ports.is_empty()
    }

    /// Whether a node has the labels, and perhaps the name, that it asks for.
    pub fn selects(&self, node: &Node) -> bool {
        self.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            && self.node_affinity.as_ref().is_none_or(|affinity| affinity.admits(node))
    }

    /// Whether it needs a node with GPUs: for whole ones, or for a part of one.
    pub fn uses_gpus(&self) -> bool {
        self.requests.gpus > 0 || self.device != DeviceAsk::Whole
    }
}

impl Request {
    /// What a gang asks for with as many of its members as there are, up to the most that it may have.
    pub fn read(state: &ClusterState, key: &GangKey) -> Self {
        Self::read_with(state, key, usize::MAX)
    }

    /// The same with at most this many members beyond those that must start together.
    pub fn read_with(state: &ClusterState, key: &GangKey, optional_max: usize) -> Self {
        let gang = state.gang(key).expect("a gang that waits is known");
        let lead = state.pod(gang.lead()).pod();
        let all: Vec<(PodId, &Pod)> = gang.pending().map(|id| (id, state.pod(id).pod())).collect();
        let first_pod = all.first().expect("a gang that waits has a member without a node").1;
        let mut problems = problems(state, gang, lead, &all);
        let members = elastic::members(gang, lead, all, optional_max);
        problems.extend(members.problem);
        let pending = members.chosen;
        let mut needs = Resources::default();
        for (_, pod) in &pending {
            needs += pod.requests;
        }
        let uses_gpus = |pod: &Pod| pod.requests.gpus > 0 || pod.device != DeviceAsk::Whole;
        let with_gpus = pending.iter().find(|(_, pod)| uses_gpus(pod));
        let bound_type = gang
            .members()
            .filter(|_| gang.bound() > 0 && with_gpus.is_some())
            .map(|id| state.pod(id))
            .filter(|member| uses_gpus(member.pod()) && !member.pod().terminating)
            .find_map(|member| state.node(member.at()?).gpu_type());
        let asked_types = with_gpus.map(|(_, pod)| pod.gpu_types.clone()).unwrap_or_default();
        Self {
            key: key.clone(),
            run: lead.run.clone(),
            queue: state.queue_of(first_pod).ok().cloned(),
            first_pod: first_pod.key.clone(),
            waiting_since: gang.waiting_since(),
            root: grouping(&lead.terms, None, lead.terms.topology, &pending),
            needs,
            terms: lead.terms.clone(),
            optional: members.optional,
            is_granted: gang.finishes_its_start(lead.gang_size),
            depends_on_neighbours: depends_on_neighbours(state, &pending),
            is_helped_by_others: is_helped_by_others(&pending),
            problems,
            gpu_types: match bound_type {
                Some(bound) if asked_types.is_empty() || asked_types.contains(&bound) => vec![bound],
                _ => asked_types,
            },
        }
    }

    /// What members with a node would ask for without it, on GPUs of the same type: for a gang that is moved.
    pub fn read_again(
        state: &ClusterState,
        key: &GangKey,
        members: &[PodId],
        gpu_type: Option<GpuType>,
    ) -> Self {
        let pods: Vec<(PodId, &Pod)> = members.iter().map(|id| (*id, state.pod(*id).pod())).collect();
        let (_, first) = pods.first().expect("a gang that runs has a member");
        let mut needs = Resources::default();
        for (_, pod) in &pods {
            needs += pod.requests;
        }
        Self {
            key: key.clone(),
            run: first.run.clone(),
            queue: state.queue_of(first).ok().cloned(),
            first_pod: first.key.clone(),
            root: grouping(&first.terms, None, first.terms.topology, &pods),
            needs,
            terms: first.terms.clone(),
            optional: 0,
            is_granted: true,
            waiting_since: first.created,
            depends_on_neighbours: depends_on_neighbours(state, &pods),
            is_helped_by_others: is_helped_by_others(&pods),
            problems: Vec::new(),
            gpu_types: gpu_type.into_iter().collect(),
        }
    }

    /// The GPU types to try, one after the other: the one that bound members have, or those asked for, else all
    /// that exist, by name. `None` is a gang without GPUs.
    pub fn gpu_types(&self, state: &ClusterState) -> Vec<Option<GpuType>> {
        if !self.root.all().any(|group| group.shape.uses_gpus()) {
            return vec![None];
        }
        if !self.gpu_types.is_empty() {
            return self.gpu_types.iter().cloned().map(Some).collect();
        }
        state.gpu_types().cloned().map(Some).collect()
    }

    /// The same gang with its first members only, and without the groups within it: to see how many would fit.
    pub fn with_members(&self, members: usize) -> Self {
        let mut left = members;
        let mut groups = Vec::new();
        for group in self.root.all() {
            let taken: Vec<_> = group.members.iter().take(left).copied().collect();
            left -= taken.len();
            if !taken.is_empty() {
                groups.push(Group { shape: group.shape.clone(), members: taken });
            }
        }
        let root = Grouping { topology: self.root.topology, groups, ..Grouping::default() };
        Self { root, ..self.clone() }
    }

    /// The class of the gang for the search: equal classes find or miss the same nodes.
    pub fn class(&self, state: &ClusterState) -> (Members, Arc<Terms>) {
        let mut members = Members::new();
        self.root.list(state, false, &mut members);
        (members, self.terms.clone())
    }
}

impl Grouping {
    /// Every group of members alike, those within included.
    pub fn all(&self) -> Box<dyn Iterator<Item = &Group> + '_> {
        Box::new(self.groups.iter().chain(self.within.iter().flat_map(Self::all)))
    }

    fn list(&self, state: &ClusterState, in_segments: bool, members: &mut Members) {
        let in_segments = in_segments || self.topology.segment.is_some();
        let index = |id: &PodId| state.pod(*id).pod().member_index.unwrap_or(0);
        for group in &self.groups {
            let indexes = group.members.iter().filter(|_| in_segments).map(index).collect();
            members.push(Alike {
                group: self.name.clone(),
                shape: group.shape.clone(),
                members: group.members.len(),
                indexes,
                apart: apart(state, &group.members),
            });
        }
        for within in &self.within {
            within.list(state, in_segments, members);
        }
    }

    /// How many members it has, those within included.
    pub fn len(&self) -> usize {
        self.all().map(|group| group.members.len()).sum()
    }
}

/// The members of one group (of none, at the root), and the groups that name it as their parent. A group that is its own
/// ancestor, or whose parent is not there, has no place in this tree: its members count as members of the root.
fn grouping(
    terms: &Terms,
    name: Option<&Arc<str>>,
    topology: TopologyTerms,
    pending: &[(PodId, &Pod)],
) -> Grouping {
    let here: Vec<(PodId, &Pod)> =
        pending.iter().filter(|(_, pod)| terms.place_of(pod.group.as_ref()) == name).copied().collect();
    let within = terms
        .groups_within(name)
        .map(|(name, group)| grouping(terms, Some(name), group.topology, pending))
        .filter(|grouping| !grouping.groups.is_empty() || !grouping.within.is_empty());
    Grouping { name: name.cloned(), topology, groups: groups(&here), within: within.collect() }
}

fn groups(pending: &[(PodId, &Pod)]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (id, pod) in pending {
        // Members of a gang are mostly alike, so the last group is mostly the right one.
        if let Some(group) = groups.iter_mut().rev().find(|group| group.shape.is_of(pod)) {
            group.members.push(*id);
        } else {
            groups.push(Group { shape: Arc::new(Shape::of(pod)), members: vec![*id] });
        }
    }
    groups.sort_by(|one, other| {
        (Reverse(one.shape.requests), &one.shape).cmp(&(Reverse(other.shape.requests), &other.shape))
    });
    groups
}

fn depends_on_neighbours(state: &ClusterState, members: &[(PodId, &Pod)]) -> bool {
    members.iter().any(|(id, _)| state.depends_on_neighbours(*id))
}

fn is_helped_by_others(members: &[(PodId, &Pod)]) -> bool {
    let asks = members.iter().filter_map(|(_, pod)| pod.neighbours.as_ref());
    asks.into_iter().any(|asks| asks.is_helped_by_others())
}

fn apart(state: &ClusterState, members: &[PodId]) -> Vec<(Apart, usize)> {
    let mut found: Vec<(Apart, usize)> = Vec::new();
    for apart in members.iter().map(|member| state.apart(*member)) {
        match found.last_mut().filter(|(last, _)| *last == apart) {
            Some((_, members)) => *members += 1,
            None => found.push((apart, 1)),
        }
    }
    found
}

fn problems(state: &ClusterState, gang: &Gang, lead: &Pod, pending: &[(PodId, &Pod)]) -> Vec<WaitReason> {
    let mut problems = Vec::new();
    let pods = || pending.iter().map(|(_, pod)| *pod);

    let mut fields: BTreeSet<String> = pods().flat_map(|pod| &pod.unsupported).cloned().collect();
    if pending.iter().any(|(id, _)| state.asks_too_much(*id)) {
        fields.insert(TOO_MUCH.to_owned());
    }
    if !fields.is_empty() {
        problems.push(WaitReason::Unsupported { fields: fields.into_iter().collect() });
    }
    if pods().any(|pod| pod.queue != lead.queue) {
        problems.push(WaitReason::MembersDisagree { field: "queue" });
    }
    // The lead of the gang changes when the oldest member goes; the gang's size must not change with that.
    if pods().any(|pod| pod.gang_size != lead.gang_size) {
        problems.push(WaitReason::MembersDisagree { field: "gang size" });
    }
    if pods().any(|pod| pod.terms != lead.terms) {
        problems.push(WaitReason::MembersDisagree { field: "terms" });
    }
    let uses_gpus = |pod: &&Pod| pod.requests.gpus > 0 || pod.device != DeviceAsk::Whole;
    let mut gpu_types = pods().filter(uses_gpus).map(|pod| &pod.gpu_types);
    if let Some(first) = gpu_types.next()
        && gpu_types.any(|other| other != first)
    {
        problems.push(WaitReason::MembersDisagree { field: "GPU type" });
    }
    match state.queue_chain_of(lead) {
        Ok(chain) => problems.extend(priority_too_high(&chain, pods().map(|pod| pod.priority).max())),
        Err(problem) => problems.push(problem),
    }
    let gated = pods().filter(|pod| pod.gated).count();
    if gated > 0 {
        problems.push(WaitReason::Gated { members: u32::try_from(gated).unwrap_or(u32::MAX) });
    }
    // Once a member has a node, the gang need not be complete again: members that ended are gone for good. Ended pods
    // alone do not say whether all members were ever there, so they only count as members.
    let have = gang.bound() + gang.ended() + u32::try_from(pending.len()).unwrap_or(u32::MAX);
    let want = lead.gang_size.unwrap_or(have);
    if gang.bound() == 0 && have < want {
        problems.push(WaitReason::MembersMissing { have, want });
    }
    if gang.bound() == 0 {
        problems.extend(group_missing(&lead.terms, pending));
    }
    problems
}

/// The lowest of the highest tiers in the queues of a gang, if the gang's priority is above it.
fn priority_too_high(chain: &QueueChain<'_>, priority: Option<i32>) -> Option<WaitReason> {
    let tier = Tier::of(priority?);
    let (highest, queue) =
        chain.iter().filter_map(|(queue, _)| Some((queue.highest_tier?, &queue.name))).min()?;
    (tier > highest).then(|| WaitReason::PriorityTooHigh { queue: queue.clone(), tier, highest })
}

/// The first group of which fewer members exist than must start together.
fn group_missing(terms: &Terms, pending: &[(PodId, &Pod)]) -> Option<WaitReason> {
    terms.groups.iter().find_map(|(name, group)| {
        let want = group.members_min?;
        let parent = |group: &&Arc<str>| terms.groups.get(*group).and_then(|group| group.parent.as_ref());
        // Bounded: `place_of` follows parents that end at the gang as a whole.
        let is_in = |pod: &Pod| {
            std::iter::successors(terms.place_of(pod.group.as_ref()), parent).any(|around| around == name)
        };
        let have = u32::try_from(pending.iter().filter(|(_, pod)| is_in(pod)).count()).unwrap_or(u32::MAX);
        (have < want).then_some(WaitReason::MembersMissing { have, want })
    })
}
