//! The scheduler is killed at every step of a launch: before and after each order, while machines boot, while the gang is
//! bound. Two minutes later no claim is without an owner, and the cloud bills no machine that has no claim.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use api_types::Run;
use api_types::names;
use e2e::claims::node_claims;
use e2e::machines::billed;
use e2e::objects::{create_run, run};
use e2e::observe::run_status;
use e2e::wait;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams};
use test_cluster::figures;
use test_cluster::platform::{LeaseTimes, Platform, Service};

use crate::Size;
use crate::yard::{BOOT, TEAM, Yard};

const MEMBERS: u32 = 4;
const BOUND: Duration = Duration::from_mins(3);
/// After a kill, what is nobody's is gone by then.
const OWNED_AFTER: Duration = Duration::from_mins(2);

/// When the scheduler dies.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// At the nth write of a claim: before it is sent, or after it was answered.
    AtWrite { nth: u32, is_after: bool },
    /// So long after the last order.
    Later(Duration),
}

/// Kills it at all of them.
pub async fn measure(size: Size) -> anyhow::Result<()> {
    let writes = (0..MEMBERS).flat_map(|nth| [false, true].map(|is_after| Moment::AtWrite { nth, is_after }));
    let later = [0, 500, 2_000, 4_500, 5_500, 6_500, 8_000].map(Duration::from_millis);
    let moments: Vec<Moment> = writes.chain(later.map(Moment::Later)).collect();
    let yard = Yard::start().await?;
    let client = yard.cluster.admin_client();
    let mut controllers = Platform::same_build(&yard.cluster).controllers("controllers").await?;
    controllers.ready().await?;
    let mut leaked = 0;
    for (number, moment) in moments.iter().take(size.of(moments.len())).enumerate() {
        let (leaks, heir) = kill_at(&yard, number, *moment).await?;
        leaked += leaks;
        let runs: Api<Run> = Api::namespaced(client.clone(), TEAM);
        runs.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        yard.until_empty(BOUND).await?;
        drop(heir);
    }
    if !size.rehearse {
        let of = format!("claims without an owner {} s after {} kills", OWNED_AFTER.as_secs(), moments.len());
        figures::print("capacity.leaked_claims", f64::from(leaked), "claims", &of);
    }
    ensure!(leaked == 0, "{leaked} claims leaked");
    yard.cluster.stop().await;
    Ok(())
}

async fn kill_at(yard: &Yard, number: usize, moment: Moment) -> anyhow::Result<(u32, Service)> {
    let client = yard.cluster.admin_client();
    let failpoints = match moment {
        Moment::AtWrite { nth: 0, is_after } => format!("{}=sleep(600000)", point(is_after)),
        Moment::AtWrite { nth, is_after } => format!("{}={nth}*off->sleep(600000)", point(is_after)),
        Moment::Later(_) => String::new(),
    };
    let mut doomed = yard.scheduler(&format!("doomed-{number}"), LeaseTimes::Short, &failpoints).await?;
    doomed.ready().await?;
    let name = format!("run-{number}");
    create_run(&client, TEAM, &name, run(TEAM, MEMBERS, 8, Some("3600s"))).await?;
    let bought = format!("gang {TEAM}/{name}");
    doomed.until_logged("Buying machines.", BOUND).await?;
    match moment {
        // The others go on while one of them sleeps.
        Moment::AtWrite { .. } => tokio::time::sleep(Duration::from_secs(2)).await,
        Moment::Later(time) => tokio::time::sleep(time).await,
    }
    doomed.kill();
    let mut heir = yard.scheduler(&format!("heir-{number}"), LeaseTimes::Short, "").await?;
    heir.ready().await?;
    wait::until(&format!("{bought} runs, killed at {moment:?}"), BOUND, || async {
        let status = run_status(&client, TEAM, &name).await?;
        Ok((status.members.running == MEMBERS).then_some(()))
    })
    .await?;
    let leaked = wait::until("every claim has an owner", OWNED_AFTER, || async {
        Ok((ownerless(yard, &client, &name).await?.is_empty()).then_some(0))
    })
    .await;
    let leaked = match leaked {
        Ok(none) => none,
        Err(_) => u32::try_from(ownerless(yard, &client, &name).await?.len())?,
    };
    println!("killed at {moment:?}: {leaked} leaked; boot {BOOT:?}");
    Ok((leaked, heir))
}

fn point(is_after: bool) -> &'static str {
    if is_after { "after-claim" } else { "before-claim" }
}

/// Claims whose nodes no member of the run is on, and machines that are billed without a claim.
async fn ownerless(yard: &Yard, client: &Client, run: &str) -> anyhow::Result<Vec<String>> {
    let pods = e2e::observe::pods(client, TEAM).await?;
    let used: BTreeSet<String> = pods
        .iter()
        .filter(|pod| {
            pod.metadata
                .labels
                .as_ref()
                .is_some_and(|it| it.get(names::RUN_LABEL).is_some_and(|it| it == run))
        })
        .filter_map(|pod| pod.spec.as_ref()?.node_name.clone())
        .collect();
    let claims = node_claims(client).list(&ListParams::default().labels(names::LAUNCH_LABEL)).await?;
    let name = |claim: &kube::api::DynamicObject| claim.metadata.name.clone().unwrap_or_default();
    let owned = |claim: &kube::api::DynamicObject| {
        claim.data["status"]["nodeName"].as_str().is_some_and(|node| used.contains(node))
    };
    let mut found: Vec<String> = claims.iter().filter(|claim| !owned(claim)).map(name).collect();
    let known: BTreeSet<String> = claims.iter().map(name).collect();
    let billed = billed(yard.cluster.karpenter()?)?;
    found.extend(billed.into_iter().map(|life| life.claim).filter(|claim| !known.contains(claim)));
    Ok(found)
}
