//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use api_types::{RunPhase, duration};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::day::DaySpec;
use crate::simulate::SimulateArgs;
use crate::since::SinceSpec;

/// Submit GPU runs, see why they wait, stop them.
#[derive(Parser, Debug)]
#[command(name = "warpyard", version, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub struct Cli {
    /// For every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 not logged in or not allowed, \
    5 conflict, 6 ResourceQuota of the namespace, 7 can never be scheduled, 124 wait timed out, 130 interrupted.";

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub struct GlobalArgs {
    /// How to print.
    #[arg(short, long, global = true, value_enum, default_value_t = OutputFormat::Table, value_name = "FORMAT")]
    pub output: OutputFormat,
    /// The namespace; the default is the one given at login.
    #[arg(short, long, global = true, env = "WARPYARD_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The server's address; the default is the one given at login.
    #[arg(long, global = true, env = "WARPYARD_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// The token. Other users can see it in the list of processes: prefer --token-file, the environment, or a
    /// login.
    #[arg(long, global = true, env = "WARPYARD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// A file with the token; the default, if no token is given, is the file that `WARPYARD_TOKEN_FILE` names.
    // Not read by clap: the environment must not win over a --token that was typed.
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// How to print data.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// For people.
    Table,
    /// The API's objects as JSON.
    Json,
    /// The API's objects as YAML.
    Yaml,
    /// Names only, one on each line.
    Name,
    /// Rows with a header, for spreadsheets; only for reports of `cost`.
    Csv,
}

/// The command.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Check a token with the server and remember both.
    ///
    /// The token comes from --token-file, from `WARPYARD_TOKEN`, or from standard input.
    Login,
    /// Show who the server thinks you are.
    Whoami,
    /// Submit a job file.
    Submit(SubmitArgs),
    /// List runs, newest first.
    Ls(LsArgs),
    /// Show everything known about a run.
    Show(RunArgs),
    /// Show why a run waits, or its state. Exits with 7 if it can never start as it is.
    Why(RunArgs),
    /// Show the logs of a run's members, merged by time over all attempts.
    ///
    /// A line has the time (UTC), attempt/member, and the text. The member of an attempt that failed first is
    /// marked with ✗.
    Logs(LogsArgs),
    /// Stop a run; its record stays.
    Stop(RunArgs),
    /// Pause a run: its members save and leave, and its GPUs are free until it is resumed.
    Pause(RunArgs),
    /// Resume a paused run. With --from, begin it again from a step, whether it is paused, running or failed.
    Resume(ResumeArgs),
    /// Try a failed run again, from its newest checkpoint.
    Retry(RunArgs),
    /// List queues: what they own, hold and spent, and how many runs wait.
    Queues,
    /// Show the board: queues as a tree, with what each holds and its share, and waiting runs in order.
    Queue(BoardArgs),
    /// Show machines: which are being bought, for which run, at what price and ready when; and why others are
    /// not bought.
    Capacity(CapacityArgs),
    /// Show what a run has cost so far, or a report of costs.
    ///
    /// Without RUN: sums over days (UTC) for your namespace; with -A, for all that you may see. With --queue:
    /// sums for the whole queue and those below it; sums by run, user or namespace still cover only your
    /// namespace, unless -A is given.
    Cost(CostArgs),
    /// Try a policy on a virtual clock: with a trace or made-up jobs, on a cluster of your choice.
    ///
    /// It uses the production planner, and contacts no server. Without TRACE, jobs are drawn from a seed.
    Simulate(Box<SimulateArgs>),
    /// Print the state that the scheduler's last plan was made from, and the plan. For administrators.
    ///
    /// Redirect it to a file; `warpyard simulate --snapshot FILE` makes the plan again and compares it.
    Snapshot,
    /// Print the JSON Schema of the job file, for editors.
    Schema,
    /// Print a completion script for a shell.
    Completion {
        /// The shell.
        shell: Shell,
    },
}

/// Arguments of `submit`.
#[derive(Args, Clone, Debug)]
pub struct SubmitArgs {
    /// The job file, YAML or JSON; `-` reads standard input.
    pub file: PathBuf,
    /// Wait until the run is over, at most for TIMEOUT (such as 90m) if given. Exits with 1 if the run fails, 7
    /// if it can never start, 124 if the time is up.
    #[arg(long, value_name = "TIMEOUT", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = parse_wait)]
    pub wait: Option<Wait>,
    /// Check everything, but create nothing.
    #[arg(long, conflicts_with = "wait")]
    pub dry_run: bool,
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Until it is over.
    Forever,
    /// For this long.
    AtMost(Duration),
}

/// Arguments of `ls`.
#[derive(Args, Clone, Debug)]
pub struct LsArgs {
    /// Runs of every namespace that you may see; overrides --namespace.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Also runs that were removed from the cluster because they ended long ago.
    #[arg(long)]
    pub all: bool,
    /// Only runs that are charged to this queue.
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Only runs in this state.
    #[arg(long, value_name = "STATE", ignore_case = true, value_parser = phase_parser())]
    pub state: Option<RunPhase>,
    /// The most runs to list.
    #[arg(long, default_value_t = 100, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
}

/// Arguments of `queue`.
#[derive(Args, Clone, Debug)]
pub struct BoardArgs {
    /// The most runs to show.
    #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=500))]
    pub limit: u16,
}

/// Arguments of `capacity`.
#[derive(Args, Clone, Debug)]
pub struct CapacityArgs {
    /// The most launches and the most refusals to show.
    #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=500))]
    pub limit: u16,
}

/// Names one run.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// The run, as NAME or NAMESPACE/NAME.
    #[arg(value_name = "RUN")]
    pub run: String,
}

/// Arguments of `logs`.
#[derive(Args, Clone, Debug)]
pub struct LogsArgs {
    /// The run.
    #[command(flatten)]
    pub run: RunArgs,
    /// Only this attempt.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Only this member.
    #[arg(long, value_name = "INDEX")]
    pub member: Option<u32>,
    /// Only lines of the last TIME, such as 10m, or after a time, such as 2026-11-01T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub since: Option<SinceSpec>,
    /// The most lines of each member, from the end.
    #[arg(long, default_value_t = 1_000, value_name = "LINES", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub tail: u16,
    /// Show new lines as they are printed, until the run is over.
    #[arg(short, long)]
    pub follow: bool,
}

/// Arguments of `resume`.
#[derive(Args, Clone, Debug)]
pub struct ResumeArgs {
    /// The run.
    #[command(flatten)]
    pub run: RunArgs,
    /// Begin another attempt from this step, which must have a checkpoint; 0 is the beginning. A running
    /// attempt saves first.
    #[arg(long, value_name = "STEP", value_parser = clap::value_parser!(i64).range(0..=9_007_199_254_740_991))]
    pub from: Option<i64>,
}

/// Arguments of `cost`.
#[derive(Args, Clone, Debug)]
pub struct CostArgs {
    /// The run, as NAME or NAMESPACE/NAME; it may be deleted. Without it, a report.
    #[arg(value_name = "RUN", conflicts_with_all = ["queue", "user", "by", "since", "until", "all_namespaces"])]
    pub run: Option<String>,
    /// Only this queue and those below it.
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Only work that this user submitted.
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// What to sum by; the default is by run, or with --queue by queue.
    #[arg(long, value_name = "WHAT", value_enum)]
    pub by: Option<SumBy>,
    /// The first day: 2026-11-01, 2026-11, 7d (ago), today or month (this one). The default is the first of the
    /// month.
    #[arg(long, value_name = "DAY")]
    pub since: Option<DaySpec>,
    /// The last day, in the same forms. The default is today.
    #[arg(long, value_name = "DAY")]
    pub until: Option<DaySpec>,
    /// Every namespace that you may see; overrides --namespace.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Show the run's cost again every few seconds, until it is over.
    #[arg(long, requires = "run")]
    pub watch: bool,
}

/// What to sum by.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumBy {
    /// Runs.
    Run,
    /// Who submitted them.
    User,
    /// Queues.
    Queue,
    /// Namespaces.
    Namespace,
    /// Days, UTC.
    Day,
    /// Classes of GPU time.
    Class,
}

fn parse_wait(text: &str) -> Result<Wait, duration::Error> {
    if text.is_empty() {
        return Ok(Wait::Forever);
    }
    // Seconds of a duration are positive.
    Ok(Wait::AtMost(Duration::from_secs(duration::parse_seconds(text)?.unsigned_abs())))
}

fn phase_parser() -> impl TypedValueParser<Value = RunPhase> {
    let phases = [
        ("pending", RunPhase::Pending),
        ("starting", RunPhase::Starting),
        ("running", RunPhase::Running),
        ("succeeded", RunPhase::Succeeded),
        ("failed", RunPhase::Failed),
        ("stopped", RunPhase::Stopped),
        ("paused", RunPhase::Paused),
    ];
    PossibleValuesParser::new(phases.map(|(name, _)| name)).map(move |text| {
        let text = text.to_ascii_lowercase();
        phases
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, phase)| *phase)
            .expect("one of the possible values")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api_types::RunPhase;
    use clap::{CommandFactory, Parser};

    use super::{Cli, Command, Wait};

    fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("warpyard").chain(arguments.iter().copied()))
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wait_takes_a_bound_or_none_and_never_eats_the_file() {
        for (arguments, expect) in [
            (vec!["submit", "job.yaml"], None),
            (vec!["submit", "--wait", "job.yaml"], Some(Wait::Forever)),
            (vec!["submit", "job.yaml", "--wait=90m"], Some(Wait::AtMost(Duration::from_mins(90)))),
        ] {
            let Command::Submit(submit) = parse(&arguments).expect("valid").command else {
                panic!("not submit")
            };
            assert_eq!(submit.wait, expect, "{arguments:?}");
            assert_eq!(submit.file.to_str(), Some("job.yaml"));
        }
    }

    #[test]
    fn wrong_usage_exits_with_2() {
        for arguments in [
            vec![],
            vec!["submit"],
            vec!["submit", "a", "--wait=soon"],
            vec!["submit", "a", "--wait", "--dry-run"],
            vec!["ls", "--state", "asleep"],
            vec!["ls", "-o", "xml"],
            vec!["cost", "a", "--queue", "b"],
            vec!["cost", "--watch"],
            vec!["cost", "--since", "soon"],
            vec!["cost", "--by", "colour"],
            vec!["resume", "a", "--from", "-1"],
            vec!["resume", "--from", "1"],
            vec!["logs", "a", "--since", "yesterday"],
            vec!["logs", "a", "--tail", "0"],
            vec!["logs", "a", "--attempt", "0"],
            vec!["retry", "a", "--from", "1"],
            vec!["fly"],
        ] {
            assert_eq!(parse(&arguments).expect_err("wrong usage").exit_code(), 2, "{arguments:?}");
        }
    }

    #[test]
    fn states_are_read_in_any_case() {
        let Command::Ls(ls) = parse(&["ls", "--state", "Failed"]).expect("valid").command else {
            panic!("not ls")
        };
        assert_eq!(ls.state, Some(RunPhase::Failed));
    }
}
