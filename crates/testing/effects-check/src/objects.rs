//! Random objects of a cluster, as people and controllers would write them.

use std::collections::BTreeMap;

use api_types::{Queue, QueueSpec, ReclaimSpec, ResourceAmounts, names};
use seeded_random::Random;
use serde_json::{Value as Json, json};
use slim_objects::SlimNode;

/// The only type of GPU, so that gangs compete.
const GPU_TYPE: &str = "H100";
/// GPUs of each node.
pub const GPUS_PER_NODE: u64 = 8;
/// The queues that own GPUs, both below [`ROOT`].
pub const TEAMS: [&str; 2] = ["red", "blue"];
const ROOT: &str = "all";

/// Nodes of one zone, in racks of two.
pub fn nodes(count: u64) -> Vec<SlimNode> {
    let node = |index: u64| {
        let amounts = json!({ "nvidia.com/gpu": GPUS_PER_NODE.to_string(), "cpu": "64", "memory": "512Gi", "pods": "32" });
        json!({
            "metadata": { "name": format!("node-{index}"), "uid": format!("node-{index}"), "labels": {
                names::GPU_TYPE_NODE_LABEL: GPU_TYPE,
                names::ZONE_LABEL: "zone",
                names::RACK_LABEL: format!("rack-{}", index / 2),
            }},
            "status": {
                "allocatable": amounts, "capacity": amounts,
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        })
    };
    (0..count).map(|index| serde_json::from_value(node(index)).expect("a node")).collect()
}

/// Two teams that share the nodes, and reclaim their quota at once.
pub fn queues(namespace: &str, gpus: u64, random: &mut Random) -> Vec<Queue> {
    let h100s = |count: u64| {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Some(ResourceAmounts {
            gpus: BTreeMap::from([(GPU_TYPE.to_owned(), count)]),
            ..ResourceAmounts::default()
        })
    };
    let red = random.below(gpus + 1);
    let team = |(name, quota): (&&str, u64)| {
        let spec = QueueSpec {
            parent: Some(ROOT.to_owned()),
            weight: 1,
            quota: h100s(quota),
            reclaim: Some(ReclaimSpec { grace_seconds: 0, min_run_seconds: 0 }),
            namespaces: vec![namespace.to_owned()],
            ..QueueSpec::default()
        };
        Queue::new(name, spec)
    };
    let root = Queue::new(ROOT, QueueSpec { weight: 1, quota: h100s(gpus), ..QueueSpec::default() });
    [root].into_iter().chain(TEAMS.iter().zip([red, gpus - red]).map(team)).collect()
}

/// A random gang.
#[derive(Clone, Debug)]
pub struct Gang {
    /// Its name, with which its pods' names begin.
    pub name: String,
    members: u64,
    gpus: u64,
    tier: &'static str,
    queue: &'static str,
    checkpoints: bool,
}

impl Gang {
    /// A gang that fits in `nodes` empty nodes.
    pub fn random(name: String, nodes: u64, random: &mut Random) -> Self {
        let tiers = ["warpyard-exploration", "warpyard-research", "warpyard-deadline", "warpyard-production"];
        Self {
            name,
            members: 1 + random.below(nodes.min(4)),
            gpus: [1, 2, 4, 8][pick(random, 4)],
            tier: tiers[pick(random, 4)],
            queue: TEAMS[pick(random, 2)],
            checkpoints: random.below(2) == 0,
        }
    }

    /// Its pods, none of which has a node.
    pub fn pods(&self) -> impl Iterator<Item = Json> {
        (0..self.members).map(|index| self.pod(index))
    }

    /// A node for each member, counted as taken; none if there is no room for all.
    pub fn take_nodes(&self, free: &mut [u64]) -> Option<Vec<String>> {
        let mut left = free.to_vec();
        let place = |_| {
            let node = left.iter().position(|gpus| *gpus >= self.gpus)?;
            left[node] -= self.gpus;
            Some(format!("node-{node}"))
        };
        let taken = (0..self.members).map(place).collect::<Option<_>>()?;
        free.copy_from_slice(&left);
        Some(taken)
    }

    fn pod(&self, index: u64) -> Json {
        let Self { name, members, gpus, tier, queue, checkpoints } = self;
        let resources = json!({ "nvidia.com/gpu": gpus.to_string() });
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{name}-{index}"),
                "labels": { names::GANG_LABEL: name, names::QUEUE_LABEL: queue },
                "annotations": {
                    names::GANG_SIZE_ANNOTATION: members.to_string(),
                    names::CHECKPOINTS_ANNOTATION: checkpoints.to_string(),
                },
            },
            "spec": {
                "schedulerName": names::SCHEDULER_NAME,
                "priorityClassName": tier,
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "train", "image": "example/train:1",
                    "resources": { "limits": resources, "requests": resources },
                }],
            },
        })
    }
}

/// An index below `bound`.
pub fn pick(random: &mut Random, bound: u64) -> usize {
    usize::try_from(random.below(bound)).unwrap_or(0)
}
