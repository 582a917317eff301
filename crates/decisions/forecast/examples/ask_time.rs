//! What one question costs, at the sizes that we support: the copy of the state and its end (which the planning
//! thread pays), the snapshot as text, and the forecast and the what-ifs (which a thread of its own pays).
//!
//! ```text
//! cargo run --release -p forecast --example ask_time [NODES] [PODS]
//! ```
//!
//! Times are processor time if the system reports it, because other processes may run on the machine.

#![allow(clippy::disallowed_methods, reason = "the clock is what this is for; the crate itself has none")]

use std::time::{Duration, Instant};

use cluster_model::{ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Queue, Resources};
use forecast::{Arrivals, Calibration, Draws, Known};
use jiff::Timestamp;
use placement::Policy;

/// Seconds since 1970 at which everything is asked.
const NOW: i64 = 1_000_000;
/// Gangs that wait, of two members with 8 GPUs each.
const WAITING: usize = 500;

fn main() {
    let mut asked = std::env::args().skip(1).filter_map(|number| number.parse().ok());
    let (nodes, pods) = (asked.next().unwrap_or(10_000), asked.next().unwrap_or(100_000));
    let (mut state, built) = timed(|| cluster(nodes, pods));
    let (copy, copied) = timed(|| state.clone());
    let ((), dropped) = timed(|| drop(copy));
    let (text, written) = timed(|| serde_json::to_vec(&state.save()).expect("it can be written"));
    let policy = Policy::default();
    let now = at(NOW);
    let (plan, planned) = timed(|| placement::plan(&mut state, &policy, now));
    let gang = GangKey::new("team", "waits-7");
    let (arrivals, calibration) = (Arrivals::default(), Calibration::default());
    let known = Known { arrivals: &arrivals, calibration: &calibration, coming: &[] };
    let (range, foreseen) = timed(|| forecast::eta(&state, &policy, now, &gang, known, Draws::default()));
    let (offers, tried) = timed(|| forecast::changes(&state, &policy, now, &gang));
    println!(
        "{nodes} nodes, {} pods, {} gangs wait (built in {built:.2} s)\n\
         plan       {planned:.3} s\n\
         copy       {copied:.3} s, at most every 3 s and once for each question, on the planning thread\n\
         drop       {dropped:.3} s, on another thread\n\
         snapshot   {written:.3} s, {} MB\n\
         forecast   {foreseen:.3} s: {:?}\n\
         what-ifs   {tried:.3} s: {} offers",
        state.pods().count(),
        plan.waiting.len(),
        text.len() / 1_000_000,
        range.map(|(range, _)| range),
        offers.len(),
    );
}

/// Full nodes, with many small pods on others, and gangs that wait.
fn cluster(nodes: usize, pods: usize) -> ClusterState {
    let mut state = ClusterState::default();
    state.advance(at(NOW));
    state.apply(ClusterChange::Queue(Queue { namespaces: ["team".into()].into(), ..Queue::new("queue") }));
    for number in 0..nodes {
        state.apply(ClusterChange::Node(Node {
            gpu_type: Some("H100".into()),
            allocatable: Resources { gpus: 8, cpu_millis: 192_000, memory_bytes: 2 << 40, pods: 250 },
            topology: vec![format!("zone-{}", number / 1_000).into(), format!("rack-{}", number / 8).into()],
            ..Node::new(format!("node-{number:05}"))
        }));
    }
    for number in 0..pods {
        let started = at(NOW - 60 * i64::try_from(number % 1_000).unwrap_or(0));
        let gpus = i64::from(number < nodes * 7);
        state.apply(ClusterChange::Pod(Pod {
            node: Some(format!("node-{:05}", number % nodes).into()),
            started: Some(started),
            created: started,
            ..pod(&format!("runs-{number}"), 0, 1, gpus)
        }));
    }
    for number in 0..WAITING {
        let name = format!("waits-{number}");
        (0..2).for_each(|index| state.apply(ClusterChange::Pod(pod(&name, index, 2, 8))));
    }
    state
}

fn pod(gang: &str, index: u32, size: u32, gpus: i64) -> Pod {
    Pod {
        gang_size: Some(size),
        member_index: Some(index),
        created: at(NOW - 600),
        requests: Resources { gpus, cpu_millis: 4_000, memory_bytes: 16 << 30, pods: 1 },
        ..Pod::new(PodKey::new("team", format!("{gang}-{index}"), "uid"), GangKey::new("team", gang))
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let (start, used) = (Instant::now(), processor_nanoseconds());
    let made = work();
    let took = match (used, processor_nanoseconds()) {
        (Some(start), Some(end)) => Duration::from_nanos(end - start),
        _ => start.elapsed(),
    };
    (made, took.as_secs_f64())
}

/// What this thread has used so far, if the system tells.
fn processor_nanoseconds() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}
