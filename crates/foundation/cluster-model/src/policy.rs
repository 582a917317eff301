//! What an operator may choose. A policy is data: the same value drives production, simulator, forecast and experiments,
//! and tells the judge what a plan may do.

use serde::{Deserialize, Serialize};

/// The policy of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Which gang is looked at next.
    pub order: OrderPolicy,
    /// Which of the nodes that would do is taken.
    pub packing: Packing,
    /// What those who are blocked may count on.
    pub backfill: Backfill,
    /// Who may be made to give way.
    pub eviction: EvictionPolicy,
    /// Whether running gangs are moved to make room.
    pub consolidation: ConsolidationPolicy,
    /// What the cluster may draw.
    pub energy: EnergyPolicy,
    /// Whether every waiting gang gets its reasons. Without it a plan costs what it places, not what waits.
    pub explain: bool,
}

impl Policy {
    /// What the scheduler runs with unless it is told otherwise: see `docs/decisions/0031-act-on-the-cluster.md`.
    /// Priorities and reclaim make others give way; who says that it saves its state may be moved, at most three for
    /// one gang that has waited for a while. Nobody gives way because it runs for longer than others: that pays only
    /// where most jobs save their state.
    pub fn installed() -> Self {
        Self {
            eviction: EvictionPolicy { by_priority: true, reclaim: true, ..EvictionPolicy::default() },
            consolidation: ConsolidationPolicy { moves_max: 3, after_seconds: 10 },
            ..Self::default()
        }
    }
}

impl Default for Policy {
    /// Nobody gives way.
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

/// Which gang is looked at next, within its queue and priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderPolicy {
    /// The oldest first; one that is blocked does not hold up the next.
    Age,
    /// The oldest first; one that is blocked holds up all after it. A baseline for experiments.
    StrictAge,
    /// The least expected work first, as learned from history, bounded by age so that nobody starves. Before anything
    /// was learned, small before large and old before young.
    #[default]
    ExpectedWork,
}

/// Which of the nodes that would do is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Packing {
    /// The one with the fewest free GPUs that still fits, so that whole nodes stay free; ties by name.
    BestFit,
    /// The one whose free capacity stays most useful for the work that usually comes; before any came, and where it
    /// makes no difference, the best fit.
    #[default]
    LeastFragmentation,
    /// The emptiest, for what should not fall together.
    Spread,
    /// The one that draws least in addition: nodes that are on before nodes that are off, efficient types first.
    LeastPower,
}

/// What those who are blocked may count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backfill {
    /// So many blocked gangs get a start, as far as time limits make ends certain, in the order of planning; nobody who
    /// starts now delays them. One is EASY, many are conservative, none lets whoever fits start.
    pub reservations_max: u32,
    /// So many gangs that waited too long keep what falls free for them, and come first in their tier.
    pub gather_max: u32,
    /// What is too long.
    pub gather_after_seconds: u32,
}

impl Default for Backfill {
    /// One reservation; two gangs gather after four and a quarter days. Shorter turns an overloaded cluster into first come,
    /// first served; tuned on September of the Philly trace (decision 0027).
    fn default() -> Self {
        Self { reservations_max: 1, gather_max: 2, gather_after_seconds: 367_200 }
    }
}

/// Who may be made to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionPolicy {
    /// Gangs of higher priority evict those of lower priority.
    pub by_priority: bool,
    /// Queues take back their quota from those that borrow it.
    pub reclaim: bool,
    /// Gangs that are expected to be through soon evict those that will run for long yet, save their state, and run on
    /// what their queue borrows.
    pub by_expected_work: bool,
    /// What "soon" and "for long yet" mean there.
    pub outruns: Outruns,
    /// How long capacity is held for a claimant.
    pub hold_seconds: u32,
    /// How many running gangs are looked at as victims for one claimant. Beyond that the search gives up, and says so.
    pub candidates_max: u32,
}

impl Default for EvictionPolicy {
    /// Nobody gives way. Holds of ten minutes outlast the longest grace of a pod that saves its state.
    fn default() -> Self {
        Self {
            by_priority: false,
            reclaim: false,
            by_expected_work: false,
            outruns: Outruns::default(),
            hold_seconds: 600,
            candidates_max: 100_000,
        }
    }
}

/// When a gang that is expected to be through soon takes from those that will run for long yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outruns {
    /// A gang claims by this after it waited for so long: most room comes by itself sooner.
    pub after_seconds: u32,
    /// It takes from those that are expected to run so many times longer from now on, and to use so many times more.
    pub times: u32,
    /// Who gives way ran for so long at least, and for as long as it has waited in all, so that whoever gives way often
    /// does so more and more seldom.
    pub ran_seconds_min: u32,
    /// Who waited for longer than this does not give way at all.
    pub waited_seconds_max: u32,
}

impl Default for Outruns {
    /// A minute, four times, half an hour, a day.
    fn default() -> Self {
        Self { after_seconds: 60, times: 4, ran_seconds_min: 1800, waited_seconds_max: 86_400 }
    }
}

/// Whether running gangs are moved to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsolidationPolicy {
    /// For a gang that is blocked though enough is free in all: the most gangs that are moved for it. Zero: none.
    pub moves_max: u32,
    /// A gang waits at least so long before others are moved for it.
    pub after_seconds: u32,
}

/// What the cluster may draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnergyPolicy {
    /// The most that all nodes together may draw.
    pub cap_watts: Option<u64>,
}
