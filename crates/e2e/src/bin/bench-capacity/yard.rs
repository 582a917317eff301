//! A cluster without a node, where machines can be bought, and a team that may use them.

use std::time::Duration;

use e2e::machines::{Times, billed, claims_by_launch, offer};
use e2e::objects::{create_namespace, create_queue};
use e2e::wait;
use test_cluster::TestCluster;
use test_cluster::karpenter::KarpenterSettings;
use test_cluster::platform::{LeaseTimes, Platform, Service};

/// The team.
pub const TEAM: &str = "nlp";
/// How long a machine takes to boot.
pub const BOOT: Duration = Duration::from_secs(5);
/// What is expected of it.
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
        let settings =
            KarpenterSettings { boot_time: BOOT, requests_per_second: 1_000, ..KarpenterSettings::default() };
        let cluster = TestCluster::builder().karpenter(settings).start().await?;
        let client = cluster.admin_client();
        create_namespace(&client, TEAM).await?;
        create_queue(&client, TEAM, None, &[("H100", 100_000)], &[TEAM]).await?;
        offer(&client, MACHINE, TIMES).await?;
        Ok(Self { cluster })
    }

    /// A scheduler that buys machines, and the controllers.
    pub async fn platform(&self) -> anyhow::Result<(Service, Service)> {
        let platform = Platform::same_build(&self.cluster);
        let mut scheduler = self.scheduler("scheduler", LeaseTimes::Production, "").await?;
        let mut controllers = platform.controllers("controllers").await?;
        tokio::try_join!(scheduler.ready(), controllers.ready())?;
        Ok((scheduler, controllers))
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
