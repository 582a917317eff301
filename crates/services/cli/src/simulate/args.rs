//! The options of `warpyard simulate`.

use std::path::PathBuf;

use api_types::duration;
use clap::{Args, ValueEnum};
use jiff::Timestamp;

/// What is simulated unless told otherwise.
pub(super) const POLICY_DEFAULT: &str = "default";

/// Arguments of `simulate`.
#[derive(Args, Clone, Debug)]
pub struct SimulateArgs {
    /// The trace, perhaps compressed with zstd (.zst); `-` reads standard input. Without it, jobs are made up.
    #[arg(value_name = "TRACE")]
    pub trace: Option<PathBuf>,
    /// Instead of a trace: a snapshot of a scheduler (`warpyard snapshot`), of which the one plan is made again and
    /// compared. Exits with 1 if it is another plan.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "report", "save_trace"])]
    pub snapshot: Option<PathBuf>,
    /// How the trace is written; without it, that is told by its first line.
    #[arg(long, value_enum, value_name = "FORMAT", requires = "trace")]
    pub format: Option<Format>,
    /// The policy: a name (default, installed, fifo, skip-ahead, easy, conservative, full) or a YAML file, as the scheduler
    /// takes it.
    #[arg(long, default_value = POLICY_DEFAULT, value_name = "POLICY")]
    pub policy: String,
    /// One thing of the policy, such as reclaim=true; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Where to write a report, as an HTML page that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The headline of the report.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Where to write what was simulated, in our own format.
    #[arg(long, value_name = "FILE")]
    pub save_trace: Option<PathBuf>,
    /// How many nodes there are, if the trace does not say.
    #[arg(long, default_value_t = 16, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub nodes: u32,
    /// GPUs of each node, if the trace does not say.
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub gpus_per_node: u32,
    /// The list of nodes of an openb trace.
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub node_list: Option<PathBuf>,
    /// Leave out what was submitted before, such as 2017-10-01T00:00:00Z.
    #[arg(long, value_name = "TIME", requires = "trace")]
    pub from: Option<Timestamp>,
    /// Leave out what was submitted then or later.
    #[arg(long, value_name = "TIME", requires = "trace")]
    pub until: Option<Timestamp>,
    /// Only jobs of these queues, separated by commas.
    #[arg(long, value_name = "QUEUES", requires = "trace", value_delimiter = ',')]
    pub queues: Vec<String>,
    /// Made up: where randomness comes from.
    #[arg(long, default_value_t = 42, value_name = "SEED")]
    pub seed: u64,
    /// Made up: how many jobs.
    #[arg(long, default_value_t = 5_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub jobs: u32,
    /// Made up: how many teams share the cluster.
    #[arg(long, default_value_t = 4, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub teams: u32,
    /// Made up: GPU time asked for, in percent of what is there.
    #[arg(long, default_value_t = 90, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub load: u32,
    /// Made up: days between failures of a node, on average. Without it, nodes do not fail.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub failure_days: Option<u32>,
    /// How long a job that gives way holds its nodes.
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = seconds)]
    pub eviction_grace: u32,
    /// From the start of a job to its first work.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = seconds)]
    pub start_up: u32,
    /// In addition after each interruption.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = seconds)]
    pub restart: u32,
}

/// How a trace is written.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Our own: one JSON object on each line.
    JsonLines,
    /// The compact table of Philly.
    Philly,
    /// The list of pods of openb; wants --node-list.
    Openb,
}

fn seconds(text: &str) -> Result<u32, String> {
    // Zero is a duration here; job files know none.
    if text == "0" || text == "0s" {
        return Ok(0);
    }
    let seconds = duration::parse_seconds(text).map_err(|error| error.to_string())?;
    u32::try_from(seconds).map_err(|_| format!("`{text}` is too long"))
}
