//! `cargo xtask bench faults [CASE…]`: faults of the servers and processes around a scheduler, on real servers,
//! judged over every revision of the store.

use std::time::{Duration, Instant};

use anyhow::bail;
use e2e::faults::{Findings, compaction, kills, latency, neighbours, nodes, servers, stops, storm, thrash};
use toolbox::figures;

/// The cases, in the order in which they run.
const CASES: [&str; 9] =
    ["kills", "stops", "compaction", "servers", "neighbours", "latency", "nodes", "storm", "thrash"];

/// Faults on real servers.
#[derive(clap::Args)]
pub struct Args {
    /// Run only these cases; the default is all.
    cases: Vec<String>,
    /// A tenth of everything, and no figures.
    #[arg(long)]
    rehearse: bool,
    /// Names the run: the same seed draws the same shapes, delays and faults.
    #[arg(long, default_value_t = 20_261_115)]
    seed: u64,
}

pub async fn measure(args: Args) -> anyhow::Result<()> {
    e2e::bounds::hold_real_bars();
    if let Some(unknown) = args.cases.iter().find(|name| !CASES.contains(&name.as_str())) {
        bail!("there is no case {unknown:?}\n\nhint: {}", CASES.join(", "));
    }
    let wanted = |name: &str| args.cases.is_empty() || args.cases.iter().any(|it| it == name);
    let mut all = CaseOutcome::default();
    for name in CASES.into_iter().filter(|name| wanted(name)) {
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
struct CaseOutcome {
    findings: Findings,
    storm_ratio: Option<f64>,
    thrash: Option<thrash::Thrash>,
}

async fn run(name: &str, args: &Args) -> anyhow::Result<CaseOutcome> {
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
            latency::run(latency::Size { slow, latency: Duration::from_secs(2), seed }).await?
        }
        "nodes" => nodes::run(nodes::Size { rounds: of(60), seed }).await?,
        "storm" => {
            let (findings, ratio) = storm::run(storm::Size { gangs: of(2_000), seed }).await?;
            return Ok(CaseOutcome { findings, storm_ratio: Some(ratio), ..CaseOutcome::default() });
        }
        _ => {
            let lasts = Duration::from_secs(u64::try_from(of(30 * 60))?);
            let (findings, thrash) = thrash::run(thrash::Size { lasts, seed }).await?;
            return Ok(CaseOutcome { findings, thrash: Some(thrash), ..CaseOutcome::default() });
        }
    };
    Ok(CaseOutcome { findings, ..CaseOutcome::default() })
}

fn print(outcome: &mut CaseOutcome, args: &Args) {
    let all = &mut outcome.findings;
    let cases = if args.cases.is_empty() { "all".to_owned() } else { args.cases.join(", ") };
    let reference = format!("cases: {cases}; seed {}; bar: 0", args.seed);
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
