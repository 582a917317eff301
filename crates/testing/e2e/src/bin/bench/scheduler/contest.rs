//! The same waiting pods on the same nodes, drained by one contender after the other, each on a fresh cluster.
//!
//! The clock runs from the first bound pod that an observer's watch sees to the last, so start-up and leader election do
//! not count. There are no kubelets: nodes are created ready, and binds are the only load.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, bail};
use api_types::names;
use e2e::usage::{self, MachineTime};
use k8s_openapi::api::core::v1::Pod;
use test_cluster::FakeNodes;

use crate::scheduler::bare::{Bare, Write};
use crate::scheduler::contender::Contender;
use crate::scheduler::observer::{Observer, Span};
use crate::scheduler::profiler;
use crate::scheduler::report::Report;
use crate::scheduler::servers::Servers;
use crate::scheduler::yard::{KUBE_SCHEDULER_QPS, Kubelets, NAMESPACE, PATIENCE, Yard, for_scheduler};

const KUBE_SCHEDULER: &str = "default-scheduler";
/// Time between the last created pod and the contender's start, so that all contenders find the servers at
/// rest, also those that need not take a lease and a fence first.
const REST: Duration = Duration::from_secs(5);
/// With more than this share of stolen time a result says more about the host than about us.
pub const STOLEN_MAX: f64 = 0.02;

/// The waiting pods, and the nodes.
pub struct Load {
    pub nodes: FakeNodes,
    pub pods: Vec<Pod>,
    /// Whether the run is profiled.
    pub is_profiled: bool,
}

/// The result of a contender.
#[derive(Clone, Copy, Debug)]
pub struct Result {
    pub per_second: f64,
    /// Of the scheduler's process since its start; none of bare calls.
    pub cpu_millis_per_pod: f64,
    /// Of the API server, from the first bind to the last.
    pub api_server_millis_per_pod: f64,
    /// The share of the drain that went into planning; only ours says.
    pub planning_percent: f64,
    /// The share of processor time that the host gave to other machines meanwhile.
    pub stolen: f64,
}

/// Rounds in each of which every contender drained the same load, undisturbed.
pub struct Rounds<const N: usize>(Vec<[Result; N]>);

/// A number of every round.
#[derive(Clone, Copy, Debug)]
pub struct OfRounds {
    pub median: f64,
    low: f64,
    high: f64,
    rounds: usize,
}

impl<const N: usize> Rounds<N> {
    /// A number of each round. Ratios are taken within a round, so that a slow minute of the machine slows both sides.
    pub fn each(&self, of_round: impl Fn(&[Result; N]) -> f64) -> OfRounds {
        let mut numbers: Vec<f64> = self.0.iter().map(of_round).collect();
        numbers.sort_by(f64::total_cmp);
        let last = numbers.len() - 1;
        OfRounds {
            // Of an even number, the lower.
            median: numbers[last / 2],
            low: numbers[0],
            high: numbers[last],
            rounds: numbers.len(),
        }
    }
}

impl fmt::Display for OfRounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, low, high, rounds } = self;
        write!(f, "median {median:.3}, {low:.3} to {high:.3} in {rounds} rounds")
    }
}

impl Load {
    /// Lets the contenders drain it in turn, until enough rounds were undisturbed. Machines are noisy: for half
    /// a minute the host may take away a third of the processors, during any contender's turn.
    pub async fn contest<const N: usize>(
        &self,
        contenders: [Contender; N],
        report: Report,
    ) -> anyhow::Result<Rounds<N>> {
        let (wanted, most) = report.rounds().into_inner();
        let mut undisturbed = Vec::new();
        for round in 1..=most {
            let mut results = [None; N];
            for turn in 0..N {
                // Back and forth: otherwise the leftovers of the others would always disturb the same last
                // contender.
                let turn = if round % 2 == 1 { turn } else { N - 1 - turn };
                results[turn] = Some(self.drain(contenders[turn]).await?);
            }
            let results = results.map(|result| result.expect("each had its turn"));
            if report.is_rehearsal || results.iter().all(|result| result.stolen < STOLEN_MAX) {
                undisturbed.push(results);
            }
            if undisturbed.len() == wanted {
                return Ok(Rounds(undisturbed));
            }
        }
        bail!(
            "only {} of {most} rounds were undisturbed, and {wanted} are wanted: in the others the host took {:.0} % \
             of the processors or more\n\nhint: run it again when the machine is quiet",
            undisturbed.len(),
            100.0 * STOLEN_MAX
        )
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
        let profile = self.is_profiled.then(|| tokio::spawn(profiler::take(yard.client.clone(), contender)));
        let before = Servers::now(&yard).await?;
        let machine = MachineTime::now()?;
        let result = match contender {
            Contender::Bare | Contender::FencedBare => {
                let mut bare = Bare::start(&yard).await?;
                if contender == Contender::FencedBare {
                    bare.lead(&yard).await?;
                }
                self.drain_bare(&yard, &bare, &pods, &mut observer).await
            }
            Contender::KubeScheduler => self.drain_by_kube_scheduler(&yard, &mut observer).await,
            Contender::Ours => self.drain_by_ours(&yard, &mut observer).await,
        };
        let result = result.with_context(|| format!("{contender:?} did not drain the load"))?;
        let result = Result { stolen: machine.stolen_since()?, ..result };
        eprintln!(
            "{contender:?}: {:.0} pods/s, {:.2} ms of CPU per pod, {:.2} ms of the API server while binding, {:.2} % planning, \
             {:.1} % stolen; {}",
            result.per_second,
            result.cpu_millis_per_pod,
            result.api_server_millis_per_pod,
            result.planning_percent,
            100.0 * result.stolen,
            Servers::now(&yard).await?.since(&before, toolbox::figures::count(self.pods.len()))
        );
        if let Some(profile) = profile {
            profile.await.context("the profile panicked")??;
        }
        drop(observer);
        yard.stop().await;
        Ok(result)
    }

    async fn drain_bare(
        &self,
        yard: &Yard,
        bare: &Bare,
        pods: &[Pod],
        observer: &mut Observer,
    ) -> anyhow::Result<Result> {
        let node = |index: usize| format!("{}-{}", self.nodes.prefix, index / 8 % self.nodes.count);
        let binds = pods.iter().enumerate().map(|(index, pod)| Write::Bind(pod, node(index)));
        let (_, drained) = tokio::try_join!(bare.write(binds), self.drained(yard, observer))?;
        Ok(self.result(drained, 0.0, 0.0))
    }

    async fn drain_by_kube_scheduler(&self, yard: &Yard, observer: &mut Observer) -> anyhow::Result<Result> {
        yard.cluster.start_kube_scheduler(KUBE_SCHEDULER_QPS)?;
        let drained = self.drained(yard, observer).await?;
        Ok(self.result(drained, usage::cpu_seconds(yard.server_pid("kube-scheduler")?)?, 0.0))
    }

    async fn drain_by_ours(&self, yard: &Yard, observer: &mut Observer) -> anyhow::Result<Result> {
        let mut scheduler = yard.start_scheduler(&[]).await?;
        let drained = scheduler.while_alive(self.drained(yard, observer)).await?;
        let cpu_seconds = usage::cpu_seconds(scheduler.pid())?;
        Ok(self.result(drained, cpu_seconds, scheduler.plan_seconds().await?))
    }

    async fn drained(&self, yard: &Yard, observer: &mut Observer) -> anyhow::Result<Drained> {
        let api_server = yard.server_pid("kube-apiserver")?;
        observer.bound("", 1, PATIENCE).await?;
        let before = usage::cpu_seconds(api_server)?;
        let span = observer.bound("", self.pods.len(), PATIENCE).await?;
        Ok(Drained { span, api_server_seconds: usage::cpu_seconds(api_server)? - before })
    }

    fn result(&self, drained: Drained, cpu_seconds: f64, plan_seconds: f64) -> Result {
        let Drained { span, api_server_seconds } = drained;
        let pods = toolbox::figures::count(self.pods.len());
        Result {
            per_second: span.per_second(self.pods.len()),
            cpu_millis_per_pod: cpu_seconds * 1e3 / pods,
            api_server_millis_per_pod: api_server_seconds * 1e3 / pods,
            planning_percent: 100.0 * plan_seconds / span.last.duration_since(span.first).as_secs_f64(),
            stolen: 0.0,
        }
    }
}

/// From the first bind to the last.
#[derive(Clone, Copy, Debug)]
struct Drained {
    span: Span,
    api_server_seconds: f64,
}
