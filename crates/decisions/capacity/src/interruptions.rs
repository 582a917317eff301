//! What our spot machines taught: how often each offer is taken back, and when it could be bought.
//!
//! ```text
//!   claims with pods, look after look ──► hours of each offer ──┐
//!   one of them is gone, going or told to go ──► interruptions ─┴─► (n + 1) / (h + 4) per hour
//!   every ten minutes: which offers work, which fail ───────────────► lifetimes and outages, for the outlook
//! ```
//!
//! Machines of an offer mostly go together, so what happens within [`TOGETHER`] is one interruption, and an hour with
//! ten machines is one hour. Before anything was seen, spot lasts four hours, as in [`crate::spot`]. What was seen
//! counts half after [`HALF_LIFE`]: a gang that left an offer sees nothing more of it, and would otherwise never come
//! back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::names::LEAVING_TAINT;
use cluster_model::ClusterState;
use jiff::{SignedDuration, Timestamp};

use crate::catalogue::OfferKey;
use crate::claim::Claim;
use crate::idle::is_empty;
use crate::spot::lifetimes::PRIOR_UP_SECONDS;
use crate::spot::{Lifetimes, MarketHistory};

/// Machines of an offer that go within this time go together: a notice is two minutes.
pub const TOGETHER: SignedDuration = SignedDuration::from_secs(120);
/// The time after which what was seen counts half.
pub const HALF_LIFE: SignedDuration = SignedDuration::from_hours(24);
/// A longer time without a look teaches nothing, because what happened in between is unknown.
const GAP_MAX: SignedDuration = SignedDuration::from_mins(10);
/// How often the market is looked at: chances per look (`crate::spot`) were measured with looks ten minutes apart.
const LOOK_EVERY: SignedDuration = SignedDuration::from_mins(10);

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interruptions {
    looked: Option<Timestamp>,
    offers: BTreeMap<OfferKey, Seen>,
    /// Spot machines that had pods of ours at the last look.
    in_use: BTreeMap<Arc<str>, OfferKey>,
    /// Those among them that are known to go.
    going: BTreeSet<Arc<str>>,
    market: MarketHistory,
    market_looked: Option<Timestamp>,
}

/// What was seen of one offer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    hours: f64,
    interruptions: f64,
    last: Option<Timestamp>,
}

impl Interruptions {
    /// Takes in the state of spot machines. Returns the offers that took one back.
    pub fn look(&mut self, state: &ClusterState, claims: &[Claim], now: Timestamp) -> BTreeSet<OfferKey> {
        let elapsed = self.looked.map_or(SignedDuration::ZERO, |looked| now.duration_since(looked));
        self.looked = Some(now);
        self.forget(elapsed);
        let spot = claims.iter().filter(|claim| claim.offer.place.is_spot());
        let stays: BTreeMap<&Arc<str>, &Claim> =
            spot.filter(|claim| !is_going(state, claim)).map(|claim| (&claim.name, claim)).collect();
        let (mut kept, mut lost) = (BTreeSet::new(), BTreeSet::new());
        for (name, offer) in &self.in_use {
            if stays.contains_key(name) {
                kept.insert(offer.clone());
            } else if self.going.insert(Arc::clone(name)) {
                lost.insert(offer.clone());
            }
        }
        for offer in kept.iter().filter(|_| elapsed <= GAP_MAX) {
            self.offers.entry(offer.clone()).or_default().hours += hours(elapsed);
        }
        for offer in &lost {
            self.offers.entry(offer.clone()).or_default().interrupted(now);
        }
        let is_known = |name: &Arc<str>| claims.iter().any(|claim| claim.name == *name);
        self.going.retain(is_known);
        let in_use = stays.values().filter(|claim| !is_empty(state, claim.node.as_ref()));
        self.in_use = in_use.map(|claim| (Arc::clone(&claim.name), claim.offer.clone())).collect();
        lost
    }

    /// Takes in, every ten minutes, that offers in use can be bought and that others cannot.
    pub fn look_at_market<'a>(&mut self, failing: impl Iterator<Item = &'a OfferKey>, now: Timestamp) {
        if self.market_looked.is_some_and(|looked| now.duration_since(looked) < LOOK_EVERY) {
            return;
        }
        self.market_looked = Some(now);
        let failing = failing.filter(|offer| offer.place.is_spot()).map(|offer| (name(offer), false));
        // An offer that fails now cannot be bought, even if it still has machines.
        let mut looks: BTreeMap<Arc<str>, bool> =
            self.in_use.values().map(|offer| (name(offer), true)).collect();
        looks.extend(failing);
        if !looks.is_empty() {
            self.market.look(now.as_second(), looks.iter().map(|(name, is_up)| (name, *is_up)));
        }
    }

    /// How often an offer is taken back, per hour.
    pub fn per_hour(&self, offer: &OfferKey) -> f64 {
        let seen = self.offers.get(offer).copied().unwrap_or_default();
        (seen.interruptions + 1.0) / (seen.hours + f64::from(PRIOR_UP_SECONDS) / 3_600.0)
    }

    /// What was learned about how long an offer can be bought, and how long it cannot.
    pub fn lifetimes_of(&self, offer: &OfferKey) -> Lifetimes {
        self.market.lifetimes_of(&name(offer)).copied().unwrap_or_default()
    }

    fn forget(&mut self, elapsed: SignedDuration) {
        let left = 0.5_f64.powf(elapsed.as_secs_f64() / HALF_LIFE.as_secs_f64());
        for seen in self.offers.values_mut() {
            seen.hours *= left;
            seen.interruptions *= left;
        }
        // After some weeks nothing is left of an offer that is not used.
        self.offers.retain(|_, seen| seen.hours + seen.interruptions > 1e-6);
    }
}

impl Seen {
    fn interrupted(&mut self, now: Timestamp) {
        if self.last.is_none_or(|last| now.duration_since(last) > TOGETHER) {
            self.interruptions += 1.0;
        }
        self.last = Some(now);
    }
}

/// Whether a machine was told to leave, by its node agent or by its claim.
fn is_going(state: &ClusterState, claim: &Claim) -> bool {
    let node = claim.node.as_ref().and_then(|name| state.node_object(name));
    claim.leaving || node.is_some_and(|node| node.taints.iter().any(|taint| &*taint.key == LEAVING_TAINT))
}

fn hours(elapsed: SignedDuration) -> f64 {
    elapsed.as_secs_f64() / 3_600.0
}

fn name(offer: &OfferKey) -> Arc<str> {
    offer.to_string().into()
}

#[cfg(test)]
mod tests;
