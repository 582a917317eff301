//! A cluster for one measurement, and the pods on it.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use api_types::names;
use e2e::objects::{GangOfPods, create_bare_namespace, create_queue};
use e2e::usage;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use test_cluster::platform::{Platform, Service};
use test_cluster::{FakeNodes, TestCluster, free_port};

/// Where the pods are.
pub const NAMESPACE: &str = "load";
/// Concurrent calls, for the scheduler and for bare calls: more do not raise the API server's rate.
pub const IN_FLIGHT_MAX: usize = 64;
/// kube-scheduler's limit of requests per second: far above what it reaches.
pub const KUBE_SCHEDULER_QPS: u32 = 5_000;
/// KWOK renews at a quarter of this: 5 writes a second for 500 nodes.
pub const NODE_LEASE_SECONDS: u32 = 400;
/// After this long a measurement has failed.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// The simulation of kubelets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubelets {
    /// None: nodes are created ready, and a bound pod stays as it is. Binds are the only load.
    None,
    /// KWOK: a bound pod starts to run.
    Kwok,
    /// KWOK, and the controller-manager, which makes the pods of Jobs.
    KwokAndControllers,
}

/// A cluster with nodes, a namespace and the right to create pods in it.
pub struct Yard {
    pub cluster: TestCluster,
    pub client: Client,
}

/// Our scheduler at work.
pub struct Scheduler {
    pub service: Service,
    /// When its process was started.
    pub started: Instant,
    metrics_url: String,
}

impl Scheduler {
    pub fn pid(&mut self) -> u32 {
        self.service.process().pid()
    }

    /// Does `work`; fails if the scheduler ends meanwhile, because nothing restarts it here.
    pub async fn while_alive<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let process = self.service.process();
        tokio::select! {
            done = work => done,
            Some(status) = process.wait(2 * PATIENCE) => {
                bail!("the scheduler ended ({status}):\n{}", process.log_tail())
            }
        }
    }

    /// Seconds spent in plans so far.
    pub async fn plan_seconds(&self) -> anyhow::Result<f64> {
        usage::metric(&self.metrics_url, "warpyard_scheduler_plan_seconds_sum").await
    }
}

impl Yard {
    pub async fn start(nodes: FakeNodes, kubelets: Kubelets) -> anyhow::Result<Self> {
        // Who can be asked for a profile spends nothing on it until somebody asks.
        let mut builder = TestCluster::builder()
            .nodes(nodes)
            .node_lease_seconds(NODE_LEASE_SECONDS)
            .api_server_flag("--profiling=true");
        if kubelets == Kubelets::None {
            builder = builder.without_kwok();
        }
        if kubelets != Kubelets::KwokAndControllers {
            builder = builder.without_controller_manager();
        }
        let cluster = builder.start().await?;
        let client = cluster.admin_client();
        create_bare_namespace(&client, NAMESPACE).await?;
        if kubelets != Kubelets::KwokAndControllers {
            create_default_account(&client).await?;
        }
        for (server, pid) in cluster.server_pids() {
            eprintln!("  {server} {}", usage::flags(pid).join(" "));
        }
        Ok(Self { cluster, client })
    }

    /// A queue without quota that everything in the namespace is charged to.
    pub async fn with_open_queue(self) -> anyhow::Result<Self> {
        create_queue(&self.client, NAMESPACE, None, &[], &[NAMESPACE]).await?;
        Ok(self)
    }

    /// Creates pods, many at a time; gives them as the API server has them.
    pub async fn create(&self, pods: Vec<Pod>) -> anyhow::Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        stream::iter(pods)
            .map(|pod| {
                let api = api.clone();
                async move { api.create(&PostParams::default(), &pod).await.map(|pod| slimmed(&pod)) }
            })
            .buffered(IN_FLIGHT_MAX)
            .try_collect()
            .await
            .context("failed to create the pods")
    }

    /// Waits until KWOK has said of every pod that it runs, so that nothing of it is left to do.
    pub async fn all_run(&self) -> anyhow::Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let others = ListParams::default().fields("status.phase!=Running").limit(1);
        let deadline = Instant::now() + PATIENCE;
        while !api.list_metadata(&others).await.context("failed to list pods")?.items.is_empty() {
            ensure!(Instant::now() < deadline, "some pods do not run after {PATIENCE:?}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    /// Our scheduler as installed, with its own identity, logging as in production; `arguments` come on top.
    pub async fn start_scheduler(&self, arguments: &[String]) -> anyhow::Result<Scheduler> {
        let port = free_port()?;
        let listen = format!("--health-listen=127.0.0.1:{port}");
        let in_flight = format!("--binds-in-flight={IN_FLIGHT_MAX}");
        // Of the same build as this program. Figures come from an optimised one, which `cargo xtask bench` makes.
        let platform = if cfg!(debug_assertions) {
            Platform::debug(&self.cluster)
        } else {
            Platform::release(&self.cluster)
        };
        let change =
            |spec: test_cluster::process::ProcessSpec| spec.arg(listen).arg(in_flight).args(arguments);
        let service = platform.scheduler_as_installed("scheduler", change).await?;
        Ok(Scheduler {
            service,
            started: Instant::now(),
            metrics_url: format!("http://127.0.0.1:{port}/metrics"),
        })
    }

    /// The process of a server.
    pub fn server_pid(&self, server: &str) -> anyhow::Result<u32> {
        let mut pids = self.cluster.server_pids().into_iter();
        let found = pids.find(|(name, _)| name == server);
        Ok(found.with_context(|| format!("no {server} runs"))?.1)
    }

    pub async fn stop(self) {
        self.cluster.stop().await;
    }
}

/// The fields of a pod that are read later; thousands of whole pods would be a load of their own.
fn slimmed(pod: &Pod) -> Pod {
    let metadata = kube::api::ObjectMeta {
        name: Some(pod.name_any()),
        namespace: pod.namespace(),
        uid: pod.uid(),
        ..kube::api::ObjectMeta::default()
    };
    Pod { metadata, ..Pod::default() }
}

/// Pods need the namespace's account, which the controller-manager would add.
async fn create_default_account(client: &Client) -> anyhow::Result<()> {
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    accounts.create(&PostParams::default(), &account).await.context("failed to create an account")?;
    Ok(())
}

/// Gangs of equal pods, called `<prefix>-<gang>-<member>`, charged to `queue`.
pub fn gangs(prefix: &str, queue: &str, gangs: usize, members: u32, gpus: u32) -> Vec<Pod> {
    let pods = |gang| {
        let name = format!("{prefix}-{gang:05}");
        let gang = GangOfPods { namespace: NAMESPACE, name: &name, queue, members, gpus, run_time: "24h" };
        gang.pods()
    };
    let mut pods: Vec<Pod> = (0..gangs).flat_map(pods).collect();
    for pod in &mut pods {
        // Deleted at once: the time that an application takes to end is not measured.
        pod.spec.get_or_insert_default().termination_grace_period_seconds = Some(0);
    }
    pods
}

/// The same pods, for another scheduler.
pub fn for_scheduler(mut pods: Vec<Pod>, scheduler: &str) -> Vec<Pod> {
    for pod in &mut pods {
        pod.spec.get_or_insert_default().scheduler_name = Some(scheduler.to_owned());
    }
    pods
}

/// Eight H100 on each node.
pub fn nodes(count: usize, racks: usize) -> FakeNodes {
    FakeNodes { count, racks, ..FakeNodes::default() }
}

/// The label of a node's rack, which spreading goes by.
pub const RACK: &str = names::RACK_LABEL;
