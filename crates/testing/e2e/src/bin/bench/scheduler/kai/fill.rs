//! Fills an empty cluster: with 4,000 pods of one GPU, and with one gang of 512 pods that prefers to be close
//! together.

use std::time::{Duration, Instant};

use test_cluster::FakeNodes;

use super::scene::{GPUS_PER_NODE, NODES, annotate, node_of};
use crate::scheduler::bare::{Bare, Write};
use crate::scheduler::observer::Observer;
use crate::scheduler::report::Report;
use crate::scheduler::yard::{Kubelets, NAMESPACE, PATIENCE, Yard, for_scheduler, gangs, nodes};

/// KAI: 397.8 s.
pub async fn fill(report: Report) -> anyhow::Result<()> {
    let node_count = report.size(NODES);
    let pods = gangs("pod", NAMESPACE, node_count * GPUS_PER_NODE, 1, 1);
    let bare = {
        let yard = Yard::start(nodes(node_count, 1), Kubelets::Kwok).await?.with_open_queue().await?;
        let pods = yard.create(for_scheduler(pods.clone(), "nobody")).await?;
        let bare = Bare::start(&yard).await?;
        let binds = pods.iter().enumerate().map(|(index, pod)| Write::Bind(pod, node_of(index, 1)));
        let took = bare.write(binds).await?;
        yard.stop().await;
        took
    };
    let yard = Yard::start(nodes(node_count, 1), Kubelets::Kwok).await?.with_open_queue().await?;
    let count = pods.len();
    yard.create(pods).await?;
    let mut observer = Observer::start(&yard.client, NAMESPACE).await?;
    let scheduler = yard.start_scheduler(&[]).await?;
    let span = observer.bound("pod", count, PATIENCE).await?;
    let whole = span.last.duration_since(scheduler.started);
    let reference = format!(
        "{count} pods; KAI 397.8; from the start of the process, the first bind after {:.1} s; bare binds {:.1} s; bar: 40",
        span.first.duration_since(scheduler.started).as_secs_f64(),
        bare.as_secs_f64()
    );
    report.figure("kai.fill_seconds", whole.as_secs_f64(), "s", &reference);
    yard.stop().await;
    Ok(())
}

/// KAI: 48.7 s with a preference for racks. Zones, blocks and racks nest: 4 × 8 × 8, two nodes in each rack.
pub async fn topology_gang(report: Report) -> anyhow::Result<()> {
    let members = 512;
    let topology = FakeNodes { count: members, zones: 4, blocks: 32, racks: 256, ..FakeNodes::default() };
    let mut pods = gangs("gang", NAMESPACE, 1, u32::try_from(members)?, 2);
    annotate(&mut pods, "warpyard.dev/topology-preferred", "rack");
    let bare = {
        let yard = Yard::start(topology.clone(), Kubelets::Kwok).await?.with_open_queue().await?;
        let bare = Bare::start(&yard).await?;
        let began = Instant::now();
        let pods = yard.create(for_scheduler(pods.clone(), "nobody")).await?;
        bare.write(pods.iter().enumerate().map(|(index, pod)| Write::Bind(pod, node_of(index, 2)))).await?;
        let took = began.elapsed();
        yard.stop().await;
        took
    };
    let yard = Yard::start(topology, Kubelets::Kwok).await?.with_open_queue().await?;
    let mut scheduler = yard.start_scheduler(&[]).await?;
    scheduler.service.ready().await?;
    let mut observer = Observer::start(&yard.client, NAMESPACE).await?;
    let began = Instant::now();
    yard.create(pods).await?;
    let created = began.elapsed();
    let span = observer.bound("gang", members, PATIENCE).await?;
    let seconds = |since: Duration| since.as_secs_f64();
    let reference = format!(
        "KAI 48.7; from the first pod's creation: created after {:.2} s, first bind after {:.2} s; bare creations and \
         binds {:.2} s; bar: 5",
        seconds(created),
        seconds(span.first.duration_since(began)),
        seconds(bare)
    );
    report.figure("kai.gang512_seconds", seconds(span.last.duration_since(began)), "s", &reference);
    yard.stop().await;
    Ok(())
}
