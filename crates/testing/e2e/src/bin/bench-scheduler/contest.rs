//! The same waiting pods on the same nodes, drained by one contender after the other, each on a fresh cluster.
//!
//! The clock runs from the first bound pod that an observer's watch sees to the last, so start-up and leader election do
//! not count. Nobody plays the kubelets: nodes are created ready, and binds are all the load there is.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Context;
use api_types::names;
use e2e::usage::{self, MachineTime};
use k8s_openapi::api::core::v1::Pod;
use test_cluster::FakeNodes;

use crate::bare::{Bare, Write};
use crate::observer::{Observer, Span};
use crate::profile;
use crate::servers::Servers;
use crate::yard::{KUBE_SCHEDULER_QPS, Kubelets, NAMESPACE, PATIENCE, Yard, for_scheduler};

const KUBE_SCHEDULER: &str = "default-scheduler";
/// Between the last pod made and the contender's start: who takes a lease and a fence first must not find servers that have
/// come to rest while others find them at work.
const REST: Duration = Duration::from_secs(5);
/// How far results may be apart.
const AGREEMENT: f64 = 0.15;
/// With more than this share of stolen time a result says more about the host than about us.
pub const STOLEN_MAX: f64 = 0.05;

/// What waits, and where it may go.
pub struct Load {
    pub nodes: FakeNodes,
    pub pods: Vec<Pod>,
    /// Whether somebody looks where the time goes.
    pub is_profiled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Placements worked out beforehand, eight pods to a node.
    Bare,
    /// The same, but the fence is there, as it is for ours.
    FencedBare,
    /// Upstream's, with raised limits.
    KubeScheduler,
    Ours,
}

/// How a contender fared.
#[derive(Clone, Copy, Debug)]
pub struct Result {
    pub per_second: f64,
    /// Of the scheduler's process since its start; none of bare calls.
    pub cpu_millis_per_pod: f64,
    /// The share of the drain that went into planning; only ours says.
    pub planning_percent: f64,
    /// The share of the processors that the host gave to other machines meanwhile.
    pub stolen: f64,
}

impl Load {
    /// Lets the contenders drain it in turns, until each has three undisturbed results and those around the middle one agree,
    /// or as often as is allowed; the middle one counts. Machines are noisy: for half a minute the host may take a third of the
    /// processors away, whoever's turn that is.
    pub async fn contest<const N: usize>(
        &self,
        contenders: [Contender; N],
        rounds: RangeInclusive<usize>,
    ) -> anyhow::Result<[Result; N]> {
        let mut results = [const { Vec::new() }; N];
        for round in 1..=*rounds.end() {
            for turn in 0..N {
                // Back and forth: who is always the last is always the one whom the others' leavings disturb.
                let turn = if round % 2 == 1 { turn } else { N - 1 - turn };
                results[turn].push(self.drain(contenders[turn]).await?);
            }
            if round >= *rounds.start() && results.iter().all(|of_one| agree(&undisturbed(of_one))) {
                break;
            }
        }
        let counted = results.map(|of_one| undisturbed(&of_one));
        for (contender, of_one) in contenders.iter().zip(&counted) {
            let agreed = if agree(of_one) { "agree" } else { "do not agree" };
            eprintln!("{contender:?}: {} results count; they {agreed}", of_one.len());
        }
        Ok(counted.map(|of_one| of_one[middle(&of_one)]))
    }

    /// Lets one contender drain it.
    pub async fn drain(&self, contender: Contender) -> anyhow::Result<Result> {
        eprintln!("{contender:?}: {} pods, {} nodes", self.pods.len(), self.nodes.count);
        let yard = Yard::start(self.nodes.clone(), Kubelets::None).await?.with_open_queue().await?;
        let scheduler = match contender {
            Contender::Bare | Contender::FencedBare => "nobody",
            Contender::KubeScheduler => KUBE_SCHEDULER,
            Contender::Ours => names::SCHEDULER_NAME,
        };
        let pods = yard.create(for_scheduler(self.pods.clone(), scheduler)).await?;
        let mut observer = Observer::start(&yard.client, NAMESPACE).await?;
        tokio::time::sleep(REST).await;
        let profile = self.is_profiled.then(|| tokio::spawn(profile::take(yard.client.clone(), contender)));
        let before = Servers::now(&yard).await?;
        let machine = MachineTime::now()?;
        let result = match contender {
            Contender::Bare | Contender::FencedBare => {
                let mut bare = Bare::start(&yard).await?;
                if contender == Contender::FencedBare {
                    bare.lead(&yard).await?;
                }
                self.drain_bare(&bare, &pods, &mut observer).await
            }
            Contender::KubeScheduler => self.drain_by_kube_scheduler(&yard, &mut observer).await,
            Contender::Ours => self.drain_by_ours(&yard, &mut observer).await,
        };
        let result = result.with_context(|| format!("{contender:?} did not drain the load"))?;
        let result = Result { stolen: machine.stolen_since()?, ..result };
        eprintln!(
            "{contender:?}: {:.0} pods/s, {:.2} ms of CPU per pod, {:.2} % planning, {:.0} % stolen; {}",
            result.per_second,
            result.cpu_millis_per_pod,
            result.planning_percent,
            100.0 * result.stolen,
            Servers::now(&yard).await?.since(&before, test_cluster::figures::count(self.pods.len()))
        );
        if let Some(profile) = profile {
            profile.await.context("the profile panicked")??;
        }
        drop(observer);
        yard.stop().await;
        Ok(result)
    }

    async fn drain_bare(&self, bare: &Bare, pods: &[Pod], observer: &mut Observer) -> anyhow::Result<Result> {
        let node = |index: usize| format!("{}-{}", self.nodes.prefix, index / 8 % self.nodes.count);
        bare.write(pods.iter().enumerate().map(|(index, pod)| Write::Bind(pod, node(index)))).await?;
        let span = self.drained(observer).await?;
        Ok(self.result(span, 0.0, 0.0))
    }

    async fn drain_by_kube_scheduler(&self, yard: &Yard, observer: &mut Observer) -> anyhow::Result<Result> {
        yard.cluster.start_kube_scheduler(KUBE_SCHEDULER_QPS)?;
        let span = self.drained(observer).await?;
        let pids = yard.cluster.server_pids();
        let (_, pid) = pids.iter().find(|(name, _)| name == "kube-scheduler").context("it runs")?;
        Ok(self.result(span, usage::cpu_seconds(*pid)?, 0.0))
    }

    async fn drain_by_ours(&self, yard: &Yard, observer: &mut Observer) -> anyhow::Result<Result> {
        let mut scheduler = yard.start_scheduler(&[]).await?;
        let span = scheduler.while_alive(self.drained(observer)).await?;
        let cpu_seconds = usage::cpu_seconds(scheduler.pid())?;
        Ok(self.result(span, cpu_seconds, scheduler.plan_seconds().await?))
    }

    async fn drained(&self, observer: &mut Observer) -> anyhow::Result<Span> {
        observer.bound("", self.pods.len(), PATIENCE).await
    }

    fn result(&self, span: Span, cpu_seconds: f64, plan_seconds: f64) -> Result {
        let pods = test_cluster::figures::count(self.pods.len());
        Result {
            per_second: span.per_second(self.pods.len()),
            cpu_millis_per_pod: cpu_seconds * 1e3 / pods,
            planning_percent: 100.0 * plan_seconds / span.last.duration_since(span.first).as_secs_f64(),
            stolen: 0.0,
        }
    }
}

/// The results that count, by pods per second: all with little stolen time; if those are not three, the three with the least.
fn undisturbed(results: &[Result]) -> Vec<Result> {
    let mut counted = results.to_vec();
    counted.sort_by(|a, b| a.stolen.total_cmp(&b.stolen));
    let alone = counted.partition_point(|result| result.stolen <= STOLEN_MAX);
    counted.truncate(alone.max(3));
    counted.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    counted
}

/// Which of sorted results is in the middle; of an even number, the slower.
fn middle(sorted: &[Result]) -> usize {
    (sorted.len() - 1) / 2
}

/// Whether sorted results were undisturbed, and those on both sides of the middle say nearly the same.
fn agree(sorted: &[Result]) -> bool {
    let middle = middle(sorted);
    let around = &sorted[middle.saturating_sub(1)..=(middle + 1).min(sorted.len() - 1)];
    let (slow, fast) = (around[0].per_second, around[around.len() - 1].per_second);
    let is_alone = sorted.iter().all(|result| result.stolen <= STOLEN_MAX);
    is_alone && fast - slow <= AGREEMENT * sorted[middle].per_second
}
