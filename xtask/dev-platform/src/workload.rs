//! A changing mix of jobs, so that there is something to see: submitted through the REST API as the teams'
//! users, always in the same order.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use api_client::Client;
use api_types::JobFile;
use api_types::names::{FAKE_EXIT_CODE_ANNOTATION, FAKE_RUN_TIME_ANNOTATION};

use crate::teams::TEAMS;

/// Jobs at once in the beginning: they hold most of what the teams own, and a few wait.
const AT_START: usize = 27;
/// After that, one job in this time. Jobs hold 19 GPUs for 14 minutes on average, so about 350 of 512 GPUs stay
/// busy.
const PACE: Duration = Duration::from_secs(45);
/// A platform left alone over a weekend does not fill its disk: 45 s × 5,000 = 62 hours.
const JOBS_MAX: usize = 5_000;

/// Kinds of jobs: name, nodes, GPUs of each, minutes, exit code.
const KINDS: [(&str, u32, u32, u32, u8); 9] = [
    ("llama-ft", 4, 8, 25, 0),
    ("eval", 1, 1, 3, 0),
    ("bert-distill", 2, 8, 12, 0),
    ("sweep", 1, 2, 6, 0),
    ("tokenize", 1, 1, 2, 1),
    ("whisper-large", 8, 8, 30, 0),
    ("probe", 1, 4, 8, 0),
    ("vit-pretrain", 6, 8, 40, 0),
    ("debug", 1, 1, 1, 0),
];

/// Submits jobs until it is dropped.
pub async fn submit(url: &str, tokens: &BTreeMap<&str, String>) -> anyhow::Result<()> {
    let mut clients = Vec::new();
    for team in &TEAMS {
        let token = tokens.get(team.user).context("a user has no token")?;
        clients.push((team.name, Client::new(url, token)?));
    }
    for number in 0..JOBS_MAX {
        if number >= AT_START {
            tokio::time::sleep(PACE).await;
        }
        // Teams take turns unevenly: 4, 3 and 2 of every 9 jobs.
        let team = [0, 1, 0, 2, 1, 0, 1, 2, 0][number % 9];
        let (namespace, client) = &clients[team];
        client.submit_run(namespace, &job(number), false).await.context("failed to submit a job")?;
    }
    std::future::pending().await
}

fn job(number: usize) -> JobFile {
    // One step further in each round of teams, so that every team runs every kind.
    let (kind, nodes, gpus, minutes, code) = KINDS[(number * 5 + number / 9) % KINDS.len()];
    let annotations = BTreeMap::from([
        (FAKE_RUN_TIME_ANNOTATION.to_owned(), format!("{minutes}m{}s", number * 7 % 60)),
        (FAKE_EXIT_CODE_ANNOTATION.to_owned(), code.to_string()),
    ]);
    JobFile {
        name: Some(format!("{kind}-{number:03}")),
        gpus: format!("{gpus}x H100").parse().expect("a count and a type"),
        nodes: Some(nodes),
        run: format!("torchrun {kind}.py"),
        annotations,
        ..JobFile::default()
    }
}
