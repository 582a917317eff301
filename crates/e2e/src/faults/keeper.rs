//! A scheduler that is started again whenever it ends, as a kubelet would.

use std::path::PathBuf;
use std::time::Duration;

use api_types::names;
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform, Service};

use super::site::Site;

/// How soon an end is noticed.
const POLL: Duration = Duration::from_millis(20);

/// One scheduler, kept alive.
pub struct Keeper<'a> {
    platform: Platform<'a>,
    kubeconfig: PathBuf,
    times: LeaseTimes,
    arguments: &'static [&'static str],
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
        Self::of(cluster, kubeconfig, times, &[])
    }

    /// Starts one that buys machines, with a pod of its own and the lease times of production.
    pub async fn buying(cluster: &'a TestCluster) -> anyhow::Result<Self> {
        let account = (names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT);
        let kubeconfig = cluster.kubeconfig_for_service_account(account.0, account.1).await?;
        Self::of(cluster, kubeconfig, LeaseTimes::Production, &["--buy-machines"])
    }

    fn of(
        cluster: &'a TestCluster,
        kubeconfig: PathBuf,
        times: LeaseTimes,
        arguments: &'static [&'static str],
    ) -> anyhow::Result<Self> {
        let platform = Platform::same_build(cluster);
        let service = platform.scheduler_again("scheduler", &kubeconfig, times, arguments)?;
        Ok(Self { platform, kubeconfig, times, arguments, service, restarts: 0 })
    }

    /// Does `work` while the scheduler is kept alive.
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
                println!("the scheduler ended ({status}) and is started again");
                let (kubeconfig, arguments) = (&self.kubeconfig, self.arguments);
                match self.platform.scheduler_again("scheduler", kubeconfig, self.times, arguments) {
                    Ok(service) => self.service = service,
                    Err(error) => return error.into(),
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
