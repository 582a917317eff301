//! `cargo xtask bench portal`, the server's part: lists and event streams of one API server process.
//!
//! ```text
//!   etcd, kube-apiserver ◄── 1,000 nodes, 10,000 runs with statuses, 20 teams
//!        ▲ how many watches?      ▲ changes
//!        └── API server process ──┼──► 4 callers: pages of 100 runs
//!             memory, CPU         └──► 500 event streams, each a connection of its own
//! ```
//!
//! There are no controllers, scheduler or kubelets, so all changes are made by this program. All processes
//! share this machine's cores, including the callers and Kubernetes.

mod args;
mod fill;
mod lists;
mod observe;
mod streams;

use std::collections::BTreeMap;

use anyhow::ensure;
use e2e::usage;
use test_cluster::platform::Platform;
use toolbox::figures;

pub use self::args::Args;
use self::fill::{LEAD, MARKS};
use self::lists::{LIST_CONCURRENCY, LIST_REQUESTS};

/// The kinds that the API server watches.
const KINDS: [&str; 4] = ["runs", "queues", "nodes", "pods"];

pub async fn measure(args: Args) -> anyhow::Result<()> {
    let cluster = fill::fill(&args).await?;
    let client = cluster.admin_client();
    let before = observe::watches(&client).await?;
    let platform = if args.debug { Platform::debug(&cluster) } else { Platform::release(&cluster) };
    let (mut api_server, url) = platform.api_server("127.0.0.1:0").await?;
    let pid = api_server.process().pid();
    let size = format!(
        "{} runs, {} nodes, {} build, {} cores for all",
        args.runs,
        args.nodes,
        if args.debug { "debug" } else { "release" },
        std::thread::available_parallelism()?
    );

    let lead = cluster.token_for_user(LEAD)?;
    let lists = lists::measure_lists(&url, lead).await?;
    figures::print(
        "portal.list_p95_ms",
        lists.p95_ms,
        "ms",
        &format!("{size}; {LIST_REQUESTS} requests, {LIST_CONCURRENCY} at a time"),
    );
    figures::print(
        "portal.list_page_kb",
        lists.largest_kb,
        "kB",
        &format!("{size}; the largest page; full pages have {} to 100 runs", lists.fewest),
    );
    figures::print("portal.nodes_page_kb", lists::nodes_page_kb(&url, lead).await?, "kB", &size);
    figures::print("portal.rss_without_streams_mb", usage::memory(pid)?.resident_mib, "MB", &size);

    let told = streams::measure_streams(&args, &cluster, &url, &client, pid).await?;
    let size = format!("{size}; {} streams", args.streams);
    let rate = streams::CHANGES_PER_SECOND;
    figures::print(
        "portal.streams",
        told.complete,
        "streams",
        &format!("{size}; each was told all {MARKS} marks"),
    );
    figures::print("portal.rss_mb", told.memory_mb, "MB", &size);
    figures::print(
        "portal.cpu_cores",
        told.cpu_cores,
        "cores",
        &format!("{size}; about {rate} changes a second"),
    );
    let delay = format!("{size}; from before the write to Kubernetes until a stream's reader has it");
    figures::print("portal.event_delay_p95_ms", told.delay_p95_ms, "ms", &delay);
    // Before the first event, Kubernetes is asked what each user may see of each namespace.
    figures::print("portal.first_event_delay_p95_ms", told.first_delay_p95_ms, "ms", &delay);

    let after = told.watches;
    let opened = |kind: &str| {
        let of = |counts: &BTreeMap<String, f64>| counts.get(kind).copied().unwrap_or(0.0);
        of(&after) - of(&before)
    };
    let by_kind: Vec<String> = KINDS.iter().map(|kind| format!("{kind} {}", opened(kind))).collect();
    let most = KINDS.iter().map(|kind| opened(kind)).fold(0.0, f64::max);
    let reference = format!("{size}; opened since before the server's start: {}", by_kind.join(", "));
    figures::print("portal.kube_watches", most, "watches of a kind", &reference);
    cluster.stop().await;
    ensure!(told.complete >= f64::from(u32::try_from(args.streams)?), "some streams missed an event");
    ensure!(KINDS.iter().all(|kind| (opened(kind) - 1.0).abs() < 0.5), "one watch per kind: {by_kind:?}");
    Ok(())
}
