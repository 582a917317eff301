//! Looks at a market, one after the other, and what they teach. Only the past: the caller reports what it saw.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::lifetimes::Lifetimes;

/// After a longer time without a look, nobody knows what happened between, and the age of a standing begins again.
const GAP_SECONDS_MAX: u32 = 3_600;

/// What was seen of a market: each offering by itself, and whether there was any spot at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MarketHistory {
    looked_at: Option<i64>,
    any: Seen,
    offerings: BTreeMap<Arc<str>, Seen>,
}

/// What was seen of one offering.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    lifetimes: Lifetimes,
    standing: Option<SpotStanding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SpotStanding {
    is_up: bool,
    since: i64,
}

impl MarketHistory {
    /// Takes in a look: which offerings had spot at a time, in seconds since any beginning. Looks go forward in time.
    pub fn look<'a>(&mut self, at: i64, spot: impl IntoIterator<Item = (&'a Arc<str>, bool)>) {
        let elapsed = self.looked_at.and_then(|before| u32::try_from(at - before).ok()).filter(|it| *it > 0);
        let elapsed = elapsed.filter(|elapsed| *elapsed <= GAP_SECONDS_MAX);
        let spot: Vec<(&Arc<str>, bool)> = spot.into_iter().collect();
        let is_any = spot.iter().any(|(_, is_up)| *is_up);
        for (name, is_up) in &spot {
            if !self.offerings.contains_key(*name) {
                self.offerings.insert((*name).clone(), Seen::default());
            }
            let Some(seen) = self.offerings.get_mut(*name) else { continue };
            if let (Some(elapsed), Some(SpotStanding { is_up: true, .. })) = (elapsed, seen.standing) {
                self.any.lifetimes.record_machine(elapsed, !is_up && is_any);
            }
            seen.look(at, elapsed, *is_up);
        }
        self.any.look(at, elapsed, is_any);
        self.looked_at = Some(at);
    }

    /// What was learned about spot of any of the offerings.
    pub fn lifetimes(&self) -> &Lifetimes {
        &self.any.lifetimes
    }

    /// What was learned about an offering.
    pub fn lifetimes_of(&self, offering: &str) -> Option<&Lifetimes> {
        self.offerings.get(offering).map(|seen| &seen.lifetimes)
    }

    /// For how long there has been any spot, or none, at a time.
    pub fn standing_seconds(&self, at: i64) -> u32 {
        self.any.standing_seconds(at)
    }

    /// For how long an offering has had spot, or none, at a time.
    pub fn standing_seconds_of(&self, offering: &str, at: i64) -> u32 {
        self.offerings.get(offering).map_or(0, |seen| seen.standing_seconds(at))
    }
}

impl Seen {
    fn look(&mut self, at: i64, elapsed: Option<u32>, is_up: bool) {
        match (self.standing, elapsed) {
            (Some(standing), Some(elapsed)) => {
                // The age is the one at the end of the look: a standing that was seen once is one look old.
                let age = u32::try_from(at - standing.since).unwrap_or(u32::MAX);
                self.lifetimes.record(standing.is_up, age, elapsed, standing.is_up != is_up);
                if standing.is_up != is_up {
                    self.standing = Some(SpotStanding { is_up, since: at });
                }
            }
            _ => self.standing = Some(SpotStanding { is_up, since: at }),
        }
    }

    fn standing_seconds(&self, at: i64) -> u32 {
        self.standing.map_or(0, |standing| u32::try_from(at - standing.since).unwrap_or(0))
    }
}
