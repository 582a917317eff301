//! The cluster: real nodes, each with an agent and a metadata endpoint of its own, and all of our processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use api_types::names;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use test_cluster::platform::{LeaseTimes, Platform, Service};
use test_cluster::process::Process;
use test_cluster::{RealMachine, RealNode, TestCluster};

use super::script::Script;
use crate::agents;
use crate::metadata::Metadata;
use crate::objects::{create_namespace, create_queue};

/// Namespace and queue of the runs.
pub const TEAM: &str = "training";
/// The claim on which checkpoints are kept.
pub const CLAIM: &str = "checkpoints";
/// GPUs of a node.
pub const GPUS_PER_NODE: u32 = 2;

/// How large a yard is.
#[derive(Clone, Copy, Debug)]
pub struct YardSize {
    /// Real nodes, of [`GPUS_PER_NODE`] each.
    pub nodes: usize,
    /// Whether the loss of a node's power is noticed within about ten seconds; in production it takes 50.
    pub notices_power_cuts_soon: bool,
}

/// A running cluster with everything that a run needs.
pub struct Yard {
    // Dropped in this order: our processes before the servers that they talk to.
    /// The controllers.
    pub controllers: Service,
    /// The REST API.
    pub api_server: Service,
    scheduler: Service,
    /// The nodes.
    pub nodes: Vec<YardNode>,
    /// Where the API server listens, on loopback.
    api_address: String,
    report_url: String,
    authority: PathBuf,
    /// The cluster.
    pub cluster: TestCluster,
}

/// A node, with the metadata of its cloud.
pub struct YardNode {
    /// The machine.
    pub machine: RealMachine,
    /// The metadata of its cloud.
    pub metadata: Metadata,
    _agent: Process,
}

impl Yard {
    /// Starts it; all nodes are ready when this returns.
    pub async fn start(size: YardSize) -> anyhow::Result<Self> {
        let mut builder = TestCluster::builder().real_nodes().without_kwok();
        if size.notices_power_cuts_soon {
            builder = builder
                .node_lease_seconds(8)
                .controller_manager_flag("--node-monitor-grace-period=10s")
                .controller_manager_flag("--node-monitor-period=1s");
        }
        let cluster = builder.start().await?;
        let client = cluster.admin_client();
        let gpus = u32::try_from(size.nodes)? * GPUS_PER_NODE;
        create_namespace(&client, TEAM).await?;
        create_queue(&client, TEAM, None, &[("H100", gpus)], &[TEAM]).await?;
        let volume = folder(&cluster).join("volume");
        fs::create_dir_all(&volume)?;
        create_claim(&client, &volume).await?;
        agents::install(&cluster)?;

        let platform = Platform::same_build(&cluster);
        let mut scheduler = platform.scheduler("scheduler", LeaseTimes::of_this_build(), "").await?;
        let (api_server, url) = platform.api_server("127.0.0.1:0").await?;
        let api_address = url.trim_start_matches("http://").to_owned();
        let exposed = cluster.expose_to_pods_by_tls(api_address.parse()?)?;
        let report_url = format!("https://{}", exposed.address);
        let mut controllers = start_controllers(&platform, &report_url, &exposed.authority).await?;
        let starting = (0..size.nodes).map(|number| add_node(&cluster, number));
        let nodes = futures::future::try_join_all(starting).await?;
        scheduler.ready().await?;
        controllers.ready().await?;
        let authority = exposed.authority;
        Ok(Self { controllers, api_server, scheduler, nodes, api_address, report_url, authority, cluster })
    }

    /// A client that may do everything.
    pub fn client(&self) -> Client {
        self.cluster.admin_client()
    }

    /// A folder for the records of a trial, seen by members at the same path.
    pub fn records(&self, trial: &str) -> anyhow::Result<PathBuf> {
        let records = folder(&self.cluster).join(trial);
        fs::create_dir_all(&records)?;
        Ok(records)
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> anyhow::Result<&YardNode> {
        self.nodes.iter().find(|node| node.machine.name() == name).with_context(|| format!("no node {name}"))
    }

    /// Ends our API server and controllers at once.
    pub fn kill_platform(&mut self) {
        self.controllers.kill();
        self.api_server.kill();
    }

    /// Starts them again, where they were.
    pub async fn restart_platform(&mut self) -> anyhow::Result<()> {
        let platform = Platform::same_build(&self.cluster);
        (self.api_server, _) = platform.api_server(&self.api_address).await?;
        self.controllers = start_controllers(&platform, &self.report_url, &self.authority).await?;
        self.controllers.ready().await?;
        Ok(())
    }

    /// Ends everything.
    pub async fn stop(self) {
        let Self { controllers, api_server, scheduler, nodes, cluster, .. } = self;
        drop((controllers, api_server, scheduler, nodes));
        cluster.stop().await;
    }
}

/// The folder that members and this process share.
fn folder(cluster: &TestCluster) -> PathBuf {
    cluster.dir().join("training")
}

async fn start_controllers(
    platform: &Platform<'_>,
    report_url: &str,
    authority: &std::path::Path,
) -> anyhow::Result<Service> {
    let reporting = |spec: test_cluster::process::ProcessSpec| {
        spec.arg(format!("--report-url={report_url}")).path_arg("report-ca-file", authority)
    };
    Ok(platform.controllers_with("controllers", reporting).await?)
}

async fn add_node(cluster: &TestCluster, number: usize) -> anyhow::Result<YardNode> {
    let name = format!("real-{number}");
    let node = RealNode {
        name: name.clone(),
        gpus: GPUS_PER_NODE,
        labels: BTreeMap::new(),
        shared: vec![folder(cluster)],
        shared_read_only: Script::folders()?,
        ..RealNode::default()
    };
    let machine = cluster.add_real_node(node).await?;
    let metadata = Metadata::start().await?;
    let login = agents::login_on(cluster, &name).await?;
    let arguments = ["--cloud=aws".to_owned(), format!("--metadata-url={}", metadata.url)];
    let agent = agents::start(cluster, &format!("agent-{number}"), &login, &name, &arguments)?;
    Ok(YardNode { machine, metadata, _agent: agent })
}

/// A volume that every node has, and the claim that is bound to it.
async fn create_claim(client: &Client, folder: &std::path::Path) -> anyhow::Result<()> {
    let volume: PersistentVolume = serde_json::from_value(json!({
        "metadata": { "name": CLAIM },
        "spec": {
            "capacity": { "storage": "10Gi" },
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": { "namespace": TEAM, "name": CLAIM },
            "hostPath": { "path": folder, "type": "Directory" },
        },
    }))?;
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": { "name": CLAIM },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": CLAIM,
            "resources": { "requests": { "storage": "10Gi" } },
        },
    }))?;
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    volumes.create(&PostParams::default(), &volume).await.context("failed to create a volume")?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), TEAM);
    claims.create(&PostParams::default(), &claim).await.context("failed to create a claim")?;
    Ok(())
}

/// The label by which the pods of a run are found.
pub fn selector(run: &str) -> String {
    format!("{}={run}", names::RUN_LABEL)
}
