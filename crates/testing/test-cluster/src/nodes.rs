//! Fake GPU nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use api_types::names;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, NodeCondition, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::{Error, kwok};

const NODE_LEASE_NAMESPACE: &str = "kube-node-lease";
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
const BLOCK_LABEL: &str = "topology.warpyard.dev/block";
/// The API server makes about 700 nodes a second; more at once would only wait in its queues.
const CREATES_IN_FLIGHT_MAX: usize = 32;

/// A group of equal nodes.
#[derive(Clone, Debug)]
pub struct FakeNodes {
    /// Nodes are called `<prefix>-0`, `<prefix>-1`, …
    pub prefix: String,
    /// How many.
    pub count: usize,
    /// GPUs on each. A node with none has no GPU taint either.
    pub gpus: u32,
    /// The label `nvidia.com/gpu.product`.
    pub gpu_product: String,
    /// Racks are called `rack-0`, … and hold neighbouring nodes, as equal in number as possible.
    pub racks: usize,
    /// Likewise blocks; without any, nodes have no such label. Blocks hold whole racks if these are a multiple.
    pub blocks: usize,
    /// Likewise zones.
    pub zones: usize,
    /// CPUs on each.
    pub cpu: String,
    /// Memory on each.
    pub memory: String,
    /// How many pods each takes.
    pub pods: u32,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
}

impl Default for FakeNodes {
    /// Eight H100s, like a DGX.
    fn default() -> Self {
        Self {
            prefix: "node".into(),
            count: 1,
            gpus: 8,
            gpu_product: "NVIDIA-H100-80GB-HBM3".into(),
            racks: 1,
            blocks: 0,
            zones: 0,
            cpu: "112".into(),
            memory: "2048Gi".into(),
            pods: 110,
            labels: BTreeMap::new(),
        }
    }
}

impl FakeNodes {
    /// The names of the nodes.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.count).map(|index| format!("{}-{index}", self.prefix))
    }

    /// The domain of a node, if there are this many domains.
    fn domain(&self, index: usize, domains: usize) -> usize {
        index * domains / self.count.max(1)
    }

    fn build(&self, index: usize, now: Timestamp) -> Node {
        let name = format!("{}-{index}", self.prefix);
        let rack = self.domain(index, self.racks.max(1));
        let mut labels = self.labels.clone();
        for (label, kind, domains) in [(ZONE_LABEL, "zone", self.zones), (BLOCK_LABEL, "block", self.blocks)]
        {
            if domains > 0 {
                labels.insert(label.into(), format!("{kind}-{}", self.domain(index, domains)));
            }
        }
        let mut resources = BTreeMap::from([
            ("cpu".to_owned(), Quantity(self.cpu.clone())),
            ("memory".to_owned(), Quantity(self.memory.clone())),
            ("pods".to_owned(), Quantity(self.pods.to_string())),
        ]);
        labels.extend(
            [
                ("kubernetes.io/hostname", name.as_str()),
                ("kubernetes.io/os", "linux"),
                ("kubernetes.io/arch", "amd64"),
                (names::RACK_LABEL, &format!("rack-{rack}")),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        let mut taints = None;
        if self.gpus > 0 {
            labels.insert(names::GPU_PRODUCT_LABEL.into(), self.gpu_product.clone());
            resources.insert(names::GPU_RESOURCE.into(), Quantity(self.gpus.to_string()));
            taints = Some(vec![Taint {
                key: names::GPU_NODE_TAINT.into(),
                value: Some("true".into()),
                effect: "NoSchedule".into(),
                ..Taint::default()
            }]);
        }
        let (annotation, value) = kwok::FAKE_NODE_ANNOTATION;
        Node {
            metadata: ObjectMeta {
                name: Some(name),
                labels: Some(labels),
                annotations: Some(BTreeMap::from([(annotation.to_owned(), value.to_owned())])),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec { taints, ..NodeSpec::default() }),
            status: Some(NodeStatus {
                capacity: Some(resources.clone()),
                allocatable: Some(resources),
                conditions: Some(vec![NodeCondition {
                    type_: "Ready".into(),
                    status: "True".into(),
                    reason: Some("FakeNode".into()),
                    last_heartbeat_time: Some(Time(now)),
                    last_transition_time: Some(Time(now)),
                    ..NodeCondition::default()
                }]),
                // The stage `node-heartbeat` looks for this phase.
                phase: Some("Running".into()),
                ..NodeStatus::default()
            }),
        }
    }
}

/// Creates nodes that are ready from the first moment: making a thousand ready one by one takes KWOK and the
/// controller-manager half a minute.
pub(crate) async fn create(client: &Client, nodes: &FakeNodes) -> Result<(), Error> {
    let api: Api<Node> = Api::all(client.clone());
    let now = Timestamp::now();
    let what = || format!("create {} nodes {}-*", nodes.count, nodes.prefix);
    stream::iter(0..nodes.count)
        .map(|index| {
            let (api, node) = (api.clone(), nodes.build(index, now));
            async move { api.create(&PostParams::default(), &node).await }
        })
        .buffer_unordered(CREATES_IN_FLIGHT_MAX)
        .try_collect::<Vec<_>>()
        .await
        .map_err(|source| Error::Kube { what: what(), source })?;
    Ok(())
}

/// Waits until KWOK acts as the kubelet of every node of a group, which it shows by a lease.
pub(crate) async fn wait_until_played(client: &Client, nodes: &FakeNodes) -> Result<(), Error> {
    // KWOK takes on hundreds of nodes a second, also on two busy cores.
    let bound =
        Duration::from_secs(30) + Duration::from_millis(20) * u32::try_from(nodes.count).unwrap_or(u32::MAX);
    let deadline = Instant::now() + bound;
    let leases: Api<Lease> = Api::namespaced(client.clone(), NODE_LEASE_NAMESPACE);
    loop {
        // Version 0 lets the API server answer from its cache.
        let held: BTreeSet<_> = leases
            .list_metadata(&ListParams::default().match_any())
            .await
            .map_err(|source| Error::Kube { what: "list the leases of nodes".into(), source })?
            .into_iter()
            .filter_map(|lease| lease.metadata.name)
            .collect();
        let waiting = nodes.names().filter(|name| !held.contains(name)).count();
        if waiting == 0 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let what =
                format!("KWOK to play nodes {}-* ({waiting} of {} are left)", nodes.prefix, nodes.count);
            return Err(Error::NotInTime { what, bound });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits for the namespace of node leases: KWOK sleeps for a second whenever it does not find it.
pub(crate) async fn wait_for_lease_namespace(client: &Client) -> Result<(), Error> {
    let bound = Duration::from_secs(30);
    let deadline = Instant::now() + bound;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    loop {
        let found = namespaces.get_opt(NODE_LEASE_NAMESPACE).await;
        if found
            .map_err(|source| Error::Kube { what: format!("get namespace {NODE_LEASE_NAMESPACE}"), source })?
            .is_some()
        {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Error::NotInTime { what: format!("namespace {NODE_LEASE_NAMESPACE}"), bound });
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Removes a node, as if its machine had vanished.
pub(crate) async fn remove(client: &Client, name: &str) -> Result<(), Error> {
    let api: Api<Node> = Api::all(client.clone());
    api.delete(name, &DeleteParams::default())
        .await
        .map_err(|source| Error::Kube { what: format!("delete node {name}"), source })?;
    Ok(())
}

/// The same, without its finalizers. It may be gone already.
pub(crate) async fn remove_by_force(client: &Client, name: &str) -> Result<(), Error> {
    let api: Api<Node> = Api::all(client.clone());
    let unless_gone = |error| match error {
        kube::Error::Api(refused) if refused.is_not_found() => Ok(()),
        source => Err(Error::Kube { what: format!("remove node {name} by force"), source }),
    };
    api.delete(name, &DeleteParams::default()).await.map(drop).or_else(unless_gone)?;
    // Last, because no finalizer can be added to a Node that is being deleted.
    let patch = json!({ "metadata": { "finalizers": null } });
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop).or_else(unless_gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn racks_hold_neighbours_in_equal_numbers() {
        let nodes = FakeNodes { count: 6, racks: 3, ..FakeNodes::default() };
        let racks: Vec<_> = (0..6)
            .map(|index| {
                nodes.build(index, Timestamp::UNIX_EPOCH).metadata.labels.unwrap()[names::RACK_LABEL].clone()
            })
            .collect();
        assert_eq!(racks, ["rack-0", "rack-0", "rack-1", "rack-1", "rack-2", "rack-2"]);
    }

    #[test]
    fn zones_hold_whole_blocks_and_blocks_whole_racks() {
        let nodes = FakeNodes { count: 16, racks: 8, blocks: 4, zones: 2, ..FakeNodes::default() };
        let paths: Vec<_> = [0, 1, 2, 7, 8, 15]
            .map(|index| {
                let labels = nodes.build(index, Timestamp::UNIX_EPOCH).metadata.labels.unwrap();
                [ZONE_LABEL, BLOCK_LABEL, names::RACK_LABEL].map(|label| labels[label].clone()).join(" ")
            })
            .into();
        let expect = [
            "zone-0 block-0 rack-0",
            "zone-0 block-0 rack-0",
            "zone-0 block-0 rack-1",
            "zone-0 block-1 rack-3",
            "zone-1 block-2 rack-4",
            "zone-1 block-3 rack-7",
        ];
        assert_eq!(paths, expect);
    }

    #[test]
    fn a_node_without_gpus_is_open_to_everyone() {
        let node = FakeNodes { gpus: 0, ..FakeNodes::default() }.build(0, Timestamp::UNIX_EPOCH);
        assert_eq!(node.spec.unwrap().taints, None);
        assert!(!node.status.unwrap().allocatable.unwrap().contains_key(names::GPU_RESOURCE));
    }
}
