//! Faults on the real servers, each a case that runs alone, small in CI and whole in `cargo xtask bench faults`.
//!
//! ```text
//!   case: Site (cluster, recorder) ── load, faults, until everything has its node ──► Findings
//! ```
//!
//! The same must hold for all: no GPU is given twice at any revision of the store, no gang is in part for more
//! than a minute after the last fault, no pod is forgotten.

pub mod compaction;
pub mod keeper;
pub mod kills;
pub mod latency;
pub mod neighbours;
pub mod nodes;
pub mod servers;
pub mod site;
pub mod stops;
pub mod storm;
pub mod thrash;

mod leaders;
mod load;

use std::time::Duration;

use anyhow::ensure;

use crate::history::Judgement;

/// The findings of a case.
#[derive(Debug, Default)]
pub struct Findings {
    /// Kills of a leader with binds in flight.
    pub kills: usize,
    /// From the kill of a leader with production's lease times to the first bind of its successor.
    pub takeovers: Vec<Duration>,
    /// Pods put on a node without room, or moved.
    pub double_booked: usize,
    /// Gangs in part for too long.
    pub partial_gangs: usize,
    /// Pods that have no node and should.
    pub lost_pods: usize,
    /// All problems, in words.
    pub wrong: Vec<String>,
}

impl Findings {
    fn of(judgement: &Judgement) -> Self {
        let mut wrong = Vec::new();
        wrong.extend(judgement.double_booked.iter().map(ToString::to_string));
        wrong.extend(judgement.in_part.iter().map(ToString::to_string));
        wrong.extend(judgement.lost.iter().map(|pod| format!("pod {pod} has no node")));
        Self {
            double_booked: judgement.double_booked.len(),
            partial_gangs: judgement.in_part.len(),
            lost_pods: judgement.lost.len(),
            wrong,
            ..Self::default()
        }
    }

    /// Adds the findings of another case.
    pub fn add(&mut self, other: Self) {
        self.kills += other.kills;
        self.takeovers.extend(other.takeovers);
        self.double_booked += other.double_booked;
        self.partial_gangs += other.partial_gangs;
        self.lost_pods += other.lost_pods;
        self.wrong.extend(other.wrong);
    }

    /// An error that says all that was wrong.
    pub fn must_be_clean(&self) -> anyhow::Result<()> {
        ensure!(self.wrong.is_empty(), "{} things went wrong:\n{}", self.wrong.len(), self.wrong.join("\n"));
        Ok(())
    }
}
