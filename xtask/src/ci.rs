//! The steps of CI, in order; it prints their times at the end.
//!
//! What is built or installed only once, the servers above all, is made ready in the background, at a low priority: tests in a
//! browser and of training leave half of the machine idle.
//!
//! ```text
//!   packages ─┬─► format ─► lint ─► test ─► … ─► sdk ─► … ─► e2e ─► quickstart
//!             └─► python ─► engine ─► tools      ▲ waits    ▲ waits for the servers
//! ```

mod background;

use std::env;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use toolbox::checkout::{repository_root, target_folder};
use toolbox::figures;

use self::background::Background;
use crate::bench::oracle;
use crate::commands::{self, cargo};
use crate::{builds, deny, e2e, experiments, packages, portal, python, quickstart};

/// One step of CI.
pub struct Step {
    /// The name in the output.
    pub name: &'static str,
    /// What it does.
    pub work: Work,
}

/// What a step does.
pub enum Work {
    /// Runs it here.
    Run(fn() -> anyhow::Result<()>),
    /// Waits for a verb of xtask that runs in the background.
    Await(&'static str),
}

const STEPS: &[Step] = &[
    Step { name: "format", work: Work::Run(|| commands::run(&mut cargo(&["fmt", "--all", "--check"]))) },
    Step {
        name: "lint",
        work: Work::Run(|| {
            commands::run(cargo(&["clippy", "--workspace", "--all-targets"]).args(["--", "-D", "warnings"]))
        }),
    },
    // The end-to-end tests have a step of their own.
    Step {
        name: "test",
        work: Work::Run(|| commands::run(cargo(&["test", "--exclude", "e2e"]).args(builds::WHOLE_WORKSPACE))),
    },
    Step { name: "experiment", work: Work::Run(experiments::run_synthetic) },
    Step { name: "portal", work: Work::Run(portal::check) },
    Step { name: "browser", work: Work::Run(portal::browse_mocked) },
    Step { name: PYTHON, work: Work::Await(PYTHON) },
    Step { name: "sdk", work: Work::Run(|| python::check(&python::SdkArgs::default())) },
    Step { name: ENGINE, work: Work::Await(ENGINE) },
    Step { name: "oracle", work: Work::Run(oracle::run_shard) },
    Step { name: TOOLS, work: Work::Await(TOOLS) },
    Step { name: "dependencies", work: Work::Run(deny::check) },
    Step { name: "e2e", work: Work::Run(|| e2e::run(&e2e::E2eArgs::default())) },
    Step { name: "quickstart", work: Work::Run(quickstart::run) },
];
const PACKAGES: &str = "packages";
/// Verbs of xtask, and the steps that wait for them.
const PYTHON: &str = "python";
const ENGINE: &str = "engine";
const TOOLS: &str = "tools";
/// In this order, as the steps need them.
const IN_BACKGROUND: &[&str] = &[PYTHON, ENGINE, TOOLS];
/// Looking up what is built or installed only once takes less.
const CACHED_SECONDS_MAX: f64 = 30.0;

type Times = Vec<(&'static str, Duration)>;

/// `cargo xtask ci`.
pub fn run() -> anyhow::Result<()> {
    let mut times: Times = time_to_build_xtask().into_iter().collect();
    let result = run_steps(&mut times);
    print_times(&times);
    result?;
    let is_once = |name: &str| [PACKAGES, PYTHON, ENGINE, TOOLS].contains(&name);
    let seconds = |once: bool| -> f64 {
        times.iter().filter(|(name, _)| is_once(name) == once).map(|(_, took)| took.as_secs_f64()).sum()
    };
    // What is built in the background slows all other steps, so the figure without it needs a run that builds nothing.
    if seconds(true) < CACHED_SECONDS_MAX {
        figures::print("ci.cached_minutes", seconds(false) / 60.0, "minutes", "bar: 60");
    } else {
        figures::print("ci.uncached_minutes", (seconds(true) + seconds(false)) / 60.0, "minutes", "bar: 85");
    }
    Ok(())
}

/// Runs every step. The first failure ends the run.
fn run_steps(times: &mut Times) -> anyhow::Result<()> {
    timed(PACKAGES, times, packages::install)?;
    let mut background = Background::start(verbs(IN_BACKGROUND)?, &target_folder().join("ci"))?;
    for step in STEPS {
        timed(step.name, times, || match step.work {
            Work::Run(run) => run(),
            Work::Await(verb) => background.wait_for(verb),
        })?;
    }
    Ok(())
}

/// These verbs of this program.
fn verbs(names: &[&'static str]) -> anyhow::Result<Vec<(&'static str, Command)>> {
    let xtask = env::current_exe().context("failed to find this program")?;
    let command = |verb: &&'static str| {
        let mut command = Command::new(&xtask);
        command.arg(verb);
        (*verb, command)
    };
    Ok(names.iter().map(command).collect())
}

fn timed(
    name: &'static str,
    times: &mut Times,
    work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    eprintln!("── {name} ──");
    let began = Instant::now();
    let result = work();
    times.push((name, began.elapsed()));
    // CI has failed for want of space: then the log shows which step took it.
    eprintln!("{} GiB of the disk are free", free_gib());
    result.with_context(|| format!("step `{name}` failed"))
}

/// The time from the start of `.ci/run`, which passes that moment, until this program ran.
fn time_to_build_xtask() -> Option<(&'static str, Duration)> {
    let began: u64 = std::env::var("WARPYARD_CI_BEGAN").ok()?.parse().ok()?;
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_secs(began)).ok()?;
    Some(("build xtask", elapsed))
}

fn print_times(times: &[(&'static str, Duration)]) {
    eprintln!("── where the time went ──");
    for (name, took) in times {
        eprintln!("{:>7.1} s  {name}", took.as_secs_f64());
    }
    let total: Duration = times.iter().map(|(_, took)| *took).sum();
    eprintln!("{:>7.1} s  in all", total.as_secs_f64());
}

fn free_gib() -> u64 {
    let statistics = nix::sys::statvfs::statvfs(&repository_root());
    statistics.map_or(0, |disk| disk.blocks_available() * disk.fragment_size() / (1 << 30))
}
