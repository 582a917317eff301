use cluster_model::{ClusterState, GangKey, Pod, Taint, TaintEffect, Terms};
use forecast::{Arrivals, Calibration, Coming, Draws, Known, Range, eta};
use placement::Policy;

use crate::build::{NOW, at, cluster, each, gang, key, node, running};

fn of(state: &ClusterState, name: &str, arrivals: &Arrivals, seed: u64) -> Option<Range> {
    with_coming(state, name, arrivals, &[], seed)
}

fn with_coming(
    state: &ClusterState,
    name: &str,
    arrivals: &Arrivals,
    coming: &[Coming],
    seed: u64,
) -> Option<Range> {
    let calibration = Calibration::default();
    let draws = Draws { seed, ..Draws::default() };
    let known = Known { arrivals, calibration: &calibration, coming };
    let found = eta(state, &Policy::default(), at(NOW), &key(name), known, draws);
    found.map(|(range, _)| range)
}

fn limited(pods: Vec<Pod>, seconds: u32) -> Vec<Pod> {
    each(pods, |pod| {
        pod.terms = Terms { time_limit_seconds: Some(seconds), ..Terms::default() }.into();
    })
}

#[test]
fn nobody_waits_longer_than_the_time_limit_of_who_is_in_the_way() {
    let runs = limited(running("runs", 8, 100, "n0"), 400);
    let state = cluster([node("n0", "A100", 8)], vec![runs, gang("waits", 1, 8, 10)]);
    for seed in 0..20 {
        let range = of(&state, "waits", &Arrivals::default(), seed).expect("it waits");
        // Without earlier forecasts the late end is half as long again, as is the minute around it.
        assert!(range.p50_seconds <= 300 && range.p90_seconds <= 480, "seed {seed}: {range:?}");
        assert!(range.p50_seconds <= range.p90_seconds, "seed {seed}: {range:?}");
    }
}

#[test]
fn a_start_beyond_the_horizon_is_not_foreseen() {
    let state = cluster([node("n0", "A100", 8)], vec![gang("fits", 1, 8, 10), gang("never", 1, 9, 10)]);
    let (arrivals, calibration) = (Arrivals::default(), Calibration::default());
    let not_within = |name: &str| {
        let known = Known { arrivals: &arrivals, calibration: &calibration, coming: &[] };
        let found = eta(&state, &Policy::default(), at(NOW), &key(name), known, Draws::default());
        found.expect("it waits").1.not_within_seconds()
    };
    assert_eq!(not_within("fits"), None);
    assert!(not_within("never").is_some_and(|seconds| seconds > 3_600));
}

#[test]
fn the_same_seed_gives_the_same_range_and_the_state_is_left_alone() {
    let state = cluster(
        [node("n0", "A100", 8), node("n1", "A100", 8)],
        vec![running("one", 8, 5_000, "n0"), running("two", 8, 50, "n1"), gang("waits", 2, 8, 10)],
    );
    let before = state.dump();
    let ranges: Vec<_> = [7, 7, 8].map(|seed| of(&state, "waits", &Arrivals::default(), seed)).into();
    assert_eq!(ranges[0], ranges[1]);
    assert_ne!(ranges[0], ranges[2], "another seed draws other futures");
    assert_eq!(state.dump(), before);
}

#[test]
fn who_starts_with_the_next_plan_waits_for_nothing_and_who_runs_has_no_eta() {
    let state = cluster([node("n0", "A100", 8)], vec![running("runs", 4, 9, "n0"), gang("fits", 1, 4, 1)]);
    let range = of(&state, "fits", &Arrivals::default(), 1).expect("it waits");
    assert_eq!(range.p50_seconds, 0);
    assert_eq!(of(&state, "runs", &Arrivals::default(), 1), None);
    assert_eq!(of(&state, "nobody", &Arrivals::default(), 1), None);
}

#[test]
fn what_came_yesterday_is_expected_to_come_again() {
    // Small gangs of higher priority arrived every ten minutes of the last day: a whole node is not free for long.
    let mut state = cluster([node("n0", "A100", 8)], vec![limited(running("runs", 8, 100, "n0"), 3_600)]);
    let mut arrivals = Arrivals::default();
    for number in 0..144 {
        let name = format!("small-{number}");
        let small = limited(each(gang(&name, 1, 8, 0), |pod| pod.priority = 10), 1_200);
        for pod in small {
            state.apply(cluster_model::ClusterChange::Pod(pod));
        }
        arrivals.note(&state, &key(&name), at(NOW - 86_400 + 600 * number));
        let pod = gang(&name, 1, 8, 0).remove(0);
        state.apply(cluster_model::ClusterChange::PodGone(pod.key));
    }
    for pod in gang("waits", 1, 8, 10) {
        state.apply(cluster_model::ClusterChange::Pod(pod));
    }
    let alone = of(&state, "waits", &Arrivals::default(), 3).expect("it waits");
    let crowded = of(&state, "waits", &arrivals, 3).expect("it waits");
    assert!(crowded.p90_seconds > 4 * alone.p90_seconds, "{alone:?} {crowded:?}");
}

/// Nodes of 8 GPUs that come this many seconds from now.
fn coming(names: &[&str], in_seconds: i64, gang: Option<GangKey>) -> Coming {
    let taint = |gang: &GangKey| Taint {
        key: "for".into(),
        value: gang.to_string().into(),
        effect: TaintEffect::NoSchedule,
    };
    Coming {
        at: at(NOW + in_seconds),
        nodes: names.iter().map(|name| node(name, "A100", 8)).collect(),
        kept_for: gang.map(|gang| (gang.clone(), taint(&gang))),
    }
}

#[test]
fn who_waits_for_machines_starts_when_they_are_there_and_nobody_takes_them_from_it() {
    // A gang that would take them, if it could, comes after: on the one that is left, or when there is an end.
    let waits = vec![gang("older", 1, 8, 100), limited(gang("waits", 2, 8, 10), 600)];
    let state = cluster([node("n0", "A100", 1)], waits);
    let before = state.dump();
    let machines = [coming(&["m0", "m1", "m2"], 90, Some(key("waits")))];
    let start = |name: &str, coming: &[Coming]| {
        let range = with_coming(&state, name, &Arrivals::default(), coming, 5).expect("it waits");
        (range.p50_seconds, range.p90_seconds)
    };
    // How late machines are was not learned yet: half as long again, as is the minute around it.
    assert_eq!(start("waits", &machines), (90, 165));
    let (older, _) = start("older", &machines);
    assert!((91..=95).contains(&older), "one of the three machines is left for it: {older}");
    let two = [coming(&["m0", "m1"], 90, Some(key("waits")))];
    let (older, _) = start("older", &two);
    assert!((92..=720).contains(&older), "it waits for an end: {older}");
    assert!(start("older", &[]).0 > 3_600, "without machines nobody starts");
    let spare = [coming(&["m0"], 40, None)];
    assert_eq!(start("older", &spare).0, 40, "spares are for everybody");
    assert_eq!(state.dump(), before);
}

#[test]
fn machines_of_a_gang_that_has_started_elsewhere_never_come() {
    let runs = limited(running("runs", 8, 100, "n0"), 130);
    let waits = vec![runs, gang("first", 1, 8, 90), gang("second", 1, 8, 10)];
    let state = cluster([node("n0", "A100", 8)], waits);
    let machines = [coming(&["m0"], 60, Some(key("first")))];
    let range = |name: &str| with_coming(&state, name, &Arrivals::default(), &machines, 5).expect("it waits");
    assert!(range("first").p50_seconds <= 30, "the node is free before");
    assert!(range("second").p50_seconds > 60, "{:?}", range("second"));
}

#[test]
fn a_machine_that_is_there_and_not_ready_is_ready_with_the_others() {
    let closed = cluster_model::Node { schedulable: false, ..node("m0", "A100", 8) };
    let state = cluster([closed], vec![gang("waits", 2, 8, 10)]);
    let machines = [coming(&["m0", "m1"], 60, Some(key("waits")))];
    let range = with_coming(&state, "waits", &Arrivals::default(), &machines, 5).expect("it waits");
    assert_eq!(range.p50_seconds, 60);
}
