//! Commands that change a run: stop, pause, resume, retry. The name goes to stdout, and a sentence on what will
//! happen to stderr.

use api_types::RunPhase;
use api_types::rest::RunView;

use crate::args::{OutputFormat, ResumeArgs, RunArgs};
use crate::exit::{Failure, Output};
use crate::print::{full_name, submitted};
use crate::render::clean;
use crate::session::Session;

/// Runs `stop`.
pub async fn stop(session: &Session, format: OutputFormat, args: &RunArgs) -> Result<Output, Failure> {
    let (namespace, name) = session.run_name(&args.run)?;
    let run = session.client()?.stop_run(namespace, name).await?;
    let what = if run.summary.phase.is_final() { "was over already" } else { "will stop" };
    told(format, &run, what)
}

/// Runs `pause`.
pub async fn pause(session: &Session, format: OutputFormat, args: &RunArgs) -> Result<Output, Failure> {
    let (namespace, name) = session.run_name(&args.run)?;
    let run = session.client()?.pause_run(namespace, name).await?;
    let what = match run.summary.phase {
        RunPhase::Paused => "is paused",
        _ if run.checkpoint.is_some() => "will save and give its GPUs back",
        _ => "will end and give its GPUs back; it keeps no checkpoints, so it will begin again",
    };
    let name = clean(&full_name(&run.summary));
    Ok(told(format, &run, what)?.note(format!("\nnext:\n  warpyard resume {name}\n")))
}

/// Runs `resume`.
pub async fn resume(session: &Session, format: OutputFormat, args: &ResumeArgs) -> Result<Output, Failure> {
    let (namespace, name) = session.run_name(&args.run.run)?;
    let run = session.client()?.resume_run(namespace, name, args.from).await?;
    match args.from {
        None => told(format, &run, "will go on"),
        Some(0) => told(format, &run, "will begin again from the beginning"),
        Some(step) => told(format, &run, &format!("will begin again from step {step}")),
    }
}

/// Runs `retry`.
pub async fn retry(session: &Session, format: OutputFormat, args: &RunArgs) -> Result<Output, Failure> {
    let (namespace, name) = session.run_name(&args.run)?;
    let run = session.client()?.retry_run(namespace, name).await?;
    let from = if run.checkpoint.is_some() { "its newest checkpoint" } else { "the beginning" };
    told(format, &run, &format!("will be tried again from {from}"))
}

fn told(format: OutputFormat, run: &RunView, what: &str) -> Result<Output, Failure> {
    let note = format!("{} {what}.\n", clean(&full_name(&run.summary)));
    Ok(Output::data(submitted(format, run)?).note(note))
}
