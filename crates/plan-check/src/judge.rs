//! Is this plan allowed?

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use cluster_model::plan::{GangPlacement, Plan};
use cluster_model::{
    ClusterState, GangKey, GpuType, Node, NodeName, Pod, PodKey, Queue, QueueName, ResourceName, Resources,
};

/// Something that a plan must not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The plan was made from another state.
    OtherGeneration,
    /// A gang that waits is decided about twice or not at all, or one that does not wait is.
    NotDecidedOnce(GangKey),
    /// A gang waits without a reason.
    NoReason(GangKey),
    /// A pod is placed that does not need a node, is not known, or belongs to another gang.
    NotPending(PodKey),
    /// A pod is placed twice.
    PlacedTwice(PodKey),
    /// A pod is placed that may not be: it is gated, or asks for what we do not honour.
    NotAllowed(PodKey),
    /// A pod is placed on a node that is not there, takes no pods, or that the pod does not match.
    WrongNode(PodKey, NodeName),
    /// A node would hold more than it has of something that the plan puts on it.
    NodeOver {
        /// The node.
        node: NodeName,
        /// What is over.
        resource: &'static str,
        /// What it would hold.
        used: i64,
        /// What it has.
        allocatable: i64,
    },
    /// A gang is placed in part.
    NotWhole(GangKey),
    /// A gang is placed on several GPU types, or not on the one it asks for.
    WrongGpuType(GangKey),
    /// A gang is placed in a queue that it may not use.
    WrongQueue(GangKey),
    /// A queue would hold more than it may.
    QuotaExceeded {
        /// The gang that is too much.
        gang: GangKey,
        /// The queue.
        queue: QueueName,
        /// What is over.
        resource: ResourceName,
        /// What it would hold.
        holds: i64,
        /// What it may hold.
        bound: i64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherGeneration => write!(f, "the plan was made from another state"),
            Self::NotDecidedOnce(gang) => write!(f, "gang {gang} is not decided about exactly once"),
            Self::NoReason(gang) => write!(f, "gang {gang} waits without a reason"),
            Self::NotPending(pod) => write!(f, "pod {pod} is placed but does not need a node"),
            Self::PlacedTwice(pod) => write!(f, "pod {pod} is placed twice"),
            Self::NotAllowed(pod) => {
                write!(f, "pod {pod} is placed but is gated or asks for what is not supported")
            }
            Self::WrongNode(pod, node) => {
                write!(f, "pod {pod} is placed on node {node}, which it may not use")
            }
            Self::NodeOver { node, resource, used, allocatable } => {
                write!(f, "node {node} would hold {used} of {allocatable} {resource}")
            }
            Self::NotWhole(gang) => write!(f, "gang {gang} is placed in part"),
            Self::WrongGpuType(gang) => write!(f, "gang {gang} is placed on a GPU type it may not use"),
            Self::WrongQueue(gang) => write!(f, "gang {gang} is charged to a queue it may not use"),
            Self::QuotaExceeded { gang, queue, resource, holds, bound } => {
                write!(f, "with gang {gang}, queue {queue} would hold {holds} of {bound} {resource}")
            }
        }
    }
}

/// Everything that is wrong with a plan made from this state.
pub fn check_plan(state: &ClusterState, plan: &Plan) -> Vec<Violation> {
    let facts = Facts::read(state);
    let mut violations = Vec::new();
    if plan.generation != state.generation() {
        violations.push(Violation::OtherGeneration);
    }
    decided_once(&facts, plan, &mut violations);
    let mut placed = BTreeSet::new();
    for gang in &plan.placements {
        for member in &gang.members {
            if !placed.insert(&member.pod) {
                violations.push(Violation::PlacedTwice(member.pod.clone()));
            }
        }
        members_may_go_there(&facts, gang, &mut violations);
        gang_is_whole(&facts, gang, &mut violations);
        one_gpu_type(&facts, gang, &mut violations);
    }
    nodes_are_not_over(&facts, plan, &mut violations);
    queues_have_room(&facts, plan, &mut violations);
    violations
}

/// The objects, and where pods are; none of the state's indexes.
struct Facts<'a> {
    nodes: BTreeMap<&'a NodeName, &'a Node>,
    pods: BTreeMap<&'a PodKey, (&'a Pod, Option<&'a NodeName>)>,
    queues: BTreeMap<&'a QueueName, &'a Queue>,
    gangs: BTreeMap<&'a GangKey, Vec<(&'a Pod, Option<&'a NodeName>)>>,
    /// Members that had a node and ended.
    ended: BTreeMap<&'a GangKey, usize>,
}

impl<'a> Facts<'a> {
    fn read(state: &'a ClusterState) -> Self {
        let pods: BTreeMap<_, _> = state
            .pods()
            .map(|(_, pod)| (&pod.pod().key, (pod.pod(), pod.at().map(|node| state.node(node).name()))))
            .collect();
        let mut gangs: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (pod, node) in pods.values().filter(|(pod, _)| pod.ours) {
            gangs.entry(&pod.gang).or_default().push((*pod, *node));
        }
        Self {
            nodes: state.nodes().filter_map(|(_, node)| Some((node.name(), node.object()?))).collect(),
            pods,
            queues: state.queues().map(|(queue, _)| (&queue.name, queue)).collect(),
            gangs,
            ended: state.gangs().map(|(key, gang)| (key, gang.ended() as usize)).collect(),
        }
    }

    fn ended(&self, gang: &GangKey) -> usize {
        self.ended.get(gang).copied().unwrap_or(0)
    }

    /// Whether these members only take what their gang was granted before: there are no more of them than its size
    /// leaves, and each has an example among those with a node that asks for as much or more.
    fn was_granted(&self, gang: &GangKey, members: &[(&Pod, &NodeName)]) -> bool {
        let started: Vec<&Pod> = self.bound_members(gang).map(|(pod, _)| pod).collect();
        let taken = started.len() + self.ended(gang);
        let as_much = |pod: &Pod, example: &Pod| {
            let (asks, has) = (pod.requests, example.requests);
            asks.gpus <= has.gpus
                && asks.cpu_millis <= has.cpu_millis
                && asks.memory_bytes <= has.memory_bytes
                && (asks.gpus == 0 || pod.gpu_type == example.gpu_type)
        };
        self.size(gang).is_some_and(|size| taken + members.len() <= size as usize)
            && members.iter().all(|(pod, _)| started.iter().any(|example| as_much(pod, example)))
    }

    fn is_pending(&self, key: &PodKey) -> bool {
        self.pods.get(key).is_some_and(|(pod, node)| node.is_none() && pod.ours && !pod.terminating)
    }

    /// Members of ours, with their nodes.
    fn members(&self, gang: &GangKey) -> impl Iterator<Item = (&'a Pod, Option<&'a NodeName>)> {
        self.gangs.get(gang).into_iter().flatten().copied()
    }

    fn bound_members(&self, gang: &GangKey) -> impl Iterator<Item = (&'a Pod, &'a NodeName)> {
        self.members(gang).filter(|(pod, _)| !pod.terminating).filter_map(|(pod, node)| Some((pod, node?)))
    }

    /// The oldest member, then the first by name, speaks for the gang.
    fn size(&self, gang: &GangKey) -> Option<u32> {
        self.members(gang).map(|(pod, _)| pod).min_by_key(|pod| (pod.created, &pod.key.name))?.gang_size
    }

    fn queue_of(&self, pod: &Pod) -> Option<&'a Queue> {
        let open = |queue: &&&Queue| queue.namespaces.contains(&pod.key.namespace);
        match &pod.queue {
            Some(name) => self.queues.get(name).filter(open).copied(),
            None if pod.ours => {
                let mut queues = self.queues.values().filter(open);
                queues.next().copied().filter(|_| queues.next().is_none())
            }
            None => None,
        }
    }

    /// A queue and the queues above it; none if one is missing or comes twice.
    fn chain(&self, queue: &'a Queue) -> Option<Vec<&'a Queue>> {
        let mut chain = vec![queue];
        while let Some(parent) = &chain.last()?.parent {
            let parent = *self.queues.get(parent)?;
            if chain.iter().any(|queue| queue.name == parent.name) {
                return None;
            }
            chain.push(parent);
        }
        Some(chain)
    }

    fn gpu_type_of(&self, node: &NodeName) -> Option<GpuType> {
        let node = self.nodes.get(node)?;
        node.gpu_type.clone().or_else(|| (node.allocatable.gpus > 0).then(GpuType::unknown))
    }
}

fn decided_once(facts: &Facts<'_>, plan: &Plan, violations: &mut Vec<Violation>) {
    let mut decisions: BTreeMap<&GangKey, i32> = BTreeMap::new();
    for (key, (pod, _)) in &facts.pods {
        if facts.is_pending(key) {
            decisions.insert(&pod.gang, 1);
        }
    }
    let decided =
        plan.placements.iter().map(|gang| &gang.gang).chain(plan.waiting.iter().map(|gang| &gang.gang));
    for gang in decided {
        *decisions.entry(gang).or_default() -= 1;
    }
    for (gang, missing) in decisions {
        if missing != 0 {
            violations.push(Violation::NotDecidedOnce(gang.clone()));
        }
    }
    for gang in &plan.waiting {
        if gang.reasons.is_empty() {
            violations.push(Violation::NoReason(gang.gang.clone()));
        }
    }
}

fn members_may_go_there(facts: &Facts<'_>, gang: &GangPlacement, violations: &mut Vec<Violation>) {
    for member in &gang.members {
        let Some((pod, _)) = facts.pods.get(&member.pod).filter(|(pod, _)| pod.gang == gang.gang) else {
            violations.push(Violation::NotPending(member.pod.clone()));
            continue;
        };
        if !facts.is_pending(&member.pod) {
            violations.push(Violation::NotPending(member.pod.clone()));
        }
        if pod.gated || !pod.unsupported.is_empty() {
            violations.push(Violation::NotAllowed(member.pod.clone()));
        }
        let fits = facts.nodes.get(&member.node).is_some_and(|node| {
            node.schedulable
                && node.taints.iter().all(|taint| !taint.repels() || taint.tolerated_by(&pod.tolerations))
                && pod.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        });
        if !fits {
            violations.push(Violation::WrongNode(member.pod.clone(), member.node.clone()));
        }
    }
}

fn gang_is_whole(facts: &Facts<'_>, gang: &GangPlacement, violations: &mut Vec<Violation>) {
    let pending: BTreeSet<&PodKey> =
        facts.members(&gang.gang).map(|(pod, _)| &pod.key).filter(|key| facts.is_pending(key)).collect();
    let placed: BTreeSet<&PodKey> = gang.members.iter().map(|member| &member.pod).collect();
    let size = facts.size(&gang.gang);
    let has_nodes = facts.bound_members(&gang.gang).next().is_some();
    // Of a gang that already has nodes, members may have ended unseen: then all that are left is all.
    let enough = has_nodes || facts.ended(&gang.gang) + placed.len() >= size.unwrap_or(0) as usize;
    let agree = pending.iter().all(|key| facts.pods[key].0.gang_size == size);
    if placed != pending || !enough || !agree {
        violations.push(Violation::NotWhole(gang.gang.clone()));
    }
}

fn one_gpu_type(facts: &Facts<'_>, gang: &GangPlacement, violations: &mut Vec<Violation>) {
    let placed =
        gang.members.iter().filter_map(|member| Some((facts.pods.get(&member.pod)?.0, &member.node)));
    let with_gpus: Vec<(&Pod, &NodeName)> = placed.filter(|(pod, _)| pod.requests.gpus > 0).collect();
    let types: BTreeSet<Option<GpuType>> =
        with_gpus.iter().map(|(_, node)| facts.gpu_type_of(node)).collect();
    let asked: BTreeSet<&GpuType> = with_gpus.iter().filter_map(|(pod, _)| pod.gpu_type.as_ref()).collect();
    let as_asked = asked.iter().all(|asked| types.iter().flatten().all(|found| found == *asked));
    if types.len() > 1 || types.contains(&None) || !as_asked {
        violations.push(Violation::WrongGpuType(gang.gang.clone()));
    }
    if asked.is_empty() && !with_gpus.is_empty() {
        let bound = facts.bound_members(&gang.gang).filter(|(pod, _)| pod.requests.gpus > 0);
        let bound: BTreeSet<GpuType> = bound.filter_map(|(_, node)| facts.gpu_type_of(node)).collect();
        if !bound.is_empty() && !types.iter().flatten().all(|found| bound.contains(found)) {
            violations.push(Violation::WrongGpuType(gang.gang.clone()));
        }
    }
}

fn nodes_are_not_over(facts: &Facts<'_>, plan: &Plan, violations: &mut Vec<Violation>) {
    let mut used: BTreeMap<&NodeName, Resources> = BTreeMap::new();
    for (pod, node) in facts.pods.values() {
        if let Some(node) = node {
            *used.entry(node).or_default() += pod.requests;
        }
    }
    let mut added: BTreeMap<&NodeName, Resources> = BTreeMap::new();
    for member in plan.placements.iter().flat_map(|gang| &gang.members) {
        if let Some((pod, _)) = facts.pods.get(&member.pod) {
            *added.entry(&member.node).or_default() += pod.requests;
        }
    }
    for (node, added) in added {
        let Some(object) = facts.nodes.get(node) else { continue };
        let total = used.get(node).copied().unwrap_or_default() + added;
        let has = object.allocatable;
        let checks = [
            ("gpus", added.gpus, total.gpus, has.gpus),
            ("cpu", added.cpu_millis, total.cpu_millis, has.cpu_millis),
            ("memory", added.memory_bytes, total.memory_bytes, has.memory_bytes),
            ("pods", added.pods, total.pods, has.pods),
        ];
        for (resource, added, used, allocatable) in checks {
            if added > 0 && used > allocatable {
                violations.push(Violation::NodeOver { node: node.clone(), resource, used, allocatable });
            }
        }
    }
}

/// Goes through the plan in its order, so that every gang is judged by what was held when it was granted.
fn queues_have_room(facts: &Facts<'_>, plan: &Plan, violations: &mut Vec<Violation>) {
    let mut held: BTreeMap<(&QueueName, ResourceName), i64> = BTreeMap::new();
    for (pod, node) in facts.pods.values() {
        if let (Some(node), Some(queue)) = (node, facts.queue_of(pod)) {
            for queue in facts.chain(queue).unwrap_or_default() {
                for (resource, amount) in amounts(facts, pod, node) {
                    *held.entry((&queue.name, resource)).or_default() += amount;
                }
            }
        }
    }
    for gang in &plan.placements {
        let members: Vec<_> = gang
            .members
            .iter()
            .filter_map(|member| Some((facts.pods.get(&member.pod)?.0, &member.node)))
            .collect();
        let queues: Vec<_> = members.iter().map(|(pod, _)| facts.queue_of(pod)).collect();
        let chain = match queues.first() {
            Some(Some(queue))
                if queue.name == gang.queue && queues.iter().all(|other| *other == Some(*queue)) =>
            {
                facts.chain(queue)
            }
            _ => None,
        };
        let Some(chain) = chain else {
            violations.push(Violation::WrongQueue(gang.gang.clone()));
            continue;
        };
        let was_granted = facts.was_granted(&gang.gang, &members);
        for queue in chain {
            let mut asked = BTreeSet::new();
            for (pod, node) in &members {
                for (resource, amount) in amounts(facts, pod, node) {
                    *held.entry((&queue.name, resource.clone())).or_default() += amount;
                    asked.insert(resource);
                }
            }
            for resource in asked {
                let holds = held[&(&queue.name, resource.clone())];
                if let Some(bound) = queue.bound(&resource)
                    && holds > bound
                    && !was_granted
                {
                    let (gang, queue) = (gang.gang.clone(), queue.name.clone());
                    violations.push(Violation::QuotaExceeded { gang, queue, resource, holds, bound });
                }
            }
        }
    }
}

/// What a pod on a node counts for in its queue; nothing that is zero.
fn amounts(
    facts: &Facts<'_>,
    pod: &Pod,
    node: &NodeName,
) -> impl Iterator<Item = (ResourceName, i64)> + use<> {
    let gpu_type = facts.gpu_type_of(node).or_else(|| pod.gpu_type.clone()).unwrap_or_else(GpuType::unknown);
    let amounts = [
        (ResourceName::Gpu(gpu_type), pod.requests.gpus),
        (ResourceName::Cpu, pod.requests.cpu_millis),
        (ResourceName::Memory, pod.requests.memory_bytes),
    ];
    amounts.into_iter().filter(|(_, amount)| *amount > 0)
}
