//! Our path: the scheduler buys for runs.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use api_types::{Run, RunStatus, names};
use e2e::faults::keeper::Keeper;
use e2e::objects::{create_run, run as run_spec};
use e2e::observe::run_status;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DeleteParams};

use super::finding::{Findings, Gang, judge, odds};
use super::slots;
use super::slots::{LOOK, SLOTS, Sight};
use crate::capacity::size::Size;
use crate::capacity::yard::{TEAM, Yard};

/// A gang is done by then: each fault costs up to two minutes, and few gangs have more than three in a row.
const BOUND: Duration = Duration::from_mins(15);
/// Idle machines are given back after ten seconds.
const IDLE_BOUND: Duration = Duration::from_mins(2);

/// Starts all gangs, and judges their outcome.
pub async fn run(size: Size, gangs: &[Gang]) -> anyhow::Result<Findings> {
    let gpu_types: Vec<String> = (0..SLOTS).map(gpu_type).collect();
    let yard = Yard::start_with(&gpu_types).await?;
    let (client, karpenter) = (yard.cluster.admin_client(), yard.cluster.karpenter()?);
    karpenter.odds(Some(odds(size, names::LAUNCH_LABEL)))?;
    let mut controllers = Keeper::controllers(&yard.cluster).await?;
    let mut scheduler = Keeper::buying(&yard.cluster).await?;
    tokio::try_join!(scheduler.service.ready(), controllers.service.ready())?;
    let began = Instant::now();
    let all = slots::run(size, &client, gangs, |slot, gang, sight| start(client.clone(), slot, gang, sight));
    let ended = scheduler.while_alive(controllers.while_alive(all)).await?;
    yard.until_empty(IDLE_BOUND).await?;
    let (took, restarts) = (began.elapsed(), (scheduler.restarts, controllers.restarts));
    println!("{} gangs in {took:?}; the scheduler and the controllers ended {restarts:?} times", gangs.len());
    let (record, mut found) = (karpenter.record()?, Findings::default());
    for (gang, whole) in ended {
        found.whole += usize::from(whole.is_some());
        judge(&gang, whole.unwrap_or(Timestamp::MAX), &record, &mut found);
    }
    // Otherwise the logs are kept: they tell who took long.
    if found.is_as_promised(gangs.len()) {
        yard.cluster.stop().await;
    }
    Ok(found)
}

fn gpu_type(slot: usize) -> String {
    format!("H100-{slot}")
}

/// Lets one gang run and end; returns when it was whole, if it was.
async fn start(
    client: Client,
    slot: usize,
    gang: Gang,
    mut sight: Sight,
) -> anyhow::Result<(Gang, Option<Timestamp>)> {
    let gpu_type = gpu_type(slot);
    let mut spec = run_spec(TEAM, gang.members, 8, Some("2s"));
    spec.gpu_type = Some(gpu_type.clone());
    create_run(&client, TEAM, &gang.name, spec).await?;
    let status = over(&client, &gang).await?;
    let is_whole = status.members.succeeded == gang.members;
    let whole = status.started_at.as_ref().filter(|_| is_whole).map(|at| at.0);
    let runs: Api<Run> = Api::namespaced(client, TEAM);
    runs.delete(&gang.name, &DeleteParams::default()).await.context("failed to delete a run")?;
    sight.until_gone(&gpu_type.to_lowercase(), IDLE_BOUND).await?;
    Ok((gang, whole))
}

async fn over(client: &Client, gang: &Gang) -> anyhow::Result<RunStatus> {
    let began = Instant::now();
    while began.elapsed() < BOUND {
        let status = run_status(client, TEAM, &gang.name).await?;
        ensure!(status.attempts.len() <= 1, "{} was begun twice: {status:?}", gang.name);
        if status.phase.is_final() {
            return Ok(status);
        }
        tokio::time::sleep(LOOK).await;
    }
    let status = run_status(client, TEAM, &gang.name).await?;
    bail!("{} of {} nodes is not over after {BOUND:?}: {:?}", gang.name, gang.members, status.waiting)
}
