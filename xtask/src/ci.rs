//! What CI runs, in order; the times at the end say where they went.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use test_cluster::figures;

use crate::bench::oracle;
use crate::commands::{self, cargo};
use crate::{deny, e2e, engine, experiments, packages, portal, python, quickstart};

/// Runs every step; the first that fails ends the run, with the times so far printed all the same.
pub fn run_steps(steps: &[Step]) -> anyhow::Result<Vec<(&'static str, Duration)>> {
    let mut times: Vec<_> = time_to_build_xtask().into_iter().collect();
    for step in steps {
        eprintln!("── {} ──", step.name);
        let began = Instant::now();
        let result = (step.run)();
        times.push((step.name, began.elapsed()));
        if let Err(error) = result {
            print_times(&times);
            return Err(error.context(format!("step `{}` failed", step.name)));
        }
    }
    print_times(&times);
    Ok(times)
}

/// One step of CI.
pub struct Step {
    /// As it is printed.
    pub name: &'static str,
    /// What it does.
    pub run: fn() -> anyhow::Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: PACKAGES, run: packages::install },
    Step { name: "format", run: || commands::run(&mut cargo(&["fmt", "--all", "--check"])) },
    Step {
        name: "lint",
        run: || {
            commands::run(cargo(&["clippy", "--workspace", "--all-targets"]).args(["--", "-D", "warnings"]))
        },
    },
    Step { name: "test", run: || commands::run(&mut cargo(&["test"])) },
    Step { name: "experiment", run: experiments::run_synthetic },
    Step { name: "portal", run: portal::check },
    Step { name: "browser", run: portal::browse_mocked },
    Step { name: PYTHON, run: python::install },
    Step { name: "sdk", run: || python::check(&python::SdkArgs::default()) },
    Step { name: ENGINE, run: || engine::run(&engine::EngineArgs::default()) },
    Step { name: "oracle", run: oracle::run_shard },
    Step { name: TOOLS, run: deny::install },
    Step { name: "dependencies", run: deny::check },
    Step { name: "e2e", run: || e2e::run(&e2e::E2eArgs::default()) },
    Step { name: "quickstart", run: quickstart::run },
];
const PACKAGES: &str = "packages";
const PYTHON: &str = "python";
const ENGINE: &str = "engine";
const TOOLS: &str = "tools";

/// `cargo xtask ci`.
pub fn run() -> anyhow::Result<()> {
    let times = run_steps(STEPS)?;
    // Once cached or installed, these steps are look-ups, so what they took is not part of this figure.
    let cached: Duration = times
        .iter()
        .filter(|(name, _)| ![PACKAGES, PYTHON, ENGINE, TOOLS].contains(name))
        .map(|(_, took)| *took)
        .sum();
    figures::print("ci.cached_minutes", cached.as_secs_f64() / 60.0, "minutes", "bar: 45");
    Ok(())
}

/// How long it took from the start of `.ci/run`, which says when that was, until this program ran.
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
