//! Plans one piece of work once, or applies events of one kind, and says how long it took: what `cargo xtask bench
//! placement` runs, with and without callgrind.
//!
//! ```text
//! cargo run --release -p placement --example plan_work -- pods 10000 1 [wait]
//! ```
//!
//! With `wait` it prints `ready` before it begins, and waits for a line: counting can begin then.

#![allow(clippy::disallowed_methods, reason = "the clock is what this is for; the planner itself has none")]

#[path = "../benches/workloads/mod.rs"]
mod workloads;

use std::io::{self, Write};
use std::time::Instant;

use cluster_model::plan::Plan;
use cluster_model::{ClusterChange, ClusterState};
use workloads::events::{Event, events};
use workloads::{Work, Workload, workload};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("pods", String::as_str);
    let number =
        |place: usize, default| arguments.get(place).and_then(|it| it.parse().ok()).unwrap_or(default);
    let (nodes, shapes) = (number(1, 10_000), number(2, 1));
    let waits = arguments.get(3).is_some_and(|it| it == "wait");
    let done = if let Some(work) = Work::ALL.into_iter().find(|work| work.name() == name) {
        plan_once(workload(work, nodes, shapes), waits)
    } else if let Some(event) = Event::ALL.into_iter().find(|event| event.name() == name) {
        apply_all(events(event, nodes, shapes), waits)
    } else {
        eprintln!(
            "no such work: {name}\n\nhint: one of {:?}, {:?}",
            Work::ALL.map(Work::name),
            Event::ALL.map(Event::name)
        );
        std::process::exit(2);
    };
    println!("{name} nodes={nodes} shapes={shapes} {done} memory_mb={}", memory_mb());
}

fn plan_once(mut workload: Workload, waits: bool) -> String {
    wait_if(waits);
    let (began, busy) = (Instant::now(), on_core_seconds());
    let plan = planned_work(&mut workload);
    let (seconds, busy) = (began.elapsed().as_secs_f64(), on_core_seconds() - busy);
    let placed: usize = plan.placements.iter().map(|gang| gang.members.len()).sum();
    // A pod that is moved is held where it will go as well.
    let moved: usize = plan.evictions.iter().filter(|eviction| eviction.moves).count();
    let held: usize = plan.holds.iter().map(|hold| hold.members.len()).sum();
    format!(
        "pods={} seconds={seconds:.6} on_core={busy:.6} placed={} evicted={} waiting={}",
        workload.pods,
        placed + held - moved,
        plan.evictions.len(),
        plan.waiting.len()
    )
}

fn apply_all((mut state, changes): (ClusterState, Vec<ClusterChange>), waits: bool) -> String {
    let count = changes.len();
    wait_if(waits);
    let (began, busy) = (Instant::now(), on_core_seconds());
    applied_events(&mut state, changes);
    let (seconds, busy) = (began.elapsed().as_secs_f64(), on_core_seconds() - busy);
    format!("pods={count} seconds={seconds:.6} on_core={busy:.6} placed={count}")
}

/// By this name callgrind knows what to count.
#[inline(never)]
fn planned_work(workload: &mut Workload) -> Plan {
    placement::plan(&mut workload.state, &workload.policy, workload.now)
}

/// By this name too.
#[inline(never)]
fn applied_events(state: &mut ClusterState, changes: Vec<ClusterChange>) {
    for change in changes {
        state.apply(change);
    }
}

fn wait_if(waits: bool) {
    if waits {
        println!("ready");
        let _flushed = io::stdout().flush();
        let _read = io::stdin().read_line(&mut String::new());
    }
}

/// Time that this process had a core, on Linux: on a machine that others use too, that is what it costs.
fn on_core_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// The most memory that this process had, on Linux.
fn memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) / 1024
}
