//! The reference: the same training without a platform and without interruptions, as plain processes.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use test_cluster::free_port;
use tokio::process::Command;

use super::journal::Journal;
use super::script::Script;

/// Some ten times what it takes on a machine with other work.
const BOUND: Duration = Duration::from_mins(5);
/// The first member listens seconds after its start. Another process may take the free port before.
const TRIES_MAX: u32 = 3;

/// Trains in `folder`, and returns what the members wrote.
pub async fn train(script: &Script, folder: &Path) -> anyhow::Result<Journal> {
    let mut tries = 1;
    loop {
        match train_once(script, folder).await {
            Err(error) if tries < TRIES_MAX && error.to_string().contains("EADDRINUSE") => {
                fs::remove_dir_all(folder)?;
                tries += 1;
            }
            result => return result,
        }
    }
}

async fn train_once(script: &Script, folder: &Path) -> anyhow::Result<Journal> {
    fs::create_dir_all(folder)?;
    let script = Script { step_seconds: 0.0, ..script.clone() };
    let port = free_port()?.to_string();
    let mut members = Vec::new();
    for rank in 0..script.members {
        let log = File::create(folder.join(format!("log-{rank}")))?;
        let command = Script::command()?;
        let mut member = Command::new(&command[0]);
        member.args(&command[1..]).envs(script.variables(folder)?).kill_on_drop(true);
        member.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        member.env("WARPYARD_ATTEMPT", "1").env("WARPYARD_CHECKPOINT_DIR", folder.join("checkpoints"));
        member.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port).env("LOCAL_RANK", "0");
        member.env("WORLD_SIZE", script.members.to_string()).env("NNODES", script.members.to_string());
        member.env("RANK", rank.to_string()).env("NODE_RANK", rank.to_string());
        members.push(member.spawn().context("failed to start a member without a platform")?);
    }
    for (rank, member) in members.iter_mut().enumerate() {
        let Ok(ended) = tokio::time::timeout(BOUND, member.wait()).await else {
            bail!("the training without interruptions took more than {BOUND:?}")
        };
        let log = || fs::read_to_string(folder.join(format!("log-{rank}"))).unwrap_or_default();
        ensure!(ended?.success(), "the training without interruptions failed:\n{}", log());
    }
    let journal = Journal::read(folder, script.members)?;
    ensure!(journal.reached(1) == Some(script.steps()), "it did {:?} steps", journal.reached(1));
    Ok(journal)
}
