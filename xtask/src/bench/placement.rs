//! `cargo xtask bench placement`: how long plans take, how their cost grows, and whether the judge agrees.
//!
//! ```text
//!   times    the example `plan_work`, alone on the machine        seconds, memory
//!   counts   the same under callgrind, as many at once as cores   instructions, independent of other load
//!   judge    random cases meanwhile; then fairness, the oracle    figures of their own
//! ```
//!
//! Progress goes to stderr. `judge.seeded_bugs_caught` comes from `cargo xtask bugs`, which builds the planner
//! once for each bug.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::ensure;
use toolbox::checkout::target_folder;
use toolbox::figures;

use super::placement_work::{Counted, Done, Piece, count, plan};
use crate::commands::{self, cargo};
use crate::packages;

const SIZES: [usize; 4] = [100, 1_000, 10_000, 100_000];

/// The size at which seconds are figures.
const TIMED_NODES: usize = 10_000;

/// Unless asked for, instructions of reclaim are counted up to this size: ten times larger, 800,000 pods run and 40,000
/// claim, which takes callgrind as long as all the rest.
const RECLAIM_COUNTED_MAX: usize = 10_000;

/// A figure in seconds is the fastest of this many runs: other load can only make a run slower.
const TIMED_RUNS: usize = 5;

/// The measured work, and how its cost may grow; see `crates/decisions/placement/benches/workloads`.
const WORK: [(&str, Growth); 10] = [
    ("pods", Growth::Identical),
    ("gang", Growth::Identical),
    ("mixed", Growth::Mixed),
    ("impossible", Growth::Verdict),
    ("reclaim", Growth::Identical),
    ("consolidation", Growth::Identical),
    ("pod-arrives", Growth::Event),
    ("pod-is-bound", Growth::Event),
    ("pod-ends", Growth::Event),
    ("node-changes", Growth::Event),
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Growth {
    /// Per pod, all pods alike.
    Identical,
    /// Per pod, pods that differ.
    Mixed,
    /// Of the whole plan: there is one verdict, however many nodes there are.
    Verdict,
    /// Per event that the state takes in.
    Event,
}

impl Growth {
    const ALL: [Self; 4] = [Self::Identical, Self::Mixed, Self::Verdict, Self::Event];

    fn figure(self) -> (&'static str, &'static str) {
        match self {
            Self::Identical => ("plan.growth.identical_max", "per pod; bar: 1.5"),
            Self::Mixed => ("plan.growth.mixed_max", "per pod; bar: 2"),
            Self::Verdict => ("plan.growth.impossible_max", "the verdict; bar: 2"),
            Self::Event => ("plan.growth.event_max", "per event; O(log n) would be 1.5, 1.3, 1.25"),
        }
    }
}

pub fn run(nodes_max: usize, counted_max: Option<usize>) -> anyhow::Result<()> {
    packages::install()?;
    commands::run(&mut cargo(&["build", "--release", "-p", "placement", "--examples"]))?;
    step("seconds", || times(nodes_max))?;
    // Instruction counts do not depend on other load.
    thread::scope(|scope| {
        let judge = scope.spawn(|| {
            let cases = target_folder().join("release/examples/judge_cases");
            step("judge", || commands::run_and_keep_figures(&mut Command::new(cases)))
        });
        step("instructions", || growth(nodes_max, counted_max))?;
        judge.join().expect("it does not panic")
    })?;
    for tests in ["fairness", "oracle"] {
        let arguments = ["test", "--release", "-p", "placement", "--test", "it", tests, "--", "--nocapture"];
        step(tests, || commands::run_and_keep_figures(&mut cargo(&arguments)))?;
    }
    Ok(())
}

fn step(name: &str, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    eprintln!("{name} …");
    let began = Instant::now();
    work()?;
    eprintln!("{name}: done in {} s", began.elapsed().as_secs());
    Ok(())
}

fn times(nodes_max: usize) -> anyhow::Result<()> {
    for nodes in SIZES.into_iter().filter(|nodes| *nodes <= nodes_max) {
        for (work, growth) in WORK {
            for shapes in shapes(growth, nodes) {
                let piece = Piece { nodes, work, shapes };
                let fastest = timed(piece)?;
                ensure!(is_done(growth, &fastest), "the work was not done: {}", fastest.line);
                println!("{}", fastest.line);
                if nodes == TIMED_NODES && shapes == 1 {
                    print_time(work, &fastest);
                }
            }
        }
    }
    Ok(())
}

/// The fastest of several runs where the time is a figure; else one run.
fn timed(piece: Piece) -> anyhow::Result<Done> {
    let runs = if piece.nodes == TIMED_NODES { TIMED_RUNS } else { 1 };
    let mut fastest = plan(piece)?;
    for _ in 1..runs {
        let again = plan(piece)?;
        if again.seconds < fastest.seconds {
            fastest = again;
        }
    }
    Ok(fastest)
}

/// Checks that the plan did the work: all pods are placed, except the impossible gang, which waits.
fn is_done(growth: Growth, done: &Done) -> bool {
    let wanted = if growth == Growth::Verdict { 0.0 } else { done.pods };
    (done.placed - wanted).abs() < 0.5
}

fn print_time(work: &str, done: &Done) {
    let (id, value, unit, bar) = match work {
        "pods" => ("plan.pods10k.n10k_seconds", done.seconds, "s", "10,000 one-GPU pods; bar: 0.2"),
        "gang" => ("plan.gang10k.n10k_seconds", done.seconds, "s", "one gang of 10,000; bar: 0.1"),
        "impossible" => ("plan.impossible.n10k_ms", done.seconds * 1e3, "ms", "verdict; bar: 10"),
        "reclaim" => ("plan.reclaim4k.n10k_seconds", done.seconds, "s", "4,000 GPUs, cluster full; bar: 1"),
        _ => return,
    };
    let on_core = done.on_core_seconds * if unit == "ms" { 1e3 } else { 1.0 };
    figures::print(id, value, unit, &format!("{bar}; {on_core:.3} {unit} on the core"));
}

/// The cost of each kind of work from one size to the next tenfold one.
fn growth(nodes_max: usize, counted_max: Option<usize>) -> anyhow::Result<()> {
    let nodes_max = counted_max.unwrap_or(nodes_max);
    let reclaim_max = counted_max.unwrap_or(RECLAIM_COUNTED_MAX);
    let mut pieces = Vec::new();
    for (work, growth) in WORK {
        let nodes_max = if work == "reclaim" { reclaim_max.min(nodes_max) } else { nodes_max };
        for nodes in SIZES.into_iter().filter(|nodes| *nodes <= nodes_max) {
            pieces.extend(shapes(growth, nodes).map(|shapes| Piece { nodes, work, shapes }));
        }
    }
    let counted = count(pieces)?;
    let mut worst: BTreeMap<Growth, f64> = BTreeMap::new();
    for (work, growth) in WORK {
        for shapes in [1, 200] {
            let mut before: Option<f64> = None;
            for nodes in SIZES {
                let Some(done) = counted.get(&Piece { nodes, work, shapes }) else { continue };
                let cost = cost(growth, done);
                let grown = before.map(|before| cost / before);
                print_cost(Piece { nodes, work, shapes }, cost, grown);
                let entry = worst.entry(growth).or_default();
                *entry = entry.max(grown.unwrap_or(0.0));
                before = Some(cost);
            }
        }
    }
    for growth in Growth::ALL {
        let (id, bar) = growth.figure();
        let reference =
            format!("instructions from one size to the next tenfold, to {nodes_max} nodes, {bar}");
        figures::print(id, worst.get(&growth).copied().unwrap_or(0.0), "times", &reference);
    }
    Ok(())
}

fn cost(growth: Growth, done: &Counted) -> f64 {
    if growth == Growth::Verdict { done.instructions } else { done.instructions / done.pods }
}

fn print_cost(Piece { nodes, work, shapes }: Piece, cost: f64, grown: Option<f64>) {
    let times = grown.map(|grown| format!(", {grown:.2} times the size before")).unwrap_or_default();
    println!("{work} nodes={nodes} shapes={shapes}: {cost:.0} instructions{times}");
}

/// From 1,000 nodes on also with different nodes; an event concerns only its own node.
fn shapes(growth: Growth, nodes: usize) -> impl Iterator<Item = usize> {
    let differ = nodes >= 1_000 && growth != Growth::Event;
    [1, 200].into_iter().filter(move |shapes| *shapes == 1 || differ)
}
