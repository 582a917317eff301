//! Spares that are missing, at the lowest price.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::View;
use crate::catalogue::OfferKey;
use crate::claim::{Launch, LaunchKey, Purpose};
use crate::memory::Memory;
use crate::money::money;

/// Orders for spares: one launch for each machine type, never of spot machines, which would go when they are needed.
pub fn spares(view: &View<'_>, missing: &BTreeMap<Arc<str>, u32>, memory: &Memory) -> Vec<Launch> {
    missing.iter().filter_map(|(machine, count)| launch(view, machine, *count, memory)).collect()
}

fn launch(view: &View<'_>, name: &Arc<str>, count: u32, memory: &Memory) -> Option<Launch> {
    let purpose = Purpose::Spare(Arc::clone(name));
    // One at a time: what is on its way counts once it is seen.
    let is_under_way = |key: &LaunchKey| key.purpose == purpose;
    if memory.silence(view.now).is_some() || memory.ordered.keys().chain(&memory.given_up).any(is_under_way) {
        return None;
    }
    let machine = view.catalogue.get(name)?;
    let key =
        |offer: &crate::catalogue::Offer| OfferKey { machine: Arc::clone(name), place: offer.place.clone() };
    let is_steady = |offer: &&crate::catalogue::Offer| !offer.place.is_spot();
    let steady = machine.offers.iter().filter(is_steady);
    let open = steady.filter(|offer| memory.shuns(&key(offer), view.now).is_none());
    let cheapest = open.min_by_key(|offer| (offer.price_micros, offer.place.clone()))?;
    let boot = SignedDuration::from_secs(i64::from(machine.boot_seconds));
    let price_micros = cheapest.price_micros.saturating_mul(i64::from(count));
    Some(Launch {
        key: LaunchKey { purpose, number: view.now.as_second() },
        machines: vec![(key(cheapest), cheapest.price_micros); count as usize],
        ready_by: view.now.saturating_add(boot).unwrap_or(Timestamp::MAX),
        price_micros,
        why: format!("{count} × {} as spares, at {} an hour", key(cheapest), money(price_micros)),
    })
}
