//! Machines that were paid for in vain. Whoever they were ordered for leaves their kind alone, twice as long each time.
//!
//! | An order that | costs | is tried again |
//! |---|---|---|
//! | finds no stock | nothing | within minutes, elsewhere at once (`memory.rs`) |
//! | is late, or gets through in part | its machines until then | elsewhere at once; after that as the next row |
//! | is ready and not used | its machines until then | after a quarter of an hour, half an hour, … four hours |
//!
//! So nobody orders one kind more than four times in an hour, whatever its `MachineType` says and its machines do. Late
//! spot machines say nothing about those on demand: a deadline may depend on those.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::machine_type::CapacityType;
use cluster_model::ClusterState;
use jiff::{SignedDuration, Timestamp};

use crate::catalogue::{Catalogue, OfferKey};
use crate::claim::Purpose;
use crate::cluster::waits_for_machines;

/// The first wait …
const WAIT_FIRST: SignedDuration = SignedDuration::from_mins(15);
/// … and the longest.
const WAIT_MOST: SignedDuration = SignedDuration::from_hours(4);

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    vain: BTreeMap<(Purpose, MachineKind), InVain>,
}

/// A machine type, bought in one way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineKind {
    /// The type.
    pub machine: Arc<str>,
    /// How it is bought.
    pub capacity_type: CapacityType,
}

impl From<&OfferKey> for MachineKind {
    fn from(offer: &OfferKey) -> Self {
        Self { machine: Arc::clone(&offer.machine), capacity_type: offer.place.capacity_type }
    }
}

/// How an order was in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vain {
    /// It did not come in time. The first time, another place may do better.
    Late,
    /// It was ready, and not used. The same machines elsewhere, or bought in another way, are of no more use.
    Unused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct InVain {
    times: u32,
    until: Timestamp,
    why: String,
}

impl Backoff {
    /// An order of this kind was in vain.
    pub fn in_vain(&mut self, purpose: &Purpose, kind: &MachineKind, vain: Vain, why: &str, now: Timestamp) {
        let alike = match vain {
            Vain::Late => vec![kind.clone()],
            Vain::Unused => [CapacityType::OnDemand, CapacityType::Spot, CapacityType::Reserved]
                .map(|capacity_type| MachineKind { capacity_type, ..kind.clone() })
                .into(),
        };
        for kind in alike {
            self.leave(purpose, kind, vain, why, now);
        }
    }

    fn leave(&mut self, purpose: &Purpose, kind: MachineKind, vain: Vain, why: &str, now: Timestamp) {
        let machine = Arc::clone(&kind.machine);
        let key = (purpose.clone(), kind);
        let times = self.vain.get(&key).map_or(0, |before| before.times).saturating_add(1);
        let waits = match vain {
            Vain::Late => times - 1,
            Vain::Unused => times,
        };
        let wait = match waits {
            0 => SignedDuration::ZERO,
            waits => WAIT_FIRST.saturating_mul(1 << (waits - 1).min(8)).min(WAIT_MOST),
        };
        let until = now.saturating_add(wait).unwrap_or(Timestamp::MAX);
        let why = format!("{machine}: {why}; tried again after {until:.0}");
        self.vain.insert(key, InVain { times, until, why });
    }

    /// Why an offer is not ordered for this purpose now.
    pub fn leaves_alone(&self, purpose: &Purpose, offer: &OfferKey, now: Timestamp) -> Option<&str> {
        if self.vain.is_empty() {
            return None;
        }
        let in_vain = self.vain.get(&(purpose.clone(), offer.into()))?;
        (in_vain.until > now).then_some(in_vain.why.as_str())
    }

    /// Machines that were ordered for this purpose are of use: all is forgotten.
    pub fn of_use(&mut self, purpose: &Purpose) {
        self.vain.retain(|(its, _), _| its != purpose);
    }

    /// Forgets gangs that wait no more, and types that are gone.
    pub fn tidy(&mut self, state: &ClusterState, catalogue: &Catalogue) {
        self.vain.retain(|(purpose, kind), _| {
            let matters = match purpose {
                Purpose::Gang(gang) => waits_for_machines(state, gang),
                Purpose::Spare(_) => true,
            };
            matters && catalogue.contains_key(&kind.machine)
        });
    }

    /// When the next type is worth a try again.
    pub fn next_try(&self, now: Timestamp) -> Option<Timestamp> {
        self.vain.values().map(|it| it.until).filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use api_types::machine_type::CapacityType;

    use super::{Backoff, Vain};
    use crate::catalogue::OfferKey;
    use crate::claim::Purpose;
    use crate::testing::{at, catalogue, gang, machine, members, offer_key, place, state};

    /// The waits, in minutes, if each order is in vain as soon as it may be made.
    fn waits(vain: Vain) -> Vec<i64> {
        let (mut backoff, purpose) = (Backoff::default(), Purpose::Gang(gang("train")));
        let mut now = Timestamp::UNIX_EPOCH;
        let mut waits = Vec::new();
        for _ in 0..7 {
            let (here, elsewhere) = (offer_key("h100", "a"), offer_key("h100", "b"));
            backoff.in_vain(&purpose, &(&here).into(), vain, "unused", now);
            let until = backoff.next_try(now).unwrap_or(now);
            waits.push(until.duration_since(now).as_secs() / 60);
            assert_eq!(backoff.leaves_alone(&purpose, &elsewhere, until), None);
            if until > now {
                assert!(backoff.leaves_alone(&purpose, &elsewhere, now).is_some());
            }
            now = until;
        }
        waits
    }

    #[test]
    fn an_order_that_nobody_uses_is_repeated_ever_later_and_a_late_one_once_at_once() {
        assert_eq!(waits(Vain::Unused), [15, 30, 60, 120, 240, 240, 240]);
        assert_eq!(waits(Vain::Late), [0, 15, 30, 60, 120, 240, 240]);
    }

    #[test]
    fn late_spot_says_nothing_about_machines_on_demand_but_what_nobody_uses_is_of_no_use_bought_otherwise() {
        let (train, on_demand) = (Purpose::Gang(gang("train")), offer_key("h100", "a"));
        let spot = OfferKey { place: place("a", CapacityType::Spot), ..on_demand.clone() };
        for (vain, also_on_demand) in [(Vain::Late, false), (Vain::Unused, true)] {
            let mut backoff = Backoff::default();
            for _ in 0..2 {
                backoff.in_vain(&train, &(&spot).into(), vain, "", at(0));
            }
            assert!(backoff.leaves_alone(&train, &spot, at(1)).is_some());
            assert_eq!(backoff.leaves_alone(&train, &on_demand, at(1)).is_some(), also_on_demand);
        }
    }

    #[test]
    fn only_who_paid_in_vain_leaves_only_that_type_alone_and_until_it_waits_no_more() {
        let (train, other) = (Purpose::Gang(gang("train")), Purpose::Gang(gang("other")));
        let mut backoff = Backoff::default();
        let (h100, a100) = (offer_key("h100", "a"), offer_key("a100", "a"));
        backoff.in_vain(&train, &(&h100).into(), Vain::Unused, "unused", at(0));
        let why = backoff.leaves_alone(&train, &h100, at(1)).unwrap();
        assert_eq!(why, "h100: unused; tried again after 1970-01-01T00:15:00Z");
        assert_eq!(backoff.leaves_alone(&other, &h100, at(1)), None);
        assert_eq!(backoff.leaves_alone(&train, &a100, at(1)), None);
        let (waiting, types) = (state(members("train", 2, 8)), catalogue([machine("h100")]));
        let known = backoff.clone();
        backoff.tidy(&waiting, &types);
        assert_eq!(backoff, known);
        backoff.clone().tidy(&waiting, &catalogue([]));
        backoff.tidy(&state([]), &types);
        assert_eq!(backoff, Backoff::default());
        let mut forgotten = known;
        forgotten.of_use(&train);
        assert_eq!(forgotten, Backoff::default());
    }
}
