//! 10,000 nodes and 100,000 pods: the scheduler's memory, and the time from its start to its first plan.
//!
//! The objects are made by calls to the API server, like any others. 80,000 pods are bound before the scheduler starts, and
//! fill the cluster; 20,000 wait.

use std::time::{Duration, Instant};

use anyhow::Context;
use e2e::usage;

use crate::scheduler::bare::{Bare, Write};
use crate::scheduler::report::Report;
use crate::scheduler::yard::{Kubelets, NAMESPACE, Scheduler, Yard, gangs, nodes};

const NODES: usize = 10_000;
const WAITING: usize = 20_000;
const GPUS_PER_NODE: usize = 8;
/// Starts, the slowest of which counts.
const STARTS: usize = 3;
/// After its first plan, for this long, it writes why 20,000 pods wait; memory is measured afterwards.
const SETTLE: Duration = Duration::from_secs(20);
const START_MAX: Duration = Duration::from_mins(3);

pub async fn run(report: Report) -> anyhow::Result<()> {
    let (node_count, waiting) = (report.size(NODES), report.size(WAITING));
    let yard =
        Yard::start(nodes(node_count, node_count / 10), Kubelets::None).await?.with_open_queue().await?;
    let running = node_count * GPUS_PER_NODE;
    let pods = running + waiting;
    let began = Instant::now();
    let created = yard.create(gangs("running", NAMESPACE, running, 1, 1)).await?;
    let bare = Bare::start(&yard).await?;
    let node = |index: usize| format!("node-{}", index / GPUS_PER_NODE);
    bare.write(created.iter().enumerate().map(|(index, pod)| Write::Bind(pod, node(index)))).await?;
    drop(bare);
    yard.create(gangs("waiting", NAMESPACE, waiting, 1, 1)).await?;
    eprintln!("{pods} pods, of which {running} are bound, in {:?}", began.elapsed());
    let mut slowest: Option<Start> = None;
    let mut peak_mib = 0.0_f64;
    for _ in 0..STARTS {
        let mut scheduler = yard.start_scheduler(&[]).await?;
        let start = Start::watch(&mut scheduler).await?;
        tokio::time::sleep(SETTLE).await;
        let memory = usage::memory(scheduler.pid())?;
        let cpu_seconds = usage::cpu_seconds(scheduler.pid())?;
        eprintln!(
            "first plan after {:.1} s ({}); {:.0} MiB resident, {:.0} at most; {cpu_seconds:.1} s of CPU",
            start.seconds, start.parts, memory.resident_mib, memory.peak_mib
        );
        peak_mib = peak_mib.max(memory.peak_mib);
        if slowest.as_ref().is_none_or(|slowest| slowest.seconds < start.seconds) {
            slowest = Some(start);
        }
        // Orderly, so that the next one need not wait for the lease to run out.
        scheduler.service.terminate().await;
    }
    let slowest = slowest.context("it was started")?;
    let size = format!("{node_count} nodes, {pods} pods, {STARTS} starts");
    let reference = format!("{size}; the most at any time, seen by the kernel; bar: 1,024");
    report.figure("memory.n10k_p100k_mib", peak_mib, "MiB", &reference);
    let reference = format!("{size}, the slowest; from the start of the process: {}; bar: 15", slowest.parts);
    report.figure("start.n10k_p100k_seconds", slowest.seconds, "s", &reference);
    yard.stop().await;
    Ok(())
}

/// How long a scheduler took until it planned, and with what.
struct Start {
    seconds: f64,
    parts: String,
}

impl Start {
    async fn watch(scheduler: &mut Scheduler) -> anyhow::Result<Self> {
        let mut moments = Vec::new();
        for message in ["Admitted by the fence; waiting for older writes to end.", "Scheduling."] {
            scheduler.service.wait_for_line(message, START_MAX).await?;
            moments.push(scheduler.started.elapsed().as_secs_f64());
        }
        let [fence, plan] = moments[..] else { anyhow::bail!("two moments were waited for") };
        let parts =
            format!("lease and fence {fence:.1} s, settle time, lists and plan {:.1} s", plan - fence);
        Ok(Self { seconds: plan, parts })
    }
}
