//! Which gangs give way by expected work.

use cluster_model::plan::{EvictionRule, Plan};
use cluster_model::policy::{EvictionPolicy, Outruns, Policy};
use cluster_model::{ClusterChange, ClusterState, EvictionTerms, Pod, Terms};
use plan_check::{Violation, check_plan};

use crate::build::{NOW, at, cluster, evict, gang, hold, name, node, on, plan, queue, with, with_terms};

const OUTRUNS: Outruns =
    Outruns { after_seconds: 60, times: 4, ran_seconds_min: 1_800, waited_seconds_max: 5_000 };

fn saving() -> Terms {
    Terms { eviction: EvictionTerms { never: false, checkpoints: true }, ..Terms::default() }
}

/// Runs since the beginning with 8 GPUs.
fn long() -> Vec<Pod> {
    with_terms(on(gang("r", 1, 8), "a"), saving())
}

/// Wants 8 GPUs for a quarter of that at most.
fn short() -> Vec<Pod> {
    let terms = Terms { time_limit_seconds: Some(2_500), ..Terms::default() };
    with(with_terms(gang("g", 1, 8), terms), |pod| pod.created = at(NOW - 60))
}

fn state(pods: &[Vec<Pod>; 2]) -> ClusterState {
    cluster([node("a", "x", "1")], pods.concat())
}

fn found(state: &ClusterState, policy: &Policy) -> Vec<Violation> {
    let lost: i64 = state
        .pods()
        .filter_map(|(_, pod)| {
            let saved = pod.pod().checkpointed.or(pod.pod().started)?;
            Some((NOW - saved.as_second()) * pod.pod().requests.gpus)
        })
        .sum();
    let lost = u64::try_from(lost).expect("not negative");
    let evictions = vec![evict("r", "g", EvictionRule::ExpectedWork, lost)];
    let holds = vec![hold("g", &["a"])];
    check_plan(state, &Plan { evictions, holds, ..plan(state) }, policy)
}

fn policy() -> Policy {
    let eviction = EvictionPolicy { by_expected_work: true, outruns: OUTRUNS, ..EvictionPolicy::default() };
    Policy { explain: false, eviction, ..Policy::default() }
}

#[test]
fn who_runs_for_much_longer_gives_way_and_nobody_else() {
    let wrong = |what| vec![Violation::NotTheRule { gang: name("r"), what }];
    assert_eq!(found(&state(&[short(), long()]), &policy()), []);
    let off = Policy { eviction: EvictionPolicy::default(), ..policy() };
    assert_eq!(found(&state(&[short(), long()]), &off), wrong("the policy evicts none by expected work"));

    let eager = with(short(), |pod| pod.created = at(NOW - 59));
    let waits = wrong("the claimant has not waited for long enough");
    assert_eq!(found(&state(&[eager, long()]), &policy()), waits);
    let lossy = with_terms(long(), Terms::default());
    assert_eq!(found(&state(&[short(), lossy]), &policy()), wrong("it does not save its state"));
    let higher = with(long(), |pod| pod.priority = 1);
    assert_eq!(found(&state(&[short(), higher]), &policy()), wrong("it is of a higher priority"));
    let waited = with(long(), |pod| pod.created = at(-5_001));
    assert_eq!(found(&state(&[short(), waited]), &policy()), wrong("it waited for too long before"));
    let recent = with(long(), |pod| {
        (pod.created, pod.started) = (at(NOW - 1_799), Some(at(NOW - 1_799)));
    });
    let begun = found(&state(&[short(), recent]), &policy());
    assert!(begun.contains(&wrong("it has not run for long enough")[0]), "{begun:?}");
}

/// Nothing ended yet: a gang with 8 GPUs is expected to run for four hours, and its run so far is added to that.
#[test]
fn time_and_work_are_compared_by_what_history_expects() {
    let wrong = |what| Violation::NotTheRule { gang: name("r"), what };
    let limited = |seconds: u32, gpus: i64| {
        let terms = Terms { time_limit_seconds: Some(seconds), ..Terms::default() };
        with(with_terms(gang("g", 1, gpus), terms), |pod| pod.created = at(NOW - 60))
    };
    let expected = |state: &ClusterState| state.history().expected_seconds(&"team".into(), 8, at(NOW));
    let quarter = u32::try_from(expected(&state(&[short(), long()])) / 4).expect("in range");
    assert!(quarter > 2_500, "more than it ran: {quarter}");
    assert_eq!(found(&state(&[limited(quarter, 8), long()]), &policy()), []);
    let longer = found(&state(&[limited(quarter + 1, 8), long()]), &policy());
    assert!(longer.contains(&wrong("it is not expected to run for so much longer")), "{longer:?}");

    let small = with(long(), |pod| pod.requests.gpus = 2);
    let little = found(&state(&[limited(2_500, 8), small]), &policy());
    assert_eq!(little, [wrong("it is not expected to use so much more")]);
}

#[test]
fn what_the_queue_owns_stays_with_it() {
    let mut state = state(&[short(), long()]);
    state.apply(ClusterChange::Queue(queue("a", 0, 8)));
    assert_eq!(found(&state, &policy()), [], "all of it is borrowed");
    state.apply(ClusterChange::Queue(queue("a", 1, 8)));
    let below = [Violation::BelowQuota { gang: name("r"), queue: "a".into() }];
    assert_eq!(found(&state, &policy()), below, "also within one queue");
}
