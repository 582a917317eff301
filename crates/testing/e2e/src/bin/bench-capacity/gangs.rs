//! Gangs get all of their machines or pay for none, whatever becomes of launches; beside it, the same gangs through Karpenter's
//! own path and kube-scheduler.
//!
//! ```text
//!   8 slots ─► gang ─► try 1 ─ fault? ─► given back ─► try 2 … ─► started whole ─► its machines are gone ─► next gang
//!                        └─ drawn by (seed, gang, try): the same on both sides
//! ```
//!
//! A **try** of ours is a launch. On Karpenter's own path the first try is all of a gang's claims, and each claim that replaces
//! one is another. Of all tries 30 % meet one fault: no stock, a boot of ten minutes, a machine that never registers, one that
//! vanishes while it boots. A slot has a machine type of its own and waits until its machines are gone, so that no gang
//! inherits machines of another.
//!
//! | figure | |
//! |---|---|
//! | `gangs_started_whole_percent` | gangs of which all members ran and ended well, in their first attempt |
//! | `unpaid_bound_violations` | failed tries that cost more than their size × ([`late_after`] + [`GONE`]), plus machines of failed tries that were held for longer than [`GONE`] after the next try, or after they were late |
//! | `wasted_node_seconds` | node-seconds paid for before their gang was whole, with the boots of tries that succeeded |
//! | `wasted_node_seconds_karpenter` | the same for who was whole within [`PATIENCE`], and until then for who was not |

mod ours;
mod slots;
mod theirs;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use api_types::launch::gang_mark;
use api_types::names;
use capacity::launches::late_after;
use jiff::Timestamp;
use seeded_random::Random;
use test_cluster::figures::{self, count};
use test_cluster::karpenter::{Fate, Life, Odds, Record, Tries};

use crate::Size;
use crate::yard::{BOOT, TEAM, TIMES};

const GANGS: usize = 200;
const FAULT_PERCENT: u32 = 30;
/// From the decision to give a machine back until the cloud does not bill it any more.
const GONE: Duration = Duration::from_secs(30);
/// So long may Karpenter's own path take for a gang: ten boots and more. Some of its gangs would never become whole.
const PATIENCE: Duration = Duration::from_mins(2);

/// Runs both.
pub async fn measure(size: Size) -> anyhow::Result<()> {
    let gangs = gangs(size);
    let ours = ours::run(size, &gangs).await?;
    println!("ours: {ours:?}");
    if !size.rehearse {
        print_ours(size, gangs.len(), &ours);
    }
    let theirs = theirs::run(size, &gangs).await?;
    println!("Karpenter's own path: {theirs:?}");
    if !size.rehearse {
        print_theirs(gangs.len(), &theirs);
    }
    ensure!(ours.is_as_promised(gangs.len()), "{ours:?}");
    Ok(())
}

fn print_ours(size: Size, gangs: usize, ours: &Findings) {
    let of = format!(
        "{gangs} gangs of 2 to 16 nodes, {FAULT_PERCENT} % of tries meet a fault, {} tries failed; seed {}",
        ours.failed_tries, size.seed
    );
    let percent = 100.0 * count(ours.whole) / count(gangs);
    figures::print("capacity.gangs_started_whole_percent", percent, "%", &of);
    let bound = format!(
        "of {} failed tries; each may cost its size × {} s, and hold nothing {} s later",
        ours.failed_tries,
        limit().as_secs(),
        GONE.as_secs()
    );
    figures::print("capacity.unpaid_bound_violations", count(ours.violations()), "tries", &bound);
    let of =
        format!("paid for before the gang was whole; {:.0} of them in failed tries", ours.failed_seconds);
    figures::print("capacity.wasted_node_seconds", ours.wasted_seconds, "node-s", &of);
}

fn print_theirs(gangs: usize, theirs: &Findings) {
    let of = format!(
        "the same faults, Karpenter's own path; {} of {gangs} gangs were whole within {} s, and paid for no longer",
        theirs.whole,
        PATIENCE.as_secs()
    );
    figures::print("capacity.wasted_node_seconds_karpenter", theirs.wasted_seconds, "node-s", &of);
}

/// One gang that is to start.
#[derive(Clone, Debug)]
struct Gang {
    /// The run, or the pool.
    name: String,
    members: u32,
}

impl Gang {
    /// What claims for it are annotated with: the Job of its first attempt.
    fn annotation(&self) -> String {
        format!("{TEAM}/{}-1", self.name)
    }

    /// How names of claims begin that we make for it.
    fn claims_begin(&self) -> String {
        format!("warpyard-{}-", gang_mark(TEAM, &format!("{}-1", self.name)))
    }
}

fn gangs(size: Size) -> Vec<Gang> {
    let mut random = Random::new(size.seed);
    let members = |random: &mut Random| 2 + u32::try_from(random.below(15)).unwrap_or(0);
    (0..size.of(GANGS))
        .map(|index| Gang { name: format!("gang-{index}"), members: members(&mut random) })
        .collect()
}

/// The faults, where claims with the same label are ordered together.
fn odds(size: Size, label: &str) -> Odds {
    Odds {
        seed: size.seed,
        percent: FAULT_PERCENT,
        group_labels: vec![label.to_owned()],
        tries: Tries {
            of: names::FOR_GANG_ANNOTATION.to_owned(),
            size: names::LAUNCH_SIZE_ANNOTATION.to_owned(),
        },
        fates: vec![
            Fate::StockOut,
            Fate::Slow(Duration::from_mins(10)),
            Fate::NeverRegisters,
            Fate::Disappears(BOOT / 2),
        ],
    }
}

/// The most that a machine of a failed try is paid for.
fn limit() -> Duration {
    late_after(TIMES.boot_seconds).unsigned_abs() + GONE
}

#[derive(Debug, Default)]
struct Findings {
    whole: usize,
    failed_tries: usize,
    /// Failed tries that cost too much.
    too_dear: usize,
    /// Machines of failed tries that were held for too long.
    held: usize,
    failed_seconds: f64,
    wasted_seconds: f64,
}

impl Findings {
    fn violations(&self) -> usize {
        self.too_dear + self.held
    }

    /// Whether all of so many gangs were whole, and no bound was broken.
    fn is_as_promised(&self, gangs: usize) -> bool {
        self.whole == gangs && self.violations() == 0
    }
}

/// Judges our tries for one gang by the cloud's own record; it was whole at `whole`.
fn judge(gang: &Gang, whole: Timestamp, record: &Record, found: &mut Findings) {
    let beginning = gang.claims_begin();
    // By the second in which the try was decided.
    let mut tries: BTreeMap<i64, Vec<&Life>> = BTreeMap::new();
    let number = |claim: &str| {
        let rest = claim.strip_prefix(&beginning)?;
        rest.split_once('-')?.0.parse::<i64>().ok()
    };
    for life in &record.lives {
        if let Some(number) = number(&life.claim) {
            tries.entry(number).or_default().push(life);
        }
    }
    // A try may fail before the cloud has launched a single machine.
    for number in record.refusals.iter().filter_map(|(claim, _)| number(claim)) {
        tries.entry(number).or_default();
    }
    let numbers: Vec<i64> = tries.keys().copied().collect();
    for (position, (number, lives)) in tries.iter().enumerate() {
        let seconds: f64 = lives.iter().map(|life| life.paid_seconds(whole)).sum();
        found.wasted_seconds += seconds;
        // The last one is the one that it started on.
        let Some(next) = numbers.get(position + 1) else { continue };
        found.failed_tries += 1;
        found.failed_seconds += seconds;
        let paid: f64 = lives.iter().map(|life| life.paid_seconds(Timestamp::MAX)).sum();
        if paid > f64::from(gang.members) * limit().as_secs_f64() {
            println!("{} cost too much in try {}: {paid:.0} node-s", gang.name, position + 1);
            found.too_dear += 1;
        }
        let over = late_after(TIMES.boot_seconds).as_secs().saturating_add(*number).min(*next);
        let gone_by = Timestamp::from_second(over).map_or(Timestamp::MAX, |over| over + GONE);
        let is_held = |life: &&&Life| life.ended.as_ref().is_none_or(|(at, _)| *at > gone_by);
        for life in lives.iter().filter(is_held) {
            println!("{} held a machine of try {} past {gone_by}: {life:?}", gang.name, position + 1);
            found.held += 1;
        }
    }
}
