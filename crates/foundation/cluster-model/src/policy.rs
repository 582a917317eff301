//! What an operator may choose. A policy is data: the same value drives production, simulator, forecast and experiments,
//! and tells the judge what a plan may do.

use serde::{Deserialize, Serialize};

use crate::priority::Tier;

/// The policy of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Which gang is considered next.
    pub order: OrderPolicy,
    /// Which of the suitable nodes is taken.
    pub packing: Packing,
    /// What blocked gangs may count on.
    pub backfill: Backfill,
    /// Which gangs may be made to give way.
    pub eviction: EvictionPolicy,
    /// Whether running gangs are moved for others.
    pub consolidation: ConsolidationPolicy,
    /// How much power the cluster may draw.
    pub energy: EnergyPolicy,
    /// Whether every waiting gang gets its reasons. Without it a plan costs what it places, not what waits.
    pub explain: bool,
}

impl Policy {
    /// What the scheduler runs with by default: see `docs/decisions/0031-act-on-the-cluster.md`. Priorities and
    /// reclaim make others give way. A gang that saves its state may be moved, at most three for one gang that has
    /// waited for a while. No gang gives way because it runs for longer than others: that pays only where most jobs
    /// save their state.
    pub fn installed() -> Self {
        Self {
            eviction: EvictionPolicy { by_priority: true, reclaim: true, ..EvictionPolicy::default() },
            consolidation: ConsolidationPolicy { moves_max: 3, after_seconds: 10 },
            ..Self::default()
        }
    }
}

impl Default for Policy {
    /// No gang gives way.
    fn default() -> Self {
        Self {
            order: OrderPolicy::default(),
            packing: Packing::default(),
            backfill: Backfill::default(),
            eviction: EvictionPolicy::default(),
            consolidation: ConsolidationPolicy::default(),
            energy: EnergyPolicy::default(),
            explain: true,
        }
    }
}

/// Which gang is considered next, within its queue and priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderPolicy {
    /// The oldest first; a blocked gang does not hold up the next.
    Age,
    /// The oldest first; a blocked gang holds up all after it. A baseline for experiments.
    StrictAge,
    /// The least expected work first, as learned from history, bounded by age so that no gang starves. Before
    /// anything was learned, small before large and old before young.
    #[default]
    ExpectedWork,
}

/// Which of the suitable nodes is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Packing {
    /// The one with the fewest free GPUs that still fits, so that whole nodes stay free; ties by name.
    BestFit,
    /// The one whose free capacity stays most useful for the work that usually comes. Before any came, and among
    /// equals, the best fit.
    #[default]
    LeastFragmentation,
    /// The emptiest, for pods that should not fail together.
    Spread,
    /// The one that adds least power draw: nodes that are on before nodes that are off, efficient types first.
    LeastPower,
}

/// What blocked gangs may count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backfill {
    /// How many blocked gangs get a start, as far as time limits make ends certain, in the order of planning; nothing
    /// starts now that would delay them. One is EASY, many are conservative, and with none any gang that fits starts.
    pub reservations_max: u32,
    /// How many gangs that waited too long keep what falls free for them, and come first in their tier.
    pub gather_max: u32,
    /// What counts as too long.
    pub gather_after_seconds: u32,
}

impl Default for Backfill {
    /// One reservation; two gangs gather after four and a quarter days. A shorter time turns an overloaded cluster
    /// into first come, first served. Tuned on September of the Philly trace (decision 0027).
    fn default() -> Self {
        Self { reservations_max: 1, gather_max: 2, gather_after_seconds: 367_200 }
    }
}

/// Which gangs may be made to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionPolicy {
    /// Gangs of higher priority evict those of lower priority: in their own queue, and in others those of a lower tier
    /// that hold what their queue borrows.
    pub by_priority: bool,
    /// Tiers for which a gang also takes what another queue owns.
    #[serde(default)]
    pub takes_quota: TierPairs,
    /// Queues take back their quota from those that borrow it.
    pub reclaim: bool,
    /// Gangs that are expected to end soon evict those that will run for long yet, save their state, and run on what
    /// their queue borrows.
    pub by_expected_work: bool,
    /// What "soon" and "for long yet" mean there.
    pub outruns: Outruns,
    /// How long capacity is held for a claimant.
    pub hold_seconds: u32,
    /// How many running gangs are considered as victims for one claimant. Beyond that the search gives up, and says
    /// so.
    pub candidates_max: u32,
}

impl Default for EvictionPolicy {
    /// No gang gives way. Holds of ten minutes outlast the longest grace of a pod that saves its state.
    fn default() -> Self {
        Self {
            by_priority: false,
            takes_quota: TierPairs::default(),
            reclaim: false,
            by_expected_work: false,
            outruns: Outruns::default(),
            hold_seconds: 600,
            candidates_max: 100_000,
        }
    }
}

/// Pairs of tiers: which may take the quota of which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierPairs(
    /// A bit for each pair.
    u64,
);

impl TierPairs {
    /// Tiers above this have no pair: nothing is theirs to take.
    const TIER_MAX: i32 = 7;

    /// These pairs and one more.
    #[must_use]
    pub fn with(self, claims: Tier, gives: Tier) -> Self {
        Self(self.0 | Self::bit(claims, gives).unwrap_or(0))
    }

    /// Whether a gang of the first tier may take what a gang of the second holds within the quota of its queue.
    pub fn has(self, claims: Tier, gives: Tier) -> bool {
        Self::bit(claims, gives).is_some_and(|bit| self.0 & bit != 0)
    }

    fn bit(claims: Tier, gives: Tier) -> Option<u64> {
        let index = |Tier(tier): Tier| u32::try_from(tier).ok().filter(|_| tier <= Self::TIER_MAX);
        Some(1 << (index(claims)? * 8 + index(gives)?))
    }
}

/// When a gang that is expected to end soon evicts those that will run for long yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outruns {
    /// How long a gang waits before it claims by this rule: most room comes by itself sooner.
    pub after_seconds: u32,
    /// How many times longer its victims are expected to run from now on, and how many times more they use.
    pub times: u32,
    /// How long a victim must have run at least. It must also have run for as long as it has waited in all, so that a
    /// gang that gives way often does so more and more seldom.
    pub ran_seconds_min: u32,
    /// A gang that waited for longer than this does not give way at all.
    pub waited_seconds_max: u32,
}

impl Default for Outruns {
    /// A minute, four times, half an hour, a day.
    fn default() -> Self {
        Self { after_seconds: 60, times: 4, ran_seconds_min: 1800, waited_seconds_max: 86_400 }
    }
}

/// Whether running gangs are moved for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsolidationPolicy {
    /// The most gangs that are moved for one gang that is blocked though enough is free in all. Zero: none.
    pub moves_max: u32,
    /// How long a gang waits before others are moved for it.
    pub after_seconds: u32,
}

/// How much power the cluster may draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnergyPolicy {
    /// The most that all nodes together may draw.
    pub cap_watts: Option<u64>,
}
