//! A shard of every fault that `cargo xtask bench faults` runs in full.

use std::time::Duration;

use anyhow::ensure;
use e2e::faults::{compaction, kills, latency, neighbours, nodes, servers, stops, storm};

const SEED: u64 = 20_261_115;

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_killed_in_the_middle_of_its_binds_leaves_no_gang_in_part_and_no_node_overbooked()
-> anyhow::Result<()> {
    let size = kills::Size { short: 10, production: 2, gangs_per_kill: 4, seed: SEED };
    kills::run(size).await?.must_be_clean()
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_that_are_stopped_in_the_middle_of_their_binds_and_go_on_give_nothing_twice()
-> anyhow::Result<()> {
    stops::run(stops::Size { stops: 3, seed: SEED }).await?.must_be_clean()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_api_servers_and_a_store_that_forgets_under_a_cut_watch_lose_no_deletion() -> anyhow::Result<()>
{
    compaction::run(compaction::Size { restarts: 2, compactions: 1, seed: SEED }).await?.must_be_clean()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_learns_late_admits_no_former_leader() -> anyhow::Result<()> {
    servers::run(servers::Size { kills: 3, seed: SEED }).await?.must_be_clean()
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_scheduler_on_other_nodes_is_left_alone() -> anyhow::Result<()> {
    neighbours::run(neighbours::Size { kills: 2, seed: SEED }).await?.must_be_clean()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_takes_a_second_for_every_request_costs_no_lease() -> anyhow::Result<()> {
    // A renewal is given up after 2.5 s, so 1.5 s are left for a busy machine. `bench faults latency` takes two seconds.
    let (slow, latency) = (Duration::from_secs(15), Duration::from_secs(1));
    latency::run(latency::Size { slow, latency, seed: SEED }).await?.must_be_clean()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_come_back_or_shrink_are_given_nothing_that_is_taken() -> anyhow::Result<()> {
    nodes::run(nodes::Size { rounds: 4, seed: SEED }).await?.must_be_clean()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_conflicts_throttling_and_lost_answers_breaks_nothing() -> anyhow::Result<()> {
    let (findings, ratio) = storm::run(storm::Size { gangs: 100, seed: SEED }).await?;
    findings.must_be_clean()?;
    ensure!(ratio > 0.0, "nothing was bound in the storm");
    Ok(())
}
