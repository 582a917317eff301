//! A gang that is expected to end soon takes from one that will run for long yet, saves its state, and runs on what
//! its queue borrows.

use cluster_model::{ClusterChange, ClusterState, Pod, Terms};
use placement::{EvictionPolicy, Plan, Policy};
use plan_check::check_plan;

use crate::build::{add, cluster, cpu_node, each, gang, node, queue};
use crate::evict::{at, evictions, in_queue, planned_at, running, saving, with_priority, with_terms};

const NOW: i64 = 100_000;

fn policy() -> Policy {
    let eviction = EvictionPolicy { by_expected_work: true, ..EvictionPolicy::default() };
    Policy { eviction, ..Policy::default() }
}

fn judged(state: &mut ClusterState) -> Plan {
    let plan = planned_at(state, &policy(), NOW);
    assert_eq!(check_plan(state, &plan, &policy()), []);
    plan
}

/// Wants this many GPUs for at most this long, and has waited for this long.
fn short(gpus: i64, limit_seconds: u32, waited_seconds: i64) -> Vec<Pod> {
    let terms = Terms { time_limit_seconds: Some(limit_seconds), ..Terms::default() };
    let pods = with_terms(gang("short", 1, gpus), &terms);
    each(pods, |pod| pod.created = at(NOW - waited_seconds))
}

/// Runs with 8 GPUs on node n for this long.
fn long(ran_seconds: i64) -> Vec<Pod> {
    let pods = with_terms(running(gang("long", 1, 8), &["n"], NOW - ran_seconds), &saving());
    each(pods, |pod| pod.created = at(NOW - ran_seconds))
}

fn outcome(short: Vec<Pod>, long: Vec<Pod>) -> usize {
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, long);
    add(&mut state, short);
    judged(&mut state).evictions.len()
}

#[test]
fn who_is_through_soon_takes_from_who_will_run_for_long_yet() {
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, long(40_000));
    add(&mut state, short(8, 10_000, 60));
    assert_eq!(evictions(&judged(&mut state)), ["long for short by ExpectedWork, lost 320000"]);
}

#[test]
fn every_condition_counts() {
    assert_eq!(outcome(short(8, 10_000, 60), long(40_000)), 1);
    assert_eq!(outcome(short(8, 10_000, 59), long(40_000)), 0, "most room comes by itself");
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, long(40_000));
    let expected_seconds = state.history().expected_seconds(&"team".into(), 8, at(NOW));
    let quarter = u32::try_from(expected_seconds / 4).expect("in range");
    assert_eq!(outcome(short(8, quarter, 60), long(40_000)), 1);
    assert_eq!(outcome(short(8, quarter + 1, 60), long(40_000)), 0, "not four times as long");
    assert_eq!(outcome(short(8, 100, 60), long(1_799)), 0, "it has just begun");
    let lossy = with_terms(long(40_000), &Terms::default());
    assert_eq!(outcome(short(8, 10_000, 60), lossy), 0, "it would lose everything");
    assert_eq!(outcome(short(8, 10_000, 60), with_priority(long(40_000), 1)), 0, "it is of higher priority");
    let waited = |seconds: i64| each(long(40_000), |pod| pod.created = at(NOW - 40_000 - seconds));
    assert_eq!(outcome(short(8, 10_000, 60), waited(40_000)), 1);
    assert_eq!(outcome(short(8, 10_000, 60), waited(40_001)), 0, "it waited for longer than it ran");
    let small = each(long(90_000), |pod| pod.requests.gpus = 1);
    assert_eq!(outcome(short(8, 10_000, 60), small), 0, "longer, but not four times the work");
}

#[test]
fn who_waited_for_a_day_does_not_give_way() {
    for (waited_seconds, given) in [(86_400, 1), (86_401, 0)] {
        let mut state = cluster([node("n", "H100", 8)]);
        let pods = with_terms(running(gang("long", 1, 8), &["n"], 0), &saving());
        add(&mut state, each(pods, |pod| pod.created = at(-waited_seconds)));
        add(&mut state, short(8, 10_000, 60));
        assert_eq!(judged(&mut state).evictions.len(), given, "{waited_seconds}");
    }
}

#[test]
fn what_a_queue_owns_is_not_taken_from_those_that_run_on_it() {
    for (owned, given) in [(0, 1), (1, 0), (8, 0)] {
        let mut state = cluster([node("n", "H100", 8)]);
        state.apply(ClusterChange::Queue(queue("owner", None, &[("H100", owned)])));
        add(&mut state, in_queue(long(40_000), "owner"));
        add(&mut state, short(8, 10_000, 60));
        assert_eq!(judged(&mut state).evictions.len(), given, "the queue owns {owned}");
    }
}

#[test]
fn cpu_is_not_taken_from_who_runs_on_gpus_of_its_own() {
    let mut state = cluster([cpu_node("m", 0), node("n", "H100", 8)]);
    state.apply(ClusterChange::Queue(queue("owner", None, &[("H100", 8)])));
    let wants_cpu = each(short(0, 10_000, 60), |pod| pod.requests.cpu_millis = 64_000);
    add(&mut state, in_queue(long(40_000), "owner"));
    add(&mut state, wants_cpu);
    assert_eq!(evictions(&judged(&mut state)), [""; 0]);
}
