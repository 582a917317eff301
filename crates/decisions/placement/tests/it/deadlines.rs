//! Every feasible set of deadlines is met, on cases small enough to try all orders.

use std::sync::Arc;

use cluster_model::{ClusterChange, ClusterState, Pod, PodKey, Terms};
use placement::{Policy, plan};
use proptest::prelude::*;

use crate::build::{add, cluster, each, gang, node};
use crate::closed_loop::at;

/// A gang with a deadline (or none): GPUs, run time, deadline.
type Job = (u32, u32, Option<i64>);

/// All are there from the start, on nodes of one GPU each, so that whatever is free can be used. Returns when each ends.
fn run(gpus: u32, jobs: &[Job]) -> Vec<i64> {
    let mut state: ClusterState = cluster((0..gpus).map(|number| node(&format!("n{number}"), "H100", 1)));
    for (age, (index, (members, run, deadline))) in (0..).zip(jobs.iter().enumerate()) {
        let terms = Arc::new(Terms {
            time_limit_seconds: Some(*run),
            deadline: deadline.map(at),
            ..Terms::default()
        });
        // Those that come later in the list are older: deadlines come first, so age speaks against them.
        let created = at(-age);
        let pods = each(gang(&format!("g{index}"), *members, 1), |pod: &mut Pod| {
            (pod.terms, pod.created) = (terms.clone(), created);
        });
        add(&mut state, pods);
    }
    let mut ends = vec![i64::MAX; jobs.len()];
    let mut running: Vec<(i64, Vec<PodKey>)> = Vec::new();
    let mut now = 0;
    loop {
        state.advance(at(now));
        let plan = plan(&mut state, &Policy::default(), at(now));
        state.commit(&plan).whole().expect("what is planned can be done");
        for gang in &plan.placements {
            let index: usize = gang.gang.name[1..].parse().expect("a gang is called by its number");
            ends[index] = now + i64::from(jobs[index].1);
            running.push((ends[index], gang.members.iter().map(|member| member.pod.clone()).collect()));
        }
        let look_again = plan.look_again_at.map(jiff::Timestamp::as_second);
        let Some(next) = running.iter().map(|(end, _)| *end).chain(look_again).min() else { return ends };
        now = next;
        state.advance(at(now));
        for (_, pods) in running.extract_if(.., |(end, _)| *end <= now) {
            for pod in pods {
                state.apply(ClusterChange::PodGone(pod));
            }
        }
    }
}

/// Whether some schedule meets all deadlines: second by second, every choice of what starts, for what is left.
fn some_schedule_meets_all(gpus: i64, jobs: &[Job]) -> bool {
    let due: Vec<(i64, i64, i64)> = jobs
        .iter()
        .filter_map(|(gpus, run, deadline)| Some((i64::from(*gpus), i64::from(*run), (*deadline)?)))
        .collect();
    try_all(0, gpus, &due, &[])
}

/// `busy`: GPUs in use, and until when.
fn try_all(now: i64, gpus: i64, due: &[(i64, i64, i64)], busy: &[(i64, i64)]) -> bool {
    if due.is_empty() {
        return true;
    }
    if due.iter().any(|(_, run, deadline)| now + run > *deadline) {
        return false;
    }
    let free = gpus - busy.iter().map(|(gpus, _)| gpus).sum::<i64>();
    for (index, (asks, run, _)) in due.iter().enumerate() {
        if *asks <= free {
            let rest = [&due[..index], &due[index + 1..]].concat();
            if try_all(now, gpus, &rest, &[busy, &[(*asks, now + run)]].concat()) {
                return true;
            }
        }
    }
    let Some(next) = busy.iter().map(|(_, end)| *end).min() else { return false };
    let busy: Vec<_> = busy.iter().filter(|(_, end)| *end > next).copied().collect();
    try_all(next, gpus, due, &busy)
}

fn check(gpus: u32, jobs: &[Job]) {
    let ends = run(gpus, jobs);
    for (index, (job, end)) in jobs.iter().zip(&ends).enumerate() {
        let (_, _, deadline) = job;
        assert!(
            deadline.is_none_or(|deadline| *end <= deadline),
            "g{index} of {gpus}, {jobs:?} ends at {ends:?}"
        );
    }
}

#[test]
fn deadlines_are_met_where_age_or_laxity_alone_would_miss_them() {
    let due = |gpus, run, deadline| (gpus, run, Some(deadline));
    check(1, &[due(1, 5, 10), (1, 100, None)]);
    check(1, &[due(1, 5, 10), due(1, 5, 5)]);
    // The least laxity first would start both threes.
    check(2, &[due(1, 3, 6), due(1, 3, 6), due(1, 2, 6), due(1, 2, 6), due(1, 2, 6)]);
    // The large one starts later, and both GPUs must be free then: the last would be in its way.
    check(2, &[due(2, 5, 10), due(1, 5, 5), (1, 6, None)]);
    check(2, &[due(1, 5, 12), due(2, 5, 10), due(1, 5, 5), (1, 20, None)]);
}

fn a_job() -> impl Strategy<Value = Job> {
    (1..3u32, 1..7u32, prop::option::weighted(0.8, 2..20i64))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_feasible_set_of_deadlines_is_met(gpus in 1..4u32, jobs in prop::collection::vec(a_job(), 1..7)) {
        let jobs: Vec<Job> = jobs.into_iter().map(|(asks, run, deadline)| {
            (asks.min(gpus), run, deadline)
        }).collect();
        prop_assume!(some_schedule_meets_all(i64::from(gpus), &jobs));
        check(gpus, &jobs);
    }
}
