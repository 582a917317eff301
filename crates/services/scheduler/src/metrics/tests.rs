use std::time::Duration;

use api_types::machine_type::CapacityType;
use capacity::caps::{Buying, Cap};
use capacity::catalogue::{OfferKey, OfferPlace};
use capacity::claim::{Claim, LaunchKey, Purpose};
use cluster_apply::{BindOutcome, BindReport};
use cluster_model::plan::{Eviction, EvictionRule, Plan, WaitReason, WaitingGang};
use cluster_model::{ClusterChange, ClusterState, GangKey, Node, PodKey, Queue, Resources};
use jiff::Timestamp;

use super::Metrics;
use super::machines::LaunchOutcome;
use super::table::TABLE;

/// A machine at this price.
fn claim(price_micros: i64) -> Claim {
    let (zone, capacity_type) = ("a".into(), CapacityType::Spot);
    let place = OfferPlace { zone, block: None, rack: None, capacity_type };
    Claim {
        name: "claim".into(),
        launch: LaunchKey { purpose: Purpose::Spare("h100".into()), number: 1 },
        queue: None,
        of: 1,
        offer: OfferKey { machine: "h100".into(), place },
        price_micros,
        created: Timestamp::UNIX_EPOCH,
        node: None,
        ready: false,
        taken_up: true,
        leaving: false,
        trouble: None,
    }
}

/// A scrape after each metric was counted once.
fn scrape() -> String {
    let (metrics, registry) = Metrics::new();
    metrics.is_leader.set(1);
    metrics.plan_seconds.observe(0.001);
    let pod = PodKey::new("ns", "pod", "uid");
    let (node, took) = ("node".into(), Duration::from_millis(3));
    metrics.count_bind(&BindReport { pod: pod.clone(), node, outcome: BindOutcome::Bound, took });
    let gang = GangKey::new("ns", "gang");
    let reasons = vec![WaitReason::Gated { members: 1 }];
    metrics.show_waiting(&[WaitingGang { gang: gang.clone(), run: None, first_pod: pod, reasons }]);
    let mut plan = Plan::empty(1, Timestamp::UNIX_EPOCH);
    plan.evictions.push(Eviction {
        claimant: GangKey::new("ns", "claimant"),
        gang,
        why: EvictionRule::Reclaim,
        lost_gpu_seconds: 4_711,
        moves: false,
    });
    metrics.count_evictions(&plan);
    let mut state = ClusterState::default();
    let allocatable = Resources { gpus: 8, ..Resources::default() };
    state.apply(ClusterChange::Node(Node { gpu_type: Some("H100".into()), allocatable, ..Node::new("n") }));
    state.apply(ClusterChange::Queue(Queue::new("nlp")));
    metrics.show_state(&state);
    let launches = &metrics.machines;
    launches.count_launches(LaunchOutcome::InVain, 2);
    let cap = Cap { machines: Some(4), per_hour_micros: Some(99_500_000) };
    launches.show(&[claim(10_000_000), claim(2_500_000)], &Buying { stopped: None, cap });
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
    text
}

#[test]
fn the_table_names_every_metric_of_the_registry_and_no_other() {
    let differences = TABLE.differences(&scrape());
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn metrics_show_what_they_were_told() {
    let text = scrape();
    for line in [
        "warpyard_scheduler_is_leader 1",
        "warpyard_scheduler_epoch 0",
        "warpyard_scheduler_gangs_in_part 0",
        "warpyard_scheduler_plan_seconds_count 1",
        "warpyard_scheduler_watch_errors_total 0",
        "warpyard_scheduler_binds_total{outcome=\"bound\"} 1",
        "warpyard_scheduler_evicted_gpu_seconds_total{reason=\"reclaim\"} 4711",
        "warpyard_scheduler_gangs_waiting{reason=\"Gated\"} 1",
        "warpyard_scheduler_gpus{gpu_type=\"H100\"} 8",
        "warpyard_scheduler_machines{machine_type=\"h100\",capacity_type=\"spot\"} 2",
        "warpyard_scheduler_machines_most 4",
        "warpyard_scheduler_machines_per_hour{machine_type=\"h100\",capacity_type=\"spot\"} 12.5",
        "warpyard_scheduler_machines_per_hour_most 99.5",
        "warpyard_scheduler_launches_total{outcome=\"in-vain\"} 2",
        "warpyard_scheduler_queue_gpus_due{queue=\"nlp\"} 8",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}
