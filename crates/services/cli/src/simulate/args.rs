//! The options of `warpyard simulate`.

use std::path::PathBuf;

use api_types::duration;
use clap::{Args, ValueEnum};
use jiff::Timestamp;

/// The default policy.
pub(super) const POLICY_DEFAULT: &str = "default";

/// Arguments of `simulate`.
#[derive(Args, Clone, Debug)]
pub struct SimulateArgs {
    /// The trace; it may be compressed with zstd (.zst), and `-` reads standard input. Without it, jobs are
    /// made up.
    #[arg(value_name = "TRACE")]
    pub trace: Option<PathBuf>,
    /// Instead of a trace: a snapshot of a scheduler (`warpyard snapshot`). Its plan is made again and
    /// compared. Exits with 1 if the plans differ.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "report", "save_trace"])]
    pub snapshot: Option<PathBuf>,
    /// The format of the trace; the default is to detect it from the first line.
    #[arg(long, value_enum, value_name = "FORMAT", requires = "trace")]
    pub format: Option<Format>,
    /// The policy: a name (default, installed, fifo, skip-ahead, easy, conservative, full) or a YAML file, as the scheduler
    /// takes it.
    #[arg(long, default_value = POLICY_DEFAULT, value_name = "POLICY")]
    pub policy: String,
    /// One setting of the policy, such as reclaim=true; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Where to write a report, as a self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The headline of the report.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Where to write the simulated workload, in our own format.
    #[arg(long, value_name = "FILE")]
    pub save_trace: Option<PathBuf>,
    /// The number of nodes, if the trace does not say.
    #[arg(long, default_value_t = 16, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub nodes: u32,
    /// GPUs of each node, if the trace does not say.
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub gpus_per_node: u32,
    /// The list of nodes of an openb trace.
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub node_list: Option<PathBuf>,
    /// Leave out jobs submitted before this time, such as 2017-10-01T00:00:00Z.
    #[arg(long, value_name = "TIME", requires = "trace")]
    pub from: Option<Timestamp>,
    /// Leave out jobs submitted at this time or later.
    #[arg(long, value_name = "TIME", requires = "trace")]
    pub until: Option<Timestamp>,
    /// Only jobs of these queues, separated by commas.
    #[arg(long, value_name = "QUEUES", requires = "trace", value_delimiter = ',')]
    pub queues: Vec<String>,
    /// Made-up jobs: the seed of randomness.
    #[arg(long, default_value_t = 42, value_name = "SEED")]
    pub seed: u64,
    /// Made-up jobs: how many.
    #[arg(long, default_value_t = 5_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub jobs: u32,
    /// Made-up jobs: how many teams share the cluster.
    #[arg(long, default_value_t = 4, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub teams: u32,
    /// Made-up jobs: requested GPU time, in percent of the cluster's.
    #[arg(long, default_value_t = 90, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub load: u32,
    /// Made-up jobs: days between failures of a node, on average. Without it, nodes do not fail.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub failure_days: Option<u32>,
    /// How long an evicted job still holds its nodes.
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = seconds)]
    pub eviction_grace: u32,
    /// From the start of a job to its first work.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = seconds)]
    pub start_up: u32,
    /// Additional time after each interruption.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = seconds)]
    pub restart: u32,
}

/// The format of a trace.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Our own: one JSON object on each line.
    JsonLines,
    /// The compact table of Philly.
    Philly,
    /// The list of pods of openb; needs --node-list.
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
