//! A cluster whose every revision is recorded, with a queue to load.

use std::time::{Duration, Instant};

use kube::Client;
use test_cluster::{Builder, TestCluster};

use super::Findings;
use crate::history::{Judgement, Recorder};
use crate::objects::{create_namespace, create_queue};
use crate::observe::{node_of, pods};
use crate::wait;

/// Where the load is.
pub const NAMESPACE: &str = "load";
/// How long all pods may take to get their node after the last fault: fake jobs end after seconds.
const SETTLED_WITHIN: Duration = Duration::from_mins(3);

/// A cluster under observation.
pub struct Site {
    /// The cluster.
    pub cluster: TestCluster,
    /// A client that no fault touches.
    pub client: Client,
    recorder: Recorder,
}

impl Site {
    /// Starts a cluster, and begins to record it.
    pub async fn start(builder: Builder) -> anyhow::Result<Self> {
        let cluster = builder.readable_store().start().await?;
        let client = cluster.admin_client();
        create_namespace(&client, NAMESPACE).await?;
        create_queue(&client, NAMESPACE, None, &[], &[NAMESPACE]).await?;
        let recorder = Recorder::start(&cluster).await?;
        Ok(Self { cluster, client, recorder })
    }

    /// Waits until every pod of the load has or had a node, or the time is up; the judge checks it.
    pub async fn settle(&self) {
        self.settle_in(NAMESPACE, SETTLED_WITHIN).await;
    }

    /// The same for the pods of a namespace.
    pub async fn settle_in(&self, namespace: &str, within: Duration) {
        let placed = wait::until("every pod of the load has a node", within, || async {
            let pods = pods(&self.client, namespace).await?;
            Ok(pods.iter().all(|pod| node_of(pod).is_some()).then_some(()))
        });
        if let Err(error) = placed.await {
            println!("{error:#}");
        }
    }

    /// Judges all that happened, and ends the cluster; its files are kept if something was wrong.
    pub async fn finish(self, case: &str, faults_ended: Instant) -> anyhow::Result<Findings> {
        Ok(self.judge(case, faults_ended).await?.0)
    }

    /// The same, with all that was recorded.
    pub async fn judge(self, case: &str, faults_ended: Instant) -> anyhow::Result<(Findings, Judgement)> {
        let judgement = self.recorder.finish(faults_ended).await?;
        let findings = Findings::of(&judgement);
        println!(
            "{case}: {} events judged; {} double-booked ({} raced with their node), {} gangs in part for too long \
             (the longest for {:.1} s), {} pods lost, {} evictions",
            judgement.events,
            findings.double_booked,
            judgement.raced,
            findings.partial_gangs,
            judgement.longest_in_part.as_secs_f64(),
            findings.lost_pods,
            judgement.evictions.len(),
        );
        if findings.wrong.is_empty() {
            self.cluster.stop().await;
        }
        Ok((findings, judgement))
    }
}
