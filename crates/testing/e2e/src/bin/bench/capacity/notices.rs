//! The cloud takes back machines of running gangs: all members are told, the gang goes on on other machines
//! within the notice, and no run is lost. KWOK simulates the members, so this does not test checkpoints;
//! `cargo xtask bench runs` does.
//!
//! | figure | |
//! |---|---|
//! | `notices` | notices, each to a gang whose members all ran, and each followed by one attempt |
//! | `runs_lost` | runs that ended; none should |
//!
//! At the end the runs are deleted, and the ledger has every machine as the cloud billed it, without
//! duplicates.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::run::AttemptOutcome;
use api_types::{RunStatus, names};
use e2e::faults::keeper::Keeper;
use e2e::objects::{create_run, run};
use e2e::observe::{node_of, pods, run_status};
use e2e::wait;
use futures::future::try_join_all;
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use seeded_random::Random;
use test_cluster::karpenter::Karpenter;
use toolbox::figures;

use crate::capacity::size::Size;
use crate::capacity::yard::{TEAM, Yard};

const NOTICES: usize = 100;
/// Gangs that run at the same time; each is struck again as soon as it runs again.
const GANGS: usize = 5;
const MEMBERS: u32 = 2;
/// The same time as on AWS.
const NOTICE: Duration = Duration::from_mins(2);
const BOUND: Duration = Duration::from_mins(4);

/// Strikes them all.
pub async fn measure(size: Size) -> anyhow::Result<()> {
    let yard = Yard::start().await?;
    let (client, karpenter) = (yard.cluster.admin_client(), yard.cluster.karpenter()?);
    let ledger = yard.ledger().await?;
    let mut controllers = Keeper::metering(&yard.cluster, &ledger).await?;
    let mut scheduler = Keeper::buying(&yard.cluster).await?;
    tokio::try_join!(scheduler.service.ready(), controllers.service.ready())?;
    let each = size.of(NOTICES) / GANGS;
    let gangs = (0..GANGS).map(|index| strike(&client, karpenter, index, each, size.seed));
    let work = Box::pin(async {
        let struck = try_join_all(gangs).await?;
        yard.clear(BOUND).await?;
        Ok((struck, yard.until_billed(&ledger).await?))
    });
    let (struck, machines): (Vec<Struck>, usize) =
        scheduler.while_alive(controllers.while_alive(work)).await?;
    let of = |count: fn(&Struck) -> usize| struck.iter().map(count).sum::<usize>();
    let (notices, late, lost) = (of(|it| it.notices), of(|it| it.late), of(|it| usize::from(it.is_lost)));
    println!(
        "{notices} notices: {late} drained late, {lost} runs lost; {machines} machines, each billed once"
    );
    if !size.rehearse {
        let of = format!(
            "of {} s, each under a running gang; {late} were drained late; {machines} machines, each billed once",
            NOTICE.as_secs()
        );
        figures::print("capacity.notices", figures::count(notices), "notices", &of);
        let of = format!("of {GANGS} runs, each struck {each} times");
        figures::print("capacity.runs_lost", figures::count(lost), "runs", &of);
    }
    ensure!(notices == each * GANGS && late == 0 && lost == 0, "see above");
    yard.cluster.stop().await;
    Ok(())
}

/// The outcome of one run.
#[derive(Default)]
struct Struck {
    notices: usize,
    late: usize,
    is_lost: bool,
}

/// Starts a run, and takes one of its machines back again and again.
async fn strike(
    client: &Client,
    karpenter: &Karpenter,
    index: usize,
    times: usize,
    seed: u64,
) -> anyhow::Result<Struck> {
    let name = format!("run-{index}");
    let mut spec = run(TEAM, MEMBERS, 8, Some("36000s"));
    (spec.spot, spec.grace_seconds) = (Some(true), Some(2));
    create_run(client, TEAM, &name, spec).await?;
    let mut random = Random::new(seed.wrapping_add(index as u64));
    let mut struck = Struck::default();
    let mut status = runs_as_attempt(client, &name, 1).await?;
    for _ in 0..times {
        let Some(before) = status else { break };
        let number = before.attempts.last().context("it has an attempt")?.number;
        let nodes = nodes_of(client, &name).await?;
        let node = &nodes[usize::try_from(random.below(nodes.len() as u64))?];
        let deadline = karpenter.notice(node, NOTICE).await?;
        struck.notices += 1;
        status = runs_as_attempt(client, &name, number + 1).await?;
        if let Some(after) = &status {
            struck.late += usize::from(left_at(after, number)? > deadline);
        }
    }
    struck.is_lost = status.is_none();
    println!("{name}: {} notices, {}", struck.notices, if struck.is_lost { "lost" } else { "goes on" });
    Ok(struck)
}

/// Waits until all members of this attempt run; `None` if the run has ended.
async fn runs_as_attempt(client: &Client, name: &str, number: u32) -> anyhow::Result<Option<RunStatus>> {
    wait::until(&format!("attempt {number} of {name} runs"), BOUND, || async {
        let status = run_status(client, TEAM, name).await?;
        if status.phase.is_final() {
            println!("{name} was lost: {status:?}");
            return Ok(Some(None));
        }
        let last = status.attempts.last();
        ensure!(last.is_none_or(|it| it.number <= number), "one notice, two attempts: {status:?}");
        let runs = last.is_some_and(|it| it.number == number) && status.members.running == MEMBERS;
        Ok(runs.then_some(Some(status)))
    })
    .await
}

/// When the last member of an attempt left its machine.
fn left_at(status: &RunStatus, number: u32) -> anyhow::Result<Timestamp> {
    let ended = status.attempts.iter().find(|it| it.number == number).context("attempts are kept")?;
    ensure!(ended.outcome == Some(AttemptOutcome::Interrupted), "{ended:?}");
    Ok(ended.ended_at.as_ref().context("it has ended")?.0)
}

/// The nodes of a run's members now.
async fn nodes_of(client: &Client, run: &str) -> anyhow::Result<Vec<String>> {
    let all = pods(client, TEAM).await?;
    let own = all.iter().filter(|pod| pod.labels().get(names::RUN_LABEL).is_some_and(|it| it == run));
    let runs = own.filter(|pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        pod.metadata.deletion_timestamp.is_none() && phase == Some("Running")
    });
    let nodes: Vec<String> = runs.filter_map(|pod| node_of(pod).map(str::to_owned)).collect();
    ensure!(nodes.len() == MEMBERS as usize, "{run} runs on {nodes:?}");
    Ok(nodes)
}
