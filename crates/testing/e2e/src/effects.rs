//! Effects on the real API server: random plans are carried out like by the leader, behind the fence, and read
//! back. `effects-check` compares.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use api_types::scheduler_epoch::opening;
use api_types::{SchedulerEpoch, SchedulerEpochSpec, names};
use cluster_apply::Writes;
use cluster_apply::writes::Probe;
use effects_check::{Case, Disagreement, Server, Tally, Tampering};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use service_kit::client;
use test_cluster::TestCluster;

use crate::objects::create_bare_namespace;
use crate::wait;

/// Cases at a time, each in a namespace of its own.
const LANES: usize = 4;
/// The epoch in which the one leader leads.
const EPOCH: i64 = 1;
/// The server's timeout of every write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(4);
/// Before the first look: a write takes some milliseconds.
const PAUSE: Duration = Duration::from_millis(100);
/// How soon an API server that has just started knows epoch and fence.
const FENCE_MAX: Duration = Duration::from_secs(40);

/// The result of many cases.
#[derive(Debug, Default)]
pub struct Judged {
    /// Their work.
    pub tally: Tally,
    /// Cases in which the cluster differed from the state.
    pub disagreements: Vec<Disagreement>,
}

/// A control plane behind the fence, with one leader and a namespace for each lane.
pub struct Effects {
    cluster: TestCluster,
    lanes: Vec<Server>,
}

impl Effects {
    /// Starts it. `patience` is how long effects may take to show.
    pub async fn start(patience: Duration) -> anyhow::Result<Self> {
        let cluster = TestCluster::start_control_plane_only().await?;
        let admin = cluster.admin_client();
        let writes = lead(&cluster).await?;
        let lane = async |index: usize| {
            let namespace = format!("lane-{index}");
            create_bare_namespace(&admin, &namespace).await?;
            create_default_account(&admin, &namespace).await?;
            let (client, writes, now) = (admin.clone(), writes.clone(), Timestamp::now());
            let server = Server { client, writes, epoch: EPOCH, namespace, now, patience, pause: PAUSE };
            Ok::<_, anyhow::Error>(server)
        };
        let lanes = try_join_all((0..LANES).map(lane)).await?;
        Ok(Self { cluster, lanes })
    }

    /// Runs cases from a seed on until they have carried out this many plans.
    pub async fn judge(&self, plans: u64, first_seed: u64, tampering: Tampering) -> anyhow::Result<Judged> {
        let (next, done) = (AtomicU64::new(first_seed), AtomicU64::new(0));
        let lane = async |server: &Server| {
            let mut judged = Judged::default();
            while done.load(Ordering::Relaxed) < plans {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                let server = Server { now: Timestamp::now(), ..server.clone() };
                match Case::run(seed, server.clone(), tampering).await? {
                    Ok(tally) => {
                        done.fetch_add(tally.plans, Ordering::Relaxed);
                        judged.tally.add(&tally);
                    }
                    Err(disagreement) => {
                        done.fetch_add(1, Ordering::Relaxed);
                        judged.disagreements.push(disagreement);
                    }
                }
                server.clear().await?;
            }
            Ok::<_, anyhow::Error>(judged)
        };
        let mut all = Judged::default();
        for Judged { tally, disagreements } in try_join_all(self.lanes.iter().map(lane)).await? {
            all.tally.add(&tally);
            all.disagreements.extend(disagreements);
        }
        Ok(all)
    }

    /// Ends the servers.
    pub async fn stop(self) {
        self.cluster.stop().await;
    }
}

/// Makes a process with the scheduler's identity the leader behind the fence; returns its writes.
async fn lead(cluster: &TestCluster) -> anyhow::Result<Writes> {
    let login = || cluster.login_service_account(names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT);
    let (leader, other) = (login().await?, login().await?);
    let admin = cluster.admin_client();
    let spec = SchedulerEpochSpec { epoch: EPOCH, holder: leader.pod_uid };
    let epochs: Api<SchedulerEpoch> = Api::all(admin.clone());
    epochs.create(&PostParams::default(), &SchedulerEpoch::new(names::SCHEDULER_EPOCH, spec)).await?;
    let fence: Api<ValidatingAdmissionPolicyBinding> = Api::all(admin);
    let read = fence.get(names::FENCE_OF_BINDS).await?;
    let open = Patch::Merge(opening(EPOCH, read.resource_version().as_deref()));
    fence.patch(names::FENCE_OF_BINDS, &PatchParams::default(), &open).await?;
    let connect = async |kubeconfig| {
        let mut config = client::config(Some(kubeconfig)).await?;
        config.default_retry = false;
        anyhow::Ok(Writes::new(client::client(&config)?, WRITE_TIMEOUT))
    };
    let (leader, other) = (connect(&leader.kubeconfig).await?, connect(&other.kubeconfig).await?);
    let leader = leader.of_epoch(EPOCH);
    wait::until("the fence knows its leader", FENCE_MAX, || async {
        let (ours, others) = tokio::join!(leader.probe("default"), other.probe("default"));
        Ok(matches!((ours, others), (Probe::Admitted, Probe::Refused(_))).then_some(()))
    })
    .await?;
    Ok(leader)
}

/// Pods need the namespace's account, which the controller-manager would add.
async fn create_default_account(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    accounts.create(&PostParams::default(), &account).await.context("failed to create an account")?;
    Ok(())
}
