//! What happens to jobs, with the real planner.

use cluster_model::{Node, NodeName, Resources};
use jiff::{SignedDuration, Timestamp};
use placement::Policy;
use simulator::synthetic::Recipe;
use simulator::{Event, Job, Options, Outcome, Simulation, Workload, simulate};

fn policy() -> Policy {
    Policy { explain: false, ..Policy::default() }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn node(name: &str, gpus: i64) -> Node {
    Node {
        gpu_type: Some("H100".into()),
        allocatable: Resources { gpus, pods: 100, ..Resources::default() },
        ..Node::new(name)
    }
}

fn job(name: &str, submitted: i64, gpus: i64, members: u32, run_seconds: u32) -> Job {
    Job {
        run_seconds,
        members,
        members_min: members,
        requests: Resources { gpus, pods: 1, ..Resources::default() },
        ..Job::new(name, "q", at(submitted))
    }
}

fn waits_and_ends(outcome: &Outcome) -> Vec<(Option<u32>, Option<u32>)> {
    outcome.records.iter().map(|record| (record.started, record.ended)).collect()
}

#[test]
fn a_job_waits_for_room_and_starts_the_second_it_is_there() {
    let workload = Workload {
        nodes: vec![node("a", 8)],
        jobs: vec![job("first", 0, 8, 1, 100), job("second", 10, 8, 1, 50)],
        ..Workload::default()
    };
    let outcome = simulate(workload, policy(), Options::default());
    assert_eq!(waits_and_ends(&outcome), [(Some(0), Some(100)), (Some(90), Some(140))]);
    // From the first to the last arrival all 8 GPUs were in use.
    assert!((outcome.summary.utilisation_percent - 100.0).abs() < 1e-9);
    assert_eq!(outcome.summary.makespan_seconds, 150);
}

#[test]
fn a_failed_node_costs_what_was_not_saved_and_the_job_starts_again_elsewhere() {
    let saves = Job { checkpoint_seconds: Some(100), ..job("saves", 0, 8, 1, 1_000) };
    let workload = Workload {
        nodes: vec![node("a", 8), node("b", 8)],
        jobs: vec![saves],
        events: vec![(at(250), Event::NodeDown(NodeName::from("a")))],
        ..Workload::default()
    };
    let options = Options { restart_seconds: 30, ..Options::default() };
    let outcome = simulate(workload, policy(), options);
    let record = outcome.records[0];
    assert_eq!((record.failures, record.preemptions), (1, 0));
    assert_eq!(record.lost_gpu_seconds, 50 * 8);
    // 250 s, of which 200 are saved; then 30 to start again and 800 of work.
    assert_eq!(record.ended, Some(250 + 30 + 800));
}

#[test]
fn a_node_that_leaves_takes_nothing_new_and_is_gone_after_its_notice() {
    let workload = Workload {
        nodes: vec![node("a", 8)],
        jobs: vec![job("first", 0, 4, 1, 60), job("second", 20, 4, 1, 10)],
        events: vec![
            (at(10), Event::NodeLeaves { node: "a".into(), notice_seconds: 120 }),
            (at(500), Event::NodeUp(node("a", 8))),
        ],
        ..Workload::default()
    };
    let outcome = simulate(workload, policy(), Options::default());
    assert_eq!(waits_and_ends(&outcome), [(Some(0), Some(60)), (Some(480), Some(490))]);
    assert_eq!(outcome.records[0].failures, 0);
}

#[test]
fn a_time_limit_ends_a_job() {
    let mut limited = job("limited", 0, 1, 1, 1_000);
    limited.terms =
        std::sync::Arc::new(cluster_model::Terms { time_limit_seconds: Some(300), ..Default::default() });
    let workload = Workload { nodes: vec![node("a", 8)], jobs: vec![limited], ..Workload::default() };
    assert_eq!(simulate(workload, policy(), Options::default()).records[0].ended, Some(300));
}

#[test]
fn a_gang_that_can_never_start_does_not_keep_the_simulation_going() {
    let workload =
        Workload { nodes: vec![node("a", 8)], jobs: vec![job("huge", 0, 8, 2, 10)], ..Workload::default() };
    let outcome = simulate(workload, policy(), Options::default());
    assert_eq!(outcome.summary.jobs_never_started, 1);
}

#[test]
fn gpu_time_is_conserved_and_no_node_is_overcommitted() {
    for seed in 0..5 {
        let recipe = Recipe { seed, jobs: 400, nodes: 6, node_days_between_failures: 4, ..Recipe::default() };
        let workload = recipe.workload();
        let work: u64 =
            workload.jobs.iter().map(|job| job.gpu_millis() / 1000 * u64::from(job.run_seconds)).sum();
        let mut simulation = Simulation::new(workload, policy(), Options::default());
        simulation.run(&mut ());
        assert_eq!(simulation.overcommitted(), 0, "seed {seed}");
        let busy: u64 = simulation.queue_gpu_seconds().iter().map(|(_, seconds)| seconds).sum();
        let outcome = simulation.finish();
        let lost: u64 = outcome.records.iter().map(|record| record.lost_gpu_seconds).sum();
        assert_eq!(outcome.summary.jobs_ended, 400, "seed {seed}");
        assert!(outcome.summary.failures > 0, "seed {seed}: nothing failed, so nothing is shown");
        // Everything that was in use was work that counts or work that was lost; queues are cut to whole seconds.
        assert!(busy.abs_diff(work + lost) <= 4, "seed {seed}: {busy} in use, {work} of work, {lost} lost");
    }
}

#[test]
fn the_same_workload_gives_the_same_outcome() {
    let run = || simulate(Recipe { jobs: 500, ..Recipe::default() }.workload(), policy(), Options::default());
    let (a, b) = (run(), run());
    assert_eq!(a.records, b.records);
    assert_eq!(a.series, b.series);
    assert_eq!(a.summary, b.summary);
}
