use cluster_model::{ClusterState, Pod, Terms};
use forecast::{Arrivals, Calibration, Draws, Range, eta};
use placement::Policy;

use crate::build::{NOW, at, cluster, each, gang, key, node, running};

fn of(state: &ClusterState, name: &str, arrivals: &Arrivals, seed: u64) -> Option<Range> {
    let calibration = Calibration::default();
    let draws = Draws { seed, ..Draws::default() };
    let found = eta(state, &Policy::default(), at(NOW), &key(name), (arrivals, &calibration), draws);
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
        let learned = (&arrivals, &calibration);
        let found = eta(&state, &Policy::default(), at(NOW), &key(name), learned, Draws::default());
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
            state.apply(cluster_model::Change::Pod(pod));
        }
        arrivals.note(&state, &key(&name), at(NOW - 86_400 + 600 * number));
        let pod = gang(&name, 1, 8, 0).remove(0);
        state.apply(cluster_model::Change::PodGone(pod.key));
    }
    for pod in gang("waits", 1, 8, 10) {
        state.apply(cluster_model::Change::Pod(pod));
    }
    let alone = of(&state, "waits", &Arrivals::default(), 3).expect("it waits");
    let crowded = of(&state, "waits", &arrivals, 3).expect("it waits");
    assert!(crowded.p90_seconds > 4 * alone.p90_seconds, "{alone:?} {crowded:?}");
}
