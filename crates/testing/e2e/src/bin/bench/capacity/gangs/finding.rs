//! Judges the outcome of gangs by the cloud's own record.

use std::collections::BTreeMap;
use std::time::Duration;

use api_types::launch::gang_mark;
use api_types::names;
use capacity::launches::late_after;
use jiff::Timestamp;
use test_cluster::karpenter::{CloudRecord, Fate, Life, Odds, Tries};

use crate::capacity::size::Size;
use crate::capacity::yard::{BOOT, TEAM, TIMES};

pub(super) const FAULT_PERCENT: u32 = 30;

/// From the decision to give a machine back until the cloud does not bill it any more.
pub(super) const GONE: Duration = Duration::from_secs(30);

/// How long Karpenter's own path may take for a gang: more than ten boots. Some of its gangs would never become
/// whole.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);

/// One gang that is to start.
#[derive(Clone, Debug)]
pub(super) struct Gang {
    /// The run, or the pool.
    pub(super) name: String,
    pub(super) members: u32,
}

impl Gang {
    /// The annotation of its claims: the Job of its first attempt.
    pub(super) fn annotation(&self) -> String {
        format!("{TEAM}/{}-1", self.name)
    }

    /// The beginning of the names of its claims.
    pub(super) fn claims_begin(&self) -> String {
        format!("warpyard-{}-", gang_mark(TEAM, &format!("{}-1", self.name)))
    }
}

/// The odds of faults; claims with the same label are ordered together.
pub(super) fn odds(size: Size, label: &str) -> Odds {
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
pub(super) fn limit() -> Duration {
    late_after(TIMES.boot_seconds).unsigned_abs() + GONE
}

#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) whole: usize,
    pub(super) failed_tries: usize,
    /// Failed tries that cost too much.
    pub(super) too_dear: usize,
    /// Machines of failed tries that were held for too long.
    pub(super) held: usize,
    pub(super) failed_seconds: f64,
    pub(super) wasted_seconds: f64,
}

impl Findings {
    pub(super) fn violations(&self) -> usize {
        self.too_dear + self.held
    }

    /// Whether all gangs were whole, and no bound was broken.
    pub(super) fn is_as_promised(&self, gangs: usize) -> bool {
        self.whole == gangs && self.violations() == 0
    }
}

/// Judges our tries for one gang by the cloud's own record; it was whole at `whole`.
pub(super) fn judge(gang: &Gang, whole: Timestamp, record: &CloudRecord, found: &mut Findings) {
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
