//! Restarts a scheduler or controllers whenever they end, like a kubelet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api_types::names;
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform, Service};
use test_cluster::postgres::Postgres;

use super::site::Site;

/// How soon an end is noticed.
const POLL: Duration = Duration::from_millis(20);

/// The process to keep alive.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A scheduler with these further arguments.
    Scheduler(&'static [&'static str]),
    Controllers,
}

/// One process, kept alive.
pub struct Keeper<'a> {
    platform: Platform<'a>,
    kubeconfig: PathBuf,
    times: LeaseTimes,
    what: What,
    /// The process that runs now.
    pub service: Service,
    /// How often it was started again.
    pub restarts: usize,
}

impl<'a> Keeper<'a> {
    /// Starts it with a pod of its own; it reaches the API server at `url`.
    pub async fn start(cluster: &'a TestCluster, url: &str, times: LeaseTimes) -> anyhow::Result<Self> {
        let login =
            cluster.login_service_account(names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT).await?;
        let kubeconfig = cluster.kubeconfig_through(&login, url)?;
        Self::of(Platform::same_build(cluster), kubeconfig, times, What::Scheduler(&[]))
    }

    /// Starts one that buys machines, with a pod of its own and the lease times of production.
    pub async fn buying(cluster: &'a TestCluster) -> anyhow::Result<Self> {
        let account = (names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT);
        let kubeconfig = cluster.kubeconfig_for_service_account(account.0, account.1).await?;
        let what = What::Scheduler(&["--buy-machines"]);
        Self::of(Platform::same_build(cluster), kubeconfig, LeaseTimes::Production, what)
    }

    /// Starts the controllers, with a pod of their own and the lease times of production.
    pub async fn controllers(cluster: &'a TestCluster) -> anyhow::Result<Self> {
        Self::controllers_of(cluster, Platform::same_build(cluster)).await
    }

    /// The same with a ledger, which they meter into.
    pub async fn metering(cluster: &'a TestCluster, ledger: &Postgres) -> anyhow::Result<Self> {
        Self::controllers_of(cluster, Platform::same_build(cluster).with_ledger(ledger)).await
    }

    async fn controllers_of(cluster: &TestCluster, platform: Platform<'a>) -> anyhow::Result<Self> {
        let account = (names::SYSTEM_NAMESPACE, names::CONTROLLERS_SERVICE_ACCOUNT);
        let kubeconfig = cluster.kubeconfig_for_service_account(account.0, account.1).await?;
        Self::of(platform, kubeconfig, LeaseTimes::Production, What::Controllers)
    }

    fn of(
        platform: Platform<'a>,
        kubeconfig: PathBuf,
        times: LeaseTimes,
        what: What,
    ) -> anyhow::Result<Self> {
        let service = start(&platform, &kubeconfig, times, what)?;
        Ok(Self { platform, kubeconfig, times, what, service, restarts: 0 })
    }

    /// Does `work` while it is kept alive.
    pub async fn while_alive<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        tokio::select! {
            done = work => done,
            error = self.keep() => Err(error),
        }
    }

    /// Waits until every pod of the load has or had a node, while the scheduler is kept alive.
    pub async fn settle(&mut self, site: &Site) -> anyhow::Result<()> {
        let settled = async {
            site.settle().await;
            Ok(())
        };
        self.while_alive(settled).await
    }

    /// Starts it again for ever; returns only if it cannot be started.
    async fn keep(&mut self) -> anyhow::Error {
        loop {
            if let Some(status) = self.service.process().exit_status() {
                self.restarts += 1;
                println!("{} ended ({status}) and is started again", self.service.process().name());
                match start(&self.platform, &self.kubeconfig, self.times, self.what) {
                    Ok(service) => self.service = service,
                    Err(error) => return error.into(),
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

fn start(
    platform: &Platform<'_>,
    kubeconfig: &Path,
    times: LeaseTimes,
    what: What,
) -> Result<Service, test_cluster::Error> {
    match what {
        What::Scheduler(arguments) => platform.scheduler_again("scheduler", kubeconfig, times, arguments),
        What::Controllers => platform.controllers_as("controllers", kubeconfig, times),
    }
}
