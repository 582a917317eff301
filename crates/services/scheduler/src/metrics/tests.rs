use std::collections::BTreeSet;
use std::time::Duration;

use cluster_apply::{BindReport, Outcome};
use cluster_model::plan::{Eviction, EvictionRule, Plan, WaitReason, WaitingGang};
use cluster_model::{Change, ClusterState, GangKey, Node, PodKey, Queue, Resources};
use jiff::Timestamp;

use super::Metrics;
use super::table::TABLE;

/// Everything that can be counted, once.
fn scrape() -> String {
    let (metrics, registry) = Metrics::new();
    metrics.is_leader.set(1);
    metrics.plan_seconds.observe(0.001);
    let pod = PodKey::new("ns", "pod", "uid");
    let (node, took) = ("node".into(), Duration::from_millis(3));
    metrics.count_bind(&BindReport { pod: pod.clone(), node, outcome: Outcome::Bound, took });
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
    state.apply(Change::Node(Node { gpu_type: Some("H100".into()), allocatable, ..Node::new("n") }));
    state.apply(Change::Queue(Queue::new("nlp")));
    metrics.show_state(&state);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
    text
}

#[test]
fn the_table_names_every_metric_of_the_registry_and_no_other() {
    let text = scrape();
    let found: BTreeSet<(String, String)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect();
    let table: BTreeSet<(String, String)> = TABLE
        .iter()
        .map(|entry| {
            (entry.full_name().trim_end_matches("_total").to_owned(), entry.kind.as_str().to_owned())
        })
        .collect();
    assert_eq!(found, table);
    for entry in TABLE {
        let labels = entry.label.map_or(String::new(), |(label, _)| format!("{{{label}=\""));
        let ending = if entry.kind.as_str() == "histogram" { "_count" } else { "" };
        let sample = format!("{}{ending}{labels}", entry.full_name());
        assert!(text.lines().any(|line| line.starts_with(&sample)), "{sample} in {text}");
        assert!(!entry.help.is_empty());
    }
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
        "warpyard_scheduler_queue_gpus_due{queue=\"nlp\"} 8",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}
