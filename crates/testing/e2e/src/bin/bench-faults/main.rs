//! `cargo xtask bench faults [SCENARIO…]`: everything that can go wrong with the servers and processes around a scheduler,
//! on the real ones, judged over every revision of the store.

use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Parser;
use e2e::faults::{Findings, compaction, kills, latency, neighbours, nodes, servers, stops, storm, thrash};
use test_cluster::figures;

/// The scenarios, in the order in which they run.
const SCENARIOS: [&str; 9] =
    ["kills", "stops", "compaction", "servers", "neighbours", "latency", "nodes", "storm", "thrash"];

/// Faults on real servers.
#[derive(Parser)]
struct Args {
    /// Run only these; all unless given.
    scenarios: Vec<String>,
    /// A tenth of everything, and no figures.
    #[arg(long)]
    rehearse: bool,
    /// Names the run: the same seed draws the same shapes, delays and faults.
    #[arg(long, default_value_t = 20_261_115)]
    seed: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(unknown) = args.scenarios.iter().find(|name| !SCENARIOS.contains(&name.as_str())) {
        bail!("there is no scenario {unknown:?}\n\nhint: {}", SCENARIOS.join(", "));
    }
    let wanted = |name: &str| args.scenarios.is_empty() || args.scenarios.iter().any(|it| it == name);
    let mut all = Outcome::default();
    for name in SCENARIOS.into_iter().filter(|name| wanted(name)) {
        let began = Instant::now();
        let outcome = run(name, &args).await?;
        println!("{name}: {:.0} s", began.elapsed().as_secs_f64());
        all.findings.add(outcome.findings);
        all.storm_ratio = all.storm_ratio.or(outcome.storm_ratio);
        all.thrash = all.thrash.or(outcome.thrash);
    }
    if !args.rehearse {
        print(&mut all, &args);
    }
    all.findings.must_be_clean()
}

#[derive(Default)]
struct Outcome {
    findings: Findings,
    storm_ratio: Option<f64>,
    thrash: Option<thrash::Thrash>,
}

async fn run(name: &str, args: &Args) -> anyhow::Result<Outcome> {
    let seed = args.seed;
    let of = |count: usize| if args.rehearse { count.div_ceil(10) } else { count };
    let findings = match name {
        "kills" => {
            kills::run(kills::Size { short: of(480), production: of(20), gangs_per_kill: 4, seed }).await?
        }
        "stops" => stops::run(stops::Size { stops: of(40), seed }).await?,
        "compaction" => {
            compaction::run(compaction::Size { restarts: of(20), compactions: of(10), seed }).await?
        }
        "servers" => servers::run(servers::Size { kills: of(40), seed }).await?,
        "neighbours" => neighbours::run(neighbours::Size { kills: of(20), seed }).await?,
        "latency" => {
            let slow = Duration::from_secs(u64::try_from(of(300))?);
            latency::run(latency::Size { slow, seed }).await?
        }
        "nodes" => nodes::run(nodes::Size { rounds: of(60), seed }).await?,
        "storm" => {
            let (findings, ratio) = storm::run(storm::Size { gangs: of(2_000), seed }).await?;
            return Ok(Outcome { findings, storm_ratio: Some(ratio), ..Outcome::default() });
        }
        _ => {
            let lasts = Duration::from_secs(u64::try_from(of(30 * 60))?);
            let (findings, thrash) = thrash::run(thrash::Size { lasts, seed }).await?;
            return Ok(Outcome { findings, thrash: Some(thrash), ..Outcome::default() });
        }
    };
    Ok(Outcome { findings, ..Outcome::default() })
}

fn print(outcome: &mut Outcome, args: &Args) {
    let all = &mut outcome.findings;
    let scenarios = if args.scenarios.is_empty() { "all".to_owned() } else { args.scenarios.join(", ") };
    let reference = format!("scenarios: {scenarios}; seed {}; bar: 0", args.seed);
    let kills = "SIGKILLs with binds in flight, 20 of them with production's lease times; bar: 500";
    figures::print("faults.kills", figures::count(all.kills), "kills", kills);
    figures::print("faults.double_booked", figures::count(all.double_booked), "pods", &reference);
    figures::print("faults.partial_gangs", figures::count(all.partial_gangs), "gangs", &reference);
    figures::print("faults.lost_pods", figures::count(all.lost_pods), "pods", &reference);
    if let Some(ratio) = outcome.storm_ratio {
        let reference = "30 % of requests with a fault, over the same load without; bar: 0.5";
        figures::print("storm.throughput_ratio", ratio, "ratio", reference);
    }
    all.takeovers.sort();
    // Of fewer than a hundred, the 99th percentile is the longest.
    if let Some(longest) = all.takeovers.last() {
        let reference = format!(
            "from SIGKILL to the successor's first bind, production's lease times, {} kills; bar: 20",
            all.takeovers.len()
        );
        figures::print("takeover.p99_seconds", longest.as_secs_f64(), "seconds", &reference);
    }
    if let Some(thrash) = &outcome.thrash {
        let reference = format!(
            "{} gangs gave way in 30 minutes of borrowing and taking back, {} of them for nothing; bar: 0",
            thrash.evictions, thrash.for_nothing
        );
        figures::print("thrash.repeat_evictions", figures::count(thrash.repeats), "evictions", &reference);
    }
}
