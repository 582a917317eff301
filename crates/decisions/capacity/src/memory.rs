//! What is remembered from one decision to the next. A new leader begins with nothing: it tries again what its
//! predecessor knew to fail, and counts idle times from zero.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::{ClusterState, GangKey};
use jiff::{SignedDuration, Timestamp};

use crate::backoff::Backoff;
use crate::catalogue::OfferKey;
use crate::claim::{Claim, Launch, LaunchKey};
use crate::cluster::waits_for_machines;
use crate::interruptions::Interruptions;
use crate::moves::memory::Moves;
use crate::real_rooms::RealRooms;

/// How long an offer is left alone after its first failure; twice as long after each further one …
const SHUN_FIRST: SignedDuration = SignedDuration::from_secs(30);
/// … up to this: a cloud that was out of stock may have machines again within minutes.
const SHUN_MOST: SignedDuration = SignedDuration::from_mins(10);
/// How long nothing is ordered after an order that was not taken up. An order that no buyer sees costs nothing, but
/// waiting gangs would be told that machines are on their way.
const SILENCE: SignedDuration = SignedDuration::from_secs(30);
/// Their reason instead.
const SILENT: &str = "the last order was not taken up: does Karpenter run? It is tried again soon";

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Launches that were ordered and have not become ordinary machines yet.
    pub ordered: BTreeMap<LaunchKey, Ordered>,
    /// Since when launches have been ready without being used.
    pub ready: BTreeMap<LaunchKey, Timestamp>,
    /// Since when claims of a launch have been seen.
    pub first_seen: BTreeMap<LaunchKey, Timestamp>,
    /// Launches that were given up, as long as claims of them are seen.
    pub given_up: BTreeSet<LaunchKey>,
    /// Since when machines have had no pods.
    pub idle: BTreeMap<Arc<str>, Timestamp>,
    /// Runs that were moved to cheaper machines.
    pub moves: Moves,
    /// Gangs that wait for spot, until they have started.
    pub waits_for_spot: BTreeMap<GangKey, WaitsForSpot>,
    /// What spot machines taught.
    pub interruptions: Interruptions,
    /// Machines that were paid for in vain.
    pub backoff: Backoff,
    /// What machines have, if their types promise more.
    pub rooms: RealRooms,
    shunned: BTreeMap<OfferKey, Shunned>,
    silent_until: Option<Timestamp>,
}

/// A gang that waits for spot, though on-demand machines could be bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitsForSpot {
    /// Since when.
    pub since: Timestamp,
    /// When the outlook last said that it should.
    pub asked: Option<Timestamp>,
}

/// An order that was handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// What was ordered.
    pub launch: Launch,
    /// When.
    pub at: Timestamp,
    /// The claims of it that have been seen.
    pub seen: BTreeSet<Arc<str>>,
}

impl Ordered {
    /// The names of its claims.
    pub fn names(&self) -> impl Iterator<Item = Arc<str>> {
        (0..self.launch.machines.len()).map(|index| self.launch.claim_name(index))
    }

    /// What was ordered by a name.
    pub fn offer_of(&self, name: &str) -> Option<&OfferKey> {
        let index = self.names().position(|its| *its == *name)?;
        self.launch.machines.get(index).map(|(offer, _)| offer)
    }
}

/// An offer that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shunned {
    /// Its last failure.
    at: Timestamp,
    /// Its first failure since it worked.
    since: Timestamp,
    until: Timestamp,
    failures: u32,
    why: String,
}

impl Memory {
    /// An offer failed: others are tried for a while. A failure while the offer is left alone was ordered before, and
    /// has the same cause. A failure of long ago has no effect any more.
    pub fn failed(&mut self, offer: &OfferKey, why: &str, now: Timestamp) {
        if let Some(known) = self.shunned.get_mut(offer).filter(|it| it.until > now) {
            known.at = now;
            return;
        }
        self.shunned.retain(|_, it| now.duration_since(it.until) <= SHUN_MOST);
        let failures = self.shunned.get(offer).map_or(0, |before| before.failures).saturating_add(1);
        let wait = (SHUN_FIRST * 2_i32.pow(failures.min(6) - 1)).min(SHUN_MOST);
        let until = now.saturating_add(wait).unwrap_or(Timestamp::MAX);
        let since = self.failing_since(offer).unwrap_or(now);
        self.shunned.insert(offer.clone(), Shunned { at: now, since, until, failures, why: why.to_owned() });
    }

    /// An offer worked.
    pub fn worked(&mut self, offer: &OfferKey) {
        self.shunned.remove(offer);
    }

    /// Why an offer is not tried now.
    pub fn shuns(&self, offer: &OfferKey, now: Timestamp) -> Option<&str> {
        self.shunned.get(offer).filter(|it| it.until > now).map(|it| it.why.as_str())
    }

    /// The buyer did not take up an order.
    pub fn not_taken_up(&mut self, now: Timestamp) {
        self.silent_until = Some(now.saturating_add(SILENCE).unwrap_or(Timestamp::MAX));
    }

    /// Why nothing at all is ordered now.
    pub fn silence(&self, now: Timestamp) -> Option<&'static str> {
        self.silent_until.filter(|until| *until > now).map(|_| SILENT)
    }

    /// When an offer last failed, unless it has worked since.
    pub fn last_failure(&self, offer: &OfferKey) -> Option<Timestamp> {
        self.shunned.get(offer).map(|it| it.at)
    }

    /// Since when an offer has failed, unless it has worked since.
    pub fn failing_since(&self, offer: &OfferKey) -> Option<Timestamp> {
        self.shunned.get(offer).map(|it| it.since)
    }

    /// Learns from machines that are there, and from those that were. An offer that took a machine back is left alone
    /// for a while.
    pub fn look(&mut self, state: &ClusterState, claims: &[Claim], now: Timestamp) {
        for offer in self.interruptions.look(state, claims, now) {
            self.failed(&offer, &format!("{offer} was taken back"), now);
        }
        let failing = self.shunned.iter().filter(|(_, it)| it.until > now).map(|(offer, _)| offer);
        self.interruptions.look_at_market(failing, now);
    }

    /// Takes in which gangs wait for spot; a gang that has started is forgotten.
    pub fn remember_waits(&mut self, waits: BTreeMap<GangKey, WaitsForSpot>, state: &ClusterState) {
        self.waits_for_spot.extend(waits);
        self.waits_for_spot.retain(|gang, _| waits_for_machines(state, gang));
    }

    /// When the next offer is worth a try again.
    pub fn next_try(&self, now: Timestamp) -> Option<Timestamp> {
        let moments = self.shunned.values().map(|it| it.until).chain(self.silent_until);
        moments.chain(self.backoff.next_try(now)).filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::Memory;
    use crate::testing::offer_key;

    #[test]
    fn an_offer_that_fails_again_and_again_is_left_alone_for_ever_longer_up_to_a_bound() {
        let (mut memory, offer) = (Memory::default(), offer_key("h100", "a"));
        let mut waits = Vec::new();
        let mut now = Timestamp::UNIX_EPOCH;
        for _ in 0..7 {
            memory.failed(&offer, "out of stock", now);
            memory.failed(&offer, "out of stock", now);
            let until = memory.next_try(now).unwrap();
            waits.push(until.duration_since(now).as_secs());
            let before = until - SignedDuration::from_secs(1);
            assert_eq!(memory.shuns(&offer, before), Some("out of stock"));
            assert_eq!(memory.shuns(&offer, until), None);
            now = until;
        }
        assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600], "two that fail together are one failure");
        assert_eq!(memory.failing_since(&offer), Some(Timestamp::UNIX_EPOCH));
        now += SignedDuration::from_mins(11);
        memory.failed(&offer, "out of stock", now);
        assert_eq!(memory.failing_since(&offer), Some(now), "what was long ago is another matter");
        memory.worked(&offer);
        memory.failed(&offer, "out of stock", Timestamp::UNIX_EPOCH);
        assert_eq!(memory.next_try(Timestamp::UNIX_EPOCH).unwrap().as_second(), 30, "it begins anew");
    }
}
