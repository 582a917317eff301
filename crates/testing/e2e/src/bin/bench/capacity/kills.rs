//! The scheduler is killed at every step of a launch: before and after each order, while machines boot, while the gang is
//! bound, before and after the first machine is opened or given back. Two minutes after the kill the gang runs, no claim is
//! without an owner, and the cloud bills no machine that has no claim. At the end the ledger has every machine as the cloud
//! billed it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_types::names;
use e2e::claims::{node_claims, node_of as node_of_claim};
use e2e::machines::billed;
use e2e::objects::{create_run, run};
use e2e::observe::{node_of, pods, run_status};
use e2e::wait;
use kube::api::{DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use test_cluster::karpenter::Fate;
use test_cluster::platform::{LeaseTimes, Platform, Service};
use toolbox::figures;

use crate::capacity::size::Size;
use crate::capacity::yard::{TEAM, Yard};

const MEMBERS: u32 = 4;
/// From the run to the write at which its scheduler dies.
const REACHED: Duration = Duration::from_mins(1);
/// After a kill, claims and machines without an owner must be gone by then.
const OWNED_AFTER: Duration = Duration::from_mins(2);

/// When the scheduler dies.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// At the nth write about machines: before it is sent, or after it was answered. The first ones are the orders, those
    /// after them open the machines.
    AtWrite { nth: u32, is_after: bool },
    /// At the first machine that is given back, because another one of the launch cannot be bought.
    AtGiveBack { is_after: bool },
    /// This long after the decision.
    Later(Duration),
}

impl Moment {
    /// How often the failpoint is passed unharmed, and which it is.
    fn failpoint(self) -> Option<(u32, &'static str)> {
        let (passes, is_after) = match self {
            Self::AtWrite { nth, is_after } => (nth, is_after),
            Self::AtGiveBack { is_after } => (MEMBERS, is_after),
            Self::Later(_) => return None,
        };
        Some((passes, if is_after { "after-claim" } else { "before-claim" }))
    }
}

fn moments() -> Vec<Moment> {
    let both = [false, true];
    let writes = (0..=MEMBERS).flat_map(|nth| both.map(|is_after| Moment::AtWrite { nth, is_after }));
    let given_back = both.map(|is_after| Moment::AtGiveBack { is_after });
    // While they are ordered, while they boot, while the gang is bound.
    let later = [0, 2_000, 6_500].map(|time| Moment::Later(Duration::from_millis(time)));
    writes.chain(given_back).chain(later).collect()
}

/// Kills it at all of these moments.
pub async fn measure(size: Size) -> anyhow::Result<()> {
    let moments = moments();
    let yard = Yard::start().await?;
    let ledger = yard.ledger().await?;
    let mut controllers =
        Platform::same_build(&yard.cluster).with_ledger(&ledger).controllers("controllers").await?;
    controllers.ready().await?;
    let mut leaked = 0;
    // A rehearsal takes some of each kind.
    let step = moments.len() / size.of(moments.len());
    for (number, moment) in moments.iter().step_by(step).enumerate() {
        let (leaks, heir) = kill_at(&yard, number, *moment).await?;
        leaked += leaks;
        yard.clear(OWNED_AFTER).await?;
        drop(heir);
    }
    let machines = yard.until_billed(&ledger).await?;
    println!("the ledger has all {machines} machines as the cloud billed them");
    if !size.rehearse {
        let of = format!(
            "claims without an owner {} s after {} kills; the ledger has all {machines} machines as the cloud billed them",
            OWNED_AFTER.as_secs(),
            moments.len()
        );
        figures::print("capacity.leaked_claims", figures::count(leaked), "claims", &of);
    }
    ensure!(leaked == 0, "{leaked} claims leaked");
    yard.cluster.stop().await;
    Ok(())
}

async fn kill_at(yard: &Yard, number: usize, moment: Moment) -> anyhow::Result<(usize, Service)> {
    let client = yard.cluster.admin_client();
    let failpoints = match moment.failpoint() {
        Some((0, point)) => format!("{point}=sleep(600000)"),
        Some((passes, point)) => format!("{point}={passes}*off->sleep(600000)"),
        None => String::new(),
    };
    if matches!(moment, Moment::AtGiveBack { .. }) {
        yard.cluster.karpenter()?.next_launches([Fate::StockOut])?;
    }
    let mut doomed = yard.scheduler(&format!("doomed-{number}"), LeaseTimes::Medium, &failpoints).await?;
    doomed.ready().await?;
    let name = format!("run-{number}");
    create_run(&client, TEAM, &name, run(TEAM, MEMBERS, 8, Some("3600s"))).await?;
    until(&mut doomed, moment).await.with_context(|| format!("{moment:?}"))?;
    doomed.kill();
    let killed = Instant::now();
    let mut heir = yard.scheduler(&format!("heir-{number}"), LeaseTimes::Medium, "").await?;
    heir.ready().await?;
    let left = || OWNED_AFTER.saturating_sub(killed.elapsed());
    wait::until(&format!("{name} runs, killed at {moment:?}"), left(), || async {
        let status = run_status(&client, TEAM, &name).await?;
        Ok((status.members.running == MEMBERS).then_some(()))
    })
    .await?;
    let owned = wait::until("every claim has an owner", left(), || async {
        Ok((ownerless(yard, &client, &name).await?.is_empty()).then_some(()))
    })
    .await;
    let leaked = if owned.is_ok() { Vec::new() } else { ownerless(yard, &client, &name).await? };
    println!("killed at {moment:?}: all is owned after {:?}; leaked: {leaked:?}", killed.elapsed());
    Ok((leaked.len(), heir))
}

/// Waits for the moment.
async fn until(doomed: &mut Service, moment: Moment) -> anyhow::Result<()> {
    doomed.wait_for_line("Buying machines.", REACHED).await?;
    if let Moment::Later(time) = moment {
        tokio::time::sleep(time).await;
    }
    let Some((passes, point)) = moment.failpoint() else { return Ok(()) };
    let mut reached = 0;
    while reached <= passes {
        let line = doomed.wait_for_line("Reached failpoint.", REACHED).await?;
        reached += u32::from(line["point"] == point);
    }
    Ok(())
}

/// Claims on whose nodes no member of the run is, and machines that are billed without a claim.
async fn ownerless(yard: &Yard, client: &Client, run: &str) -> anyhow::Result<Vec<String>> {
    let all = pods(client, TEAM).await?;
    let own = all.iter().filter(|pod| pod.labels().get(names::RUN_LABEL).is_some_and(|it| it == run));
    let used: BTreeSet<&str> = own.filter_map(node_of).collect();
    let claims = node_claims(client).list(&ListParams::default().labels(names::LAUNCH_LABEL)).await?;
    let is_owned = |claim: &DynamicObject| node_of_claim(claim).is_some_and(|node| used.contains(node));
    let mut found: Vec<String> =
        claims.iter().filter(|claim| !is_owned(claim)).map(ResourceExt::name_any).collect();
    let known: BTreeSet<String> = claims.iter().map(ResourceExt::name_any).collect();
    let billed = billed(yard.cluster.karpenter()?)?.into_iter().map(|life| life.claim);
    found.extend(billed.filter(|claim| !known.contains(claim)));
    Ok(found)
}
