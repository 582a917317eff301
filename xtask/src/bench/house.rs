//! `cargo xtask bench house [PART…]`: measures the code itself, such as the time to start and the reach of a
//! change.
//!
//! A part builds in a scratch folder, or runs a test that counts and prints its figure. Builds are cold and
//! take every core, so their figures need an otherwise idle machine; processor time depends less on other load
//! than seconds do.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, num, thread};

use anyhow::Context;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use toolbox::checkout::target_folder;
use toolbox::figures;

use super::measure::measure;
use super::{ci_load, parts};
use crate::builds;
use crate::commands::{self, cargo};

/// A part that is measured by itself and prints its figures.
struct Part {
    name: &'static str,
    measure: fn() -> anyhow::Result<()>,
    /// Takes hours, or needs an idle machine: runs only if it is named.
    by_name_only: bool,
}

/// Short ones first.
const PARTS: &[Part] = &[
    Part { name: "circles", measure: || count("circles"), by_name_only: false },
    Part { name: "files_for_a_reason", measure: || count("reasons"), by_name_only: false },
    Part { name: "xtask_seconds", measure: xtask_seconds, by_name_only: false },
    Part { name: "effects", measure: effects, by_name_only: false },
    Part { name: "release_cpu_minutes", measure: release_cpu_minutes, by_name_only: false },
    Part { name: "ci_bars", measure: ci_load::hold_bars, by_name_only: true },
    Part { name: "ci_load", measure: || ci_load::run(ci_load::RUNS), by_name_only: true },
];

/// Runs these parts, or all that do not take hours.
pub fn run(names: &[String]) -> anyhow::Result<()> {
    for part in chosen(names)? {
        eprintln!("{} …", part.name);
        (part.measure)().with_context(|| format!("part `{}` failed", part.name))?;
    }
    Ok(())
}

/// In the order of the table, however they were asked for.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Part>> {
    let all: Vec<_> = PARTS.iter().map(|part| part.name).collect();
    parts::check(names, &all)?;
    let is_named = |part: &Part| names.iter().any(|name| name == part.name);
    let is_wanted = |part: &&Part| if names.is_empty() { !part.by_name_only } else { is_named(part) };
    Ok(PARTS.iter().filter(is_wanted).collect())
}

/// The time from nothing until `cargo xtask` runs.
fn xtask_seconds() -> anyhow::Result<()> {
    let help = cargo(&["run", "--quiet", "--package", "xtask", "--", "--help"]);
    let cost = cold("xtask", help)?;
    let reference = format!("cold, {} s of processors, {} cores; bar: 30", cost.processor.as_secs(), cores());
    figures::print("house.xtask_seconds", cost.elapsed.as_secs_f64(), "s", &reference);
    Ok(())
}

/// The time from nothing until the services and the benchmarks are built with optimisation.
fn release_cpu_minutes() -> anyhow::Result<()> {
    let cost = cold("release", builds::measured())?;
    let elapsed = cost.elapsed.as_secs_f64() / 60.0;
    let reference = format!("cold, {elapsed:.1} minutes on {} cores; bar: 25", cores());
    let minutes = cost.processor.as_secs_f64() / 60.0;
    figures::print("house.release_cpu_minutes", minutes, "minutes", &reference);
    Ok(())
}

/// A tidy test that counts, and prints its figure.
fn count(tidy: &str) -> anyhow::Result<()> {
    let test = ["test", "--quiet", "--package", "xtask", "--test", tidy, "--", "--nocapture"];
    commands::run_and_keep_figures(&mut cargo(&test))
}

/// Effects, sent to a store in memory and to the real API server and read back, against the state that commit left.
fn effects() -> anyhow::Result<()> {
    let example = ["run", "--release", "--package", "effects-check", "--example", "effects_cases", "--"];
    commands::run_and_keep_figures(cargo(&example).args(["100000", "0", "none"]))?;
    commands::run_and_keep_figures(cargo(&example).args(["10000", "0", "each"]))?;
    measure("effects", &["--plans", "1000"])?;
    let printed = |id| figures::read(id).with_context(|| format!("figure {id} was not printed"));
    let mismatches =
        printed("house.effects_mismatches_in_memory")? + printed("house.effects_mismatches_real")?;
    let reference = "of 100,000 plans in memory and 1,000 on the real API server; bar: 0";
    figures::print("house.effects_mismatches", mismatches, "plans", reference);
    Ok(())
}

/// The cost of a build.
struct Cost {
    elapsed: Duration,
    /// User and system time of the command and of all that it started and waited for.
    processor: Duration,
}

/// Runs a build in a target folder of its own, which is empty before and gone afterwards.
fn cold(name: &str, mut build: Command) -> anyhow::Result<Cost> {
    let folder = target_folder().join("house").join(name);
    remove(&folder)?;
    let (began, used) = (Instant::now(), used_by_children()?);
    let result = commands::run(build.env("CARGO_TARGET_DIR", &folder).stdout(Stdio::null()));
    let cost = Cost { elapsed: began.elapsed(), processor: used_by_children()?.saturating_sub(used) };
    remove(&folder)?;
    result.map(|()| cost)
}

fn remove(folder: &PathBuf) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("failed to remove {}", folder.display()))?;
    }
    Ok(())
}

/// Processor time of every process below this one that has ended and was waited for.
fn used_by_children() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("failed to ask for the time of children")?;
    let microseconds = |time: TimeVal| u64::try_from(time.num_microseconds()).unwrap_or_default();
    Ok(Duration::from_micros(microseconds(usage.user_time()) + microseconds(usage.system_time())))
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::{chosen, cold};

    #[test]
    fn parts_are_chosen_by_name_or_all() {
        let names = |asked: &[&str]| -> Vec<_> {
            let asked: Vec<_> = asked.iter().map(ToString::to_string).collect();
            chosen(&asked).unwrap().iter().map(|part| part.name).collect()
        };
        assert!(names(&[]).contains(&"effects") && !names(&[]).contains(&"ci_load"), "hours only by name");
        assert_eq!(names(&["ci_load", "xtask_seconds"]), ["xtask_seconds", "ci_load"]);
        let error = chosen(&["efects".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("\"efects\"") && error.contains("effects"), "{error}");
    }

    #[test]
    fn the_processor_time_of_grandchildren_counts() {
        let mut bash = Command::new("bash");
        // A child of the child computes; waiting costs seconds and no processor time.
        bash.args([
            "-c",
            "mkdir -p $CARGO_TARGET_DIR; (for ((i = 0; i < 200000; i++)); do :; done); sleep 0.3",
        ]);
        let cost = cold("test", bash).unwrap();
        assert!(cost.processor > Duration::from_millis(50), "{:?}", cost.processor);
        assert!(cost.elapsed > Duration::from_millis(300), "{:?}", cost.elapsed);
    }
}
