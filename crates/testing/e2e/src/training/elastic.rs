//! An elastic training goes on with half its members when a machine is lost, and has them all again when there is room.

use anyhow::{Context, ensure};
use api_types::RunStatus;
use api_types::run::AttemptOutcome;

use super::journal::Journal;
use super::judge;
use super::script::Script;
use super::trial::Trial;
use super::yard::{GPUS_PER_NODE, Yard};
use crate::observe::node_of;

/// Losses are those of the training in peace but for the order of sums: single floats have seven digits, and each step
/// builds on the one before.
const DIFFERENCE_MAX: f64 = 1e-3;
/// Steps of an attempt before something is done to it.
const STEPS: u64 = 20;

/// The findings.
#[derive(Clone, Debug)]
pub struct Elastic {
    /// Ranges of steps, with the number of members that did them.
    pub world_sizes: Vec<(u64, u64, u32)>,
    /// The largest difference of a loss from that in peace, in parts of the largest loss.
    pub loss_difference: f64,
    /// From the power cut until the first step of fewer members.
    pub shrunk_seconds: f64,
}

/// Cuts the power of a machine under a training of all the GPUs, and switches it on again.
pub async fn run(yard: &Yard, script: &Script, reference: &Journal) -> anyhow::Result<Elastic> {
    let fewer = script.members - GPUS_PER_NODE;
    let trial = Trial::start(yard, "elastic", script.clone(), |spec| {
        spec.min_members = Some(fewer);
        // Members that wait for a peer that is gone do not hear a signal, so all of it is waited for.
        spec.grace_seconds = Some(5);
    })
    .await?;
    trial.steps_done(yard, 1, STEPS).await?;
    let pods = trial.pods(yard, 1).await?;
    let name = pods.last().and_then(node_of).context("the last member has no node")?;
    let machine = &yard.node(name)?.machine;
    let cut = jiff::Timestamp::now();
    machine.power_off().await;
    let lost = trial.ended(yard, 1).await?;
    ensure!(lost.reason.as_deref() == Some("NodeLost"), "{lost:?}");
    trial.steps_done(yard, 2, STEPS).await?;
    machine.power_on().await?;
    let grown = trial.ended(yard, 2).await?;
    ensure!(grown.reason.as_deref() == Some("Growing"), "{grown:?}");
    let status = trial.succeeded(yard).await?;
    let journal = trial.journal()?;
    as_recorded(script, &status, &journal)?;
    let first = journal.steps_of(2).map(|step| step.at).fold(f64::INFINITY, f64::min);
    let found = Elastic {
        world_sizes: judge::world_sizes(&journal),
        loss_difference: judge::largest_difference(reference, &journal),
        shrunk_seconds: first - super::strikes::seconds(cut),
    };
    ensure!(found.loss_difference <= DIFFERENCE_MAX, "the loss is another one: {found:?}");
    Ok(found)
}

/// The status tells the sizes that the members had.
fn as_recorded(script: &Script, status: &RunStatus, journal: &Journal) -> anyhow::Result<()> {
    let fewer = script.members - GPUS_PER_NODE;
    let sizes: Vec<_> = status.attempts.iter().map(|attempt| attempt.members).collect();
    ensure!(sizes == [script.members, fewer, script.members], "{sizes:?}");
    let interrupted =
        |attempt: &&api_types::run::Attempt| attempt.outcome == Some(AttemptOutcome::Interrupted);
    ensure!(status.attempts.iter().filter(interrupted).count() == 2 && status.failures == 0, "{status:?}");
    ensure!(judge::committed_twice(journal).is_empty(), "{:?}", judge::committed_twice(journal));
    let ranges = status.progress.as_ref().map(|progress| progress.ranges.as_slice()).unwrap_or_default();
    for range in ranges {
        let size = journal.steps_of(range.attempt).map(|step| step.world_size).next();
        ensure!(size == Some(range.world_size), "{range:?}, but {size:?}");
    }
    let last = ranges.iter().map(|range| range.to).max();
    ensure!(last == Some(script.steps()), "the record ends with {last:?}: {ranges:?}");
    let recorded: std::collections::BTreeSet<_> = ranges.iter().map(|range| range.world_size).collect();
    ensure!(recorded.into_iter().collect::<Vec<_>>() == [fewer, script.members], "{ranges:?}");
    Ok(())
}
