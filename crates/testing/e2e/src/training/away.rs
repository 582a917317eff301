//! Our API server and controllers are away for a while: training goes on, and its reports arrive afterwards.
//! Nothing else disturbs it, so its checkpoints must settle on the interval that loses least.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::run::EnvironmentVariable;
use kube::ResourceExt;

use super::interval::{self, SETTLED_WITHIN, Settled};
use super::script::Script;
use super::trial::Trial;
use super::yard::Yard;
use crate::wait;

/// A reporter that got no answer tries again within a minute.
const ARRIVES_WITHIN: Duration = Duration::from_secs(75);

/// The findings.
#[derive(Clone, Debug)]
pub struct Away {
    /// Steps that were done meanwhile.
    pub steps_meanwhile: u64,
    /// From the platform's return until its record had caught up.
    pub caught_up_seconds: f64,
    /// The interval on which the checkpoints settled.
    pub interval: Settled,
}

/// The expected time between failures that members get: with saves of milliseconds, it gives one save about
/// every ten seconds. It is much longer than the test: members that see no failure for that long would assume
/// better machines.
const MTBF_SECONDS: u32 = 3000;

/// Kills both for this long.
pub async fn run(yard: &mut Yard, script: &Script, span: Duration) -> anyhow::Result<Away> {
    let trial = Trial::start(yard, "away", script.clone(), |spec| {
        let value = MTBF_SECONDS.to_string();
        spec.env.push(EnvironmentVariable { name: "TEST_MTBF_SECONDS".to_owned(), value });
    })
    .await?;
    trial.steps_done(yard, 1, 10).await?;
    let before = uids(yard, &trial).await?;
    yard.kill_platform();
    let at_first = trial.journal()?.steps_done(1);
    tokio::time::sleep(span).await;
    let at_last = trial.journal()?.steps_done(1);
    let recorded = progress(yard, &trial).await?;
    ensure!(
        recorded < at_last,
        "the record has {recorded} of {at_last} steps, with nobody there to write it"
    );
    let back = std::time::Instant::now();
    yard.restart_platform().await?;
    wait::until("the record has caught up", ARRIVES_WITHIN, || async {
        Ok((progress(yard, &trial).await? >= at_last).then_some(()))
    })
    .await?;
    let caught_up_seconds = back.elapsed().as_secs_f64();
    ensure!(uids(yard, &trial).await? == before, "a member was started anew");
    let status = trial.succeeded(yard).await?;
    ensure!(status.attempts.len() == 1 && status.failures == 0, "{status:?}");
    ensure!(trial.journal()?.reached(1) == Some(script.steps()), "not all steps are there");
    let ranges = status.progress.context("there is a record")?.ranges;
    let told: BTreeSet<u64> = ranges.iter().flat_map(|range| range.from + 1..=range.to).collect();
    ensure!(told == (1..=script.steps()).collect(), "the record has gaps: {ranges:?}");
    let interval =
        interval::settled(&trial.journal()?, MTBF_SECONDS.into()).context("there are few checkpoints")?;
    ensure!(interval.worst_factor() <= SETTLED_WITHIN, "the interval has not settled: {interval:?}");
    Ok(Away { steps_meanwhile: at_last - at_first, caught_up_seconds, interval })
}

async fn progress(yard: &Yard, trial: &Trial) -> anyhow::Result<u64> {
    Ok(trial.status(yard).await?.progress.map_or(0, |progress| progress.step))
}

async fn uids(yard: &Yard, trial: &Trial) -> anyhow::Result<Vec<Option<String>>> {
    Ok(trial.pods(yard, 1).await?.iter().map(ResourceExt::uid).collect())
}
