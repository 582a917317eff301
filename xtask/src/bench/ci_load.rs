//! Checks that CI fails only for faults. `cargo xtask bench house ci_load` repeats every end-to-end test that
//! asserts a time, while threads of this process take half of every core; it needs root.
//! `cargo xtask bench house ci_bars` runs the same tests once with the real bars, on a quiet machine.
//!
//! `crates/testing/e2e/src/bounds.rs` defines bars and CI's allowances.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use toolbox::figures;

use crate::{commands, e2e};

/// The default number of runs of all tests.
pub const RUNS: usize = 20;

/// Tests with a bar, then tests that once had another bound of ten seconds or less. Names of modules and tests,
/// as the test runner prints them.
const TESTS: &[&str] = &[
    "attempts::a_notice_tells_all_members_at_once_and_the_run_goes_on_elsewhere",
    "cluster::a_warm_cluster_is_ready_in_time",
    "cost::a_database_that_is_away_takes_the_cost_with_it_and_nothing_else",
    "events::events_end_with_the_right_to_see_them",
    "faults::nodes_that_come_back_or_shrink_are_given_nothing_that_is_taken",
    "machines_bill::machines_are_billed_from_launch_to_end_at_the_price_paid_and_their_start_to_the_run",
    "node_agent::a_spot_notice_taints_the_node_in_time_and_goes_when_it_is_withdrawn",
    "portal_security::a_gibibyte_is_refused_within_bounds_of_memory_and_time",
    "real_nodes::pods_on_two_real_nodes_find_each_other_and_nothing_is_left_of_them",
    "starting::a_run_whose_image_is_not_there_fails_soon_with_the_registrys_words",
    "training::a_training_survives_notices_and_a_kill_and_ends_with_the_same_bits",
    "cluster::a_parent_killed_with_sigkill_leaves_no_server_behind",
    "cluster::fake_pods_end_as_under_a_kubelet",
    "cost::the_bill_is_the_ledgers_moves_with_what_runs_and_shows_nobody_more_than_they_may_see",
    "faults::an_api_server_that_takes_a_second_for_every_request_costs_no_lease",
    "faults_judged::the_proxy_loses_what_it_says_and_the_judge_sees_what_happens_around_an_absent_api_server",
    "karpenter::launches_meet_the_faults_that_the_cloud_was_told",
    "karpenter::machines_leave_with_notice_or_without_and_outlive_karpenters_process",
    "machines::away::without_karpenter_waiting_runs_say_so_others_start_and_it_goes_on_when_it_is_back",
    "machines::idle::demand_that_comes_and_goes_is_bought_for_once_and_idle_machines_go_but_for_spares",
    "preempt::a_gang_that_borrows_gives_way_for_the_owner_and_starts_again_when_there_is_room",
    "real_nodes::a_real_node_that_loses_its_power_is_noticed_and_comes_back",
    "real_nodes::clusters::a_parent_killed_with_sigkill_takes_its_real_node_along",
];

/// Of every core.
const SHARE: f64 = 0.5;
/// The load takes its share of each window; within it the threads give way and catch up.
const WINDOW: Duration = Duration::from_secs(1);
/// How long a thread spins or sleeps at a time: some slices of the kernel's scheduler.
const PIECE: Duration = Duration::from_millis(10);
/// Its first number is the processor time of the thread that reads it, in nanoseconds.
const USED: &str = "/proc/thread-self/schedstat";
/// Longer than any run: the load ends then in any case.
const LOAD_MAX: Duration = Duration::from_hours(1);

/// Runs the tests `runs` times under load, and counts the runs with a failure.
pub fn run(runs: usize) -> anyhow::Result<()> {
    let args = e2e::E2eArgs::any_of(TESTS);
    e2e::build(&args)?;
    // If there can be no load, nothing is measured.
    drop(Load::start()?);
    let mut smallest: f64 = 1.0;
    let failures = count_failures(runs, || {
        let load = Load::start()?;
        let tested = run_tests(&mut e2e::test(&args));
        let share = load.stop();
        smallest = smallest.min(share);
        println!("the load took {:.0} % of every core", share * 100.0);
        tested
    });
    let reference = format!(
        "of {runs} runs of {} tests, under a load of at least {:.0} % of every core; bar: 0",
        TESTS.len(),
        smallest * 100.0
    );
    figures::print("ci.failures_under_load", figures::count(failures), "runs", &reference);
    ensure!(failures == 0, "{failures} of {runs} runs failed under load");
    Ok(())
}

/// Runs the tests once, with the bars that people may count on.
pub fn hold_bars() -> anyhow::Result<()> {
    let args = e2e::E2eArgs::any_of(TESTS);
    e2e::build(&args)?;
    let missed = count_failures(1, || run_tests(e2e::test(&args).env("WARPYARD_BARS", "real")));
    let reference = format!("one run of {} tests with the real bars; bar: 0", TESTS.len());
    figures::print("ci.bars_missed", figures::count(missed), "runs", &reference);
    ensure!(missed == 0, "the run with the real bars failed");
    Ok(())
}

/// Counts the runs that fail, and says why each did.
fn count_failures(runs: usize, mut run_one: impl FnMut() -> anyhow::Result<()>) -> usize {
    let mut failures = 0;
    for run in 1..=runs {
        println!("── run {run} of {runs} ──");
        if let Err(error) = run_one() {
            failures += 1;
            eprintln!("run {run} failed: {error:#}");
        }
        println!("{failures} of {run} runs failed so far");
    }
    failures
}

fn run_tests(command: &mut Command) -> anyhow::Result<()> {
    let passed = commands::run_and_count_tests(command)?;
    // A name in `TESTS` may select further tests, whose names contain it.
    ensure!(passed >= TESTS.len(), "only {passed} tests passed, of at least {}", TESTS.len());
    Ok(())
}

/// A thread for each core, which takes a share of it. They end with this value, and with this process.
struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<f64>>,
}

impl Load {
    fn start() -> anyhow::Result<Self> {
        // Without it the threads would never rest.
        fs::metadata(USED).with_context(|| format!("this kernel has no {USED}"))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut load = Self { is_over: Arc::clone(&is_over), threads: Vec::new() };
        for core in 0..thread::available_parallelism()?.get() {
            let is_over = Arc::clone(&is_over);
            let (say, said) = mpsc::channel();
            let thread = thread::Builder::new().name(format!("load-{core}"));
            load.threads.push(thread.spawn(move || {
                let _ = say.send(fs::read_link("/proc/thread-self"));
                take_a_share(&is_over)
            })?);
            go_before_others(&said.recv()??)?;
        }
        Ok(load)
    }

    /// Ends the load, and returns the share of every core that it really took, on average.
    fn stop(mut self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        let count = figures::count(threads.len());
        threads.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum::<f64>() / count
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Raises the priority of a thread, `PID/task/TID`: as one among many busy ones it would get far less than half a core.
fn go_before_others(thread: &Path) -> anyhow::Result<()> {
    let number = thread.file_name().context("a thread has a number")?;
    commands::run(Command::new("renice").args(["-n", "-15", "-p"]).arg(number).stdout(Stdio::null()))
        .context("the load needs root, as the tests of real nodes do")
}

/// Spins until it has had its share of the window so far, and sleeps otherwise. Returns its share of the whole time.
fn take_a_share(is_over: &AtomicBool) -> f64 {
    let (began, used_before) = (Instant::now(), used());
    let (mut window, mut used_in_window) = (began, used_before);
    while !is_over.load(Ordering::Relaxed) && began.elapsed() < LOAD_MAX {
        if window.elapsed() >= WINDOW {
            // Missed time is not made up for: otherwise it would take more than half of the next window.
            (window, used_in_window) = (Instant::now(), used());
        }
        if used().saturating_sub(used_in_window) < window.elapsed().mul_f64(SHARE) {
            let piece = Instant::now();
            while piece.elapsed() < PIECE {
                std::hint::spin_loop();
            }
        } else {
            thread::park_timeout(PIECE);
        }
    }
    used().saturating_sub(used_before).as_secs_f64() / began.elapsed().as_secs_f64().max(f64::MIN_POSITIVE)
}

/// The processor time of this thread.
fn used() -> Duration {
    let text = fs::read_to_string(USED).unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    Duration::from_nanos(nanoseconds)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use anyhow::{bail, ensure};

    use super::{TESTS, count_failures, run_tests, take_a_share};
    use toolbox::checkout::repository_root;

    fn folder() -> PathBuf {
        repository_root().join("crates/testing/e2e/tests/e2e")
    }

    #[test]
    fn every_run_that_fails_is_counted() {
        assert_eq!(count_failures(3, || bail!("a test failed")), 3);
        assert_eq!(count_failures(3, || Ok(())), 0);
        let mut runs = 0;
        let failures = count_failures(5, || {
            runs += 1;
            ensure!(runs % 2 == 0, "run {runs} is odd");
            Ok(())
        });
        assert_eq!((runs, failures), (5, 3));
    }

    #[test]
    fn a_run_in_which_too_few_tests_pass_fails() {
        let passes = |tests: usize| {
            let result = format!("test result: ok. {tests} passed; 0 failed; 0 ignored");
            run_tests(Command::new("echo").arg(result)).is_ok()
        };
        assert!(passes(TESTS.len()) && passes(TESTS.len() + 1));
        assert!(!passes(TESTS.len() - 1) && !passes(0));
        assert!(run_tests(&mut Command::new("true")).is_err(), "no test ran");
    }

    #[test]
    fn every_test_that_is_named_exists() {
        for test in TESTS {
            let (module, name) = test.rsplit_once("::").unwrap();
            let path = folder().join(format!("{}.rs", module.replace("::", "/")));
            let source = fs::read_to_string(&path).unwrap();
            assert!(source.contains(&format!("fn {name}(")), "{} has no {name}", path.display());
        }
    }

    #[test]
    fn every_file_that_asserts_a_time_has_a_test_here() {
        let named = |path: &Path| {
            let module = path.with_extension("").strip_prefix(folder()).unwrap().display().to_string();
            let module = format!("{}::", module.replace('/', "::"));
            TESTS.iter().any(|test| test.starts_with(&module))
        };
        let mut folders = vec![folder()];
        let mut found = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if fs::read_to_string(&path).unwrap().contains("bounds::") {
                    found += 1;
                    assert!(named(&path), "{} asserts a time, and is not run under load", path.display());
                }
            }
        }
        assert!(found > 0, "no file asserts a time");
    }

    #[test]
    fn a_thread_of_the_load_takes_half_at_most_and_ends() {
        let is_over = AtomicBool::new(false);
        let share = thread::scope(|scope| {
            let load = scope.spawn(|| take_a_share(&is_over));
            thread::park_timeout(Duration::from_millis(300));
            is_over.store(true, Ordering::Relaxed);
            load.join().unwrap()
        });
        // Less if other tests run at the same time, and the kernel counts in ticks.
        assert!(share > 0.0 && share < 0.7, "{share}");
    }
}
