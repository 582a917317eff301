//! Schedulers that lead in turn: one leads, one is a standby, and the leader is killed or stopped in the middle
//! of its binds.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use api_types::names;
use kube::{Client, ResourceExt};
use serde_json::Value;
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform, Service};

use super::site::NAMESPACE;
use crate::observe::{node_of, pods};
use crate::wait;

/// A busy machine can cost a standby its short lease before it leads; a kubelet would start it again.
const STARTS_MAX: usize = 5;
/// How soon the end of the last one is noticed.
const POLL: Duration = Duration::from_millis(50);

/// Two identities take turns, so that there is always a standby with a pod of its own.
pub struct Leaders<'a> {
    platform: Platform<'a>,
    client: Client,
    identities: [PathBuf; 2],
    lives: usize,
    /// The next leader, and whether it leads already.
    next: Option<(Service, bool)>,
    /// When the former leader was killed.
    killed: Option<Instant>,
    /// The actions of every process at its failpoints.
    pub failpoints: &'static str,
    /// Kills with binds in flight.
    pub counted: usize,
    /// Kills that found none.
    pub wasted: usize,
    /// Binds in flight at a kill.
    pub in_flight: usize,
    /// Binds of these that the API server had executed.
    pub landed: usize,
    /// From a kill to the first bind of the successor, at production's lease times.
    pub takeovers: Vec<Duration>,
    /// Leaders that were stopped and went on.
    pub stopped: usize,
    /// Binds that they sent while their successor led, and that the fence refused.
    pub fenced: usize,
}

impl<'a> Leaders<'a> {
    /// Schedulers that reach the API server at `url`.
    pub async fn new(cluster: &'a TestCluster, url: &str) -> anyhow::Result<Self> {
        let mut identities = Vec::new();
        for _ in 0..2 {
            let login = cluster
                .login_service_account(names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT)
                .await?;
            identities.push(cluster.kubeconfig_through(&login, url)?);
        }
        Ok(Self {
            platform: Platform::same_build(cluster),
            client: cluster.admin_client(),
            identities: identities.try_into().ok().context("two identities")?,
            lives: 0,
            next: None,
            killed: None,
            failpoints: "",
            counted: 0,
            wasted: 0,
            in_flight: 0,
            landed: 0,
            takeovers: Vec::new(),
            stopped: 0,
            fenced: 0,
        })
    }

    fn start(&mut self, times: LeaseTimes) -> anyhow::Result<Service> {
        self.lives += 1;
        let name = format!("scheduler-{:04}", self.lives);
        Ok(self.platform.scheduler_as(&name, &self.identities[self.lives % 2], times, self.failpoints)?)
    }

    /// A process that holds the lease, with no other one running.
    async fn leader(&mut self, times: LeaseTimes) -> anyhow::Result<Service> {
        let mut leader = match self.next.take() {
            Some((leader, true)) => return Ok(leader),
            Some((standby, false)) => standby,
            None => self.start(times)?,
        };
        for _ in 0..STARTS_MAX {
            match leader.wait_for_line("Took the lease.", wait::PATIENCE).await {
                Ok(_) => return Ok(leader),
                Err(error) => println!("{error}"),
            }
            drop(leader);
            leader = self.start(times)?;
        }
        anyhow::bail!("no scheduler took the lease")
    }

    /// Waits until the leader binds, kills it `delay` after its first bind, and puts the standby in its place.
    pub async fn kill_in_the_middle(&mut self, times: LeaseTimes, delay: Duration) -> anyhow::Result<()> {
        let (mut leader, standby, first) = self.binding_leader(times).await?;
        tokio::time::sleep(delay).await;
        leader.kill();
        self.killed = (times == LeaseTimes::Production).then(Instant::now);
        self.next = Some((standby, false));
        let in_flight = binds_without_end(first, leader.read_lines());
        if in_flight.is_empty() {
            self.wasted += 1;
            return Ok(());
        }
        self.counted += 1;
        self.in_flight += in_flight.len();
        let pods = pods(&self.client, NAMESPACE).await?;
        let has_landed = |pod: &&k8s_openapi::api::core::v1::Pod| {
            node_of(pod).is_some() && in_flight.contains(&format!("{NAMESPACE}/{}", pod.name_any()))
        };
        let landed = pods.iter().filter(has_landed).count();
        self.landed += landed;
        println!(
            "kill {:3} ({times:?}): {} binds in flight, {landed} of them done",
            self.counted,
            in_flight.len()
        );
        Ok(())
    }

    /// Waits until the leader binds, stops it `delay` later for longer than its lease, until the standby binds; then lets
    /// it go on, and waits until it has ended.
    pub async fn stop_in_the_middle(&mut self, times: LeaseTimes, delay: Duration) -> anyhow::Result<()> {
        let (mut leader, mut standby, _) = self.binding_leader(times).await?;
        tokio::time::sleep(delay).await;
        leader.freeze();
        self.until_scheduling(&mut standby, times).await?;
        leader.thaw();
        let ended = leader.process().wait(Duration::from_mins(1)).await;
        anyhow::ensure!(ended.is_some(), "a leader that lost its lease while it was stopped goes on");
        let was_fenced = |line: &Value| line["message"] == "Bind refused." && line["outcome"] == "fenced";
        self.fenced += leader.read_lines().iter().filter(|line| was_fenced(line)).count();
        // The next stop must interrupt later binds than those so far.
        standby.read_lines();
        self.next = Some((standby, true));
        self.stopped += 1;
        Ok(())
    }

    /// Waits until a standby leads. A standby that loses its lease on the way is restarted, like by a kubelet.
    async fn until_scheduling(&mut self, standby: &mut Service, times: LeaseTimes) -> anyhow::Result<()> {
        for _ in 0..STARTS_MAX {
            match standby.wait_for_line("Scheduling.", Duration::from_mins(1)).await {
                Ok(_) => return Ok(()),
                Err(_) if has_lost_its_lease(standby) => *standby = self.start(times)?,
                Err(error) => return Err(error).context("the standby leads"),
            }
        }
        anyhow::bail!("no standby lived until it led")
    }

    /// A leader that has just begun to bind, its standby, and the line that says so.
    async fn binding_leader(&mut self, times: LeaseTimes) -> anyhow::Result<(Service, Service, Value)> {
        for _ in 0..STARTS_MAX {
            let mut leader = self.leader(times).await?;
            // The next standby starts once this one leads: two that wait would race for the lease.
            let standby = self.start(times)?;
            match leader.wait_for_line("Binding.", Duration::from_mins(1)).await {
                Ok(first) => {
                    if let Some(killed) = self.killed.take() {
                        self.takeovers.push(killed.elapsed());
                    }
                    return Ok((leader, standby, first));
                }
                // It lost its lease before it could bind, so this take-over is not measured.
                Err(_) if leader.process().exit_status().is_some() => {
                    println!("a leader ended by itself: {}", leader.process().log_tail());
                    self.killed = None;
                    self.next = Some((standby, false));
                }
                Err(error) => return Err(error).context("the leader binds"),
            }
        }
        anyhow::bail!("no scheduler lived until its first bind")
    }

    /// Leaves one scheduler to go on alone, started again whenever it ends, until `work` is done.
    pub async fn finish_alone<T>(
        &mut self,
        times: LeaseTimes,
        work: impl Future<Output = T>,
    ) -> anyhow::Result<T> {
        let mut last = match self.next.take() {
            Some((last, _)) => last,
            None => self.start(times)?,
        };
        let keep = async {
            loop {
                tokio::time::sleep(POLL).await;
                if let Some(status) = last.process().exit_status() {
                    println!("the last scheduler ended ({status}) and is started again");
                    last = self.start(times)?;
                }
            }
        };
        tokio::select! {
            done = work => Ok(done),
            error = keep => error,
        }
    }
}

fn has_lost_its_lease(scheduler: &mut Service) -> bool {
    scheduler.process().exit_status().is_some() && scheduler.process().log_tail().contains("Lost the lease.")
}

/// Pods whose bind was sent and not answered.
fn binds_without_end(first: Value, rest: Vec<Value>) -> BTreeSet<String> {
    let mut open = BTreeSet::new();
    for line in std::iter::once(first).chain(rest) {
        let pod = line["pod"].as_str().unwrap_or_default().to_owned();
        match line["message"].as_str() {
            Some("Binding.") => drop(open.insert(pod)),
            Some("Bound." | "Bind refused.") => drop(open.remove(&pod)),
            _ => {}
        }
    }
    open
}
