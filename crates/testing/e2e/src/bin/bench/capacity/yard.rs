//! A cluster without nodes that can buy machines, and a team that may use them.

use std::time::Duration;

use api_types::{Run, names};
use e2e::ledger::machines_are_billed;
use e2e::machines::{Times, billed, claims_by_launch, machine_type, offer_with};
use e2e::objects::{create_namespace, create_prices, create_queue};
use e2e::wait;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};
use test_cluster::TestCluster;
use test_cluster::karpenter::{KarpenterSettings, NODE_CLASS};
use test_cluster::platform::{LeaseTimes, Platform, Service};
use test_cluster::postgres::Postgres;

/// The team.
pub const TEAM: &str = "nlp";
/// How long a machine takes to boot.
pub const BOOT: Duration = Duration::from_secs(5);
/// The times of its machine type.
pub const TIMES: Times = Times { boot_seconds: 10, idle_seconds: 10 };
/// The machine: eight H100.
pub const MACHINE: &str = "p5.48xlarge";

/// The servers.
pub struct Yard {
    /// With Karpenter.
    pub cluster: TestCluster,
}

impl Yard {
    /// Starts the servers, and none of ours.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(&["H100".to_owned()]).await
    }

    /// The same, with the machine offered under several GPU types, each as a machine type of its own, so that a
    /// request for one never gets a machine of another.
    pub async fn start_with(gpu_types: &[String]) -> anyhow::Result<Self> {
        let settings =
            KarpenterSettings { boot_time: BOOT, requests_per_second: 1_000, ..KarpenterSettings::default() };
        let cluster = TestCluster::builder().karpenter(settings).start().await?;
        let client = cluster.admin_client();
        create_namespace(&client, TEAM).await?;
        let quota: Vec<(&str, u32)> = gpu_types.iter().map(|it| (it.as_str(), 100_000)).collect();
        create_queue(&client, TEAM, None, &quota, &[TEAM]).await?;
        for gpu_type in gpu_types {
            let mut machine = machine_type(MACHINE, TIMES)?;
            machine.metadata.name = Some(gpu_type.to_lowercase());
            machine.spec.gpu_type = Some(gpu_type.clone());
            offer_with(&client, machine).await?;
        }
        Ok(Self { cluster })
    }

    /// A database for the ledger.
    pub async fn ledger(&self) -> anyhow::Result<Postgres> {
        // For the currency; no machine that was bought costs this.
        create_prices(&self.cluster.admin_client(), "H100", "3600").await?;
        Ok(Postgres::start(self.cluster.dir()).await?)
    }

    /// Deletes all runs, and waits until their machines are given back.
    pub async fn clear(&self, bound: Duration) -> anyhow::Result<()> {
        let runs: Api<Run> = Api::namespaced(self.cluster.admin_client(), TEAM);
        runs.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        self.until_empty(bound).await
    }

    /// After [`Self::clear`]: waits until the ledger has every machine as the cloud billed it, no second twice. Returns how many
    /// there were.
    pub async fn until_billed(&self, ledger: &Postgres) -> anyhow::Result<usize> {
        let lives = self.cluster.karpenter()?.lives()?;
        machines_are_billed(ledger, &lives).await?;
        Ok(lives.len())
    }

    /// A scheduler that buys machines, and the controllers.
    pub async fn platform(&self) -> anyhow::Result<(Service, Service)> {
        let mut scheduler = self.scheduler("scheduler", LeaseTimes::Production, "").await?;
        let mut controllers = self.controllers().await?;
        tokio::try_join!(scheduler.ready(), controllers.ready())?;
        Ok((scheduler, controllers))
    }

    /// The controllers.
    pub async fn controllers(&self) -> anyhow::Result<Service> {
        Ok(Platform::same_build(&self.cluster).controllers("controllers").await?)
    }

    /// A scheduler that buys machines.
    pub async fn scheduler(
        &self,
        name: &str,
        times: LeaseTimes,
        failpoints: &str,
    ) -> anyhow::Result<Service> {
        let platform = Platform::same_build(&self.cluster);
        Ok(platform.buying_scheduler(name, times, failpoints).await?)
    }

    /// Waits until no machine is paid for and no claim is left.
    pub async fn until_empty(&self, bound: Duration) -> anyhow::Result<()> {
        let (client, karpenter) = (self.cluster.admin_client(), self.cluster.karpenter()?);
        wait::until("no machine is left", bound, || async {
            Ok((claims_by_launch(&client).await?.is_empty() && billed(karpenter)?.is_empty()).then_some(()))
        })
        .await
    }
}

/// A pool of Karpenter's own that buys [`MACHINE`]s on demand, and never takes one back while it is not told to.
pub fn pool(name: &str, metadata_of_nodes: &Value) -> anyhow::Result<DynamicObject> {
    let is_in = |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
    Ok(serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": name },
        "spec": {
            "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never" },
            "template": {
                "metadata": metadata_of_nodes,
                "spec": {
                    "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": NODE_CLASS },
                    "expireAfter": "Never",
                    "requirements": [
                        is_in(names::CAPACITY_TYPE_NODE_LABEL, "on-demand"),
                        is_in(names::INSTANCE_TYPE_NODE_LABEL, MACHINE),
                    ],
                },
            },
        },
    }))?)
}
