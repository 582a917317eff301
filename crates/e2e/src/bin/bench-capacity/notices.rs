//! The cloud takes machines back under running gangs: all members are told, the gang goes on on other machines, and no run is
//! lost. Members are played by KWOK, so what they save is not seen here; `cargo xtask bench runs` shows that.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::run::AttemptOutcome;
use e2e::objects::{create_run, run};
use e2e::observe::{node_of, pods, run_status};
use e2e::wait;
use jiff::Timestamp;
use seeded_random::Random;
use test_cluster::figures;

use crate::Size;
use crate::yard::{TEAM, Yard};

const NOTICES: usize = 100;
/// Gangs that run at the same time; each notice strikes one of them.
const GANGS: usize = 5;
const MEMBERS: u32 = 2;
const NOTICE: Duration = Duration::from_mins(2);
const BOUND: Duration = Duration::from_mins(4);

/// Strikes them one after the other.
pub async fn measure(size: Size) -> anyhow::Result<()> {
    let yard = Yard::start().await?;
    let (client, karpenter) = (yard.cluster.admin_client(), yard.cluster.karpenter()?);
    let _platform = yard.platform().await?;
    let gangs: Vec<String> = (0..GANGS).map(|index| format!("run-{index}")).collect();
    for gang in &gangs {
        let mut spec = run(TEAM, MEMBERS, 8, Some("36000s"));
        (spec.spot, spec.grace_seconds) = (Some(true), Some(2));
        create_run(&client, TEAM, gang, spec).await?;
    }
    let mut random = Random::new(size.seed);
    let (mut notices, mut drained_late) = (0, 0);
    for number in 0..size.of(NOTICES) {
        let gang = &gangs[number % GANGS];
        let before = wait::until(&format!("{gang} runs"), BOUND, || async {
            let status = run_status(&client, TEAM, gang).await?;
            ensure!(!status.phase.is_final(), "{gang} was lost: {status:?}");
            Ok((status.members.running == MEMBERS).then_some(status.attempts.len()))
        })
        .await?;
        let all = pods(&client, TEAM).await?;
        let own = all.iter().filter(|pod| {
            let labels = pod.metadata.labels.as_ref();
            labels.is_some_and(|it| it.get(api_types::names::RUN_LABEL) == Some(gang))
                && pod.metadata.deletion_timestamp.is_none()
        });
        let nodes: Vec<String> = own.filter_map(|pod| node_of(pod).map(str::to_owned)).collect();
        let node = &nodes[usize::try_from(random.below(nodes.len() as u64))?];
        let deadline = karpenter.notice(node, NOTICE).await?;
        notices += 1;
        let status = wait::until(&format!("{gang} goes on after notice {number}"), BOUND, || async {
            let status = run_status(&client, TEAM, gang).await?;
            ensure!(!status.phase.is_final(), "{gang} was lost: {status:?}");
            let has_new = status.attempts.last().is_some_and(|it| it.started_at.is_some());
            Ok((status.attempts.len() > before && has_new && status.members.running == MEMBERS)
                .then_some(status))
        })
        .await?;
        let ended = &status.attempts[status.attempts.len() - 2];
        ensure!(ended.outcome == Some(AttemptOutcome::Interrupted), "{ended:?}");
        let left = ended.ended_at.as_ref().context("it has ended")?.0;
        drained_late += usize::from(left > deadline);
        if number % 10 == 9 {
            println!("{} notices, each run goes on; {}", number + 1, Timestamp::now());
        }
    }
    let mut lost = 0;
    for gang in &gangs {
        lost += u32::from(run_status(&client, TEAM, gang).await?.phase.is_final());
    }
    let twice = billed_twice(karpenter.lives()?);
    if !size.rehearse {
        figures::print(
            "capacity.notices",
            f64::from(notices),
            "notices",
            "of 120 s, each under a running gang",
        );
        figures::print(
            "capacity.runs_lost",
            f64::from(lost),
            "runs",
            &format!("{GANGS} runs, struck in turn"),
        );
    }
    ensure!(
        drained_late == 0 && lost == 0 && twice == 0,
        "{drained_late} late, {lost} lost, {twice} billed twice"
    );
    yard.cluster.stop().await;
    Ok(())
}

/// Claims that the cloud bills more than one machine for.
fn billed_twice(lives: Vec<test_cluster::karpenter::Life>) -> usize {
    let mut claims: Vec<String> = lives.into_iter().map(|life| life.claim_uid).collect();
    let all = claims.len();
    claims.sort();
    claims.dedup();
    all - claims.len()
}
