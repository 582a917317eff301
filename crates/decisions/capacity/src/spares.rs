//! Spares that are missing, at the lowest price.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::catalogue::OfferKey;
use crate::claim::{Launch, LaunchKey, Purpose};
use crate::memory::Memory;
use crate::money::money;
use crate::tally::Tally;
use crate::view::View;

/// Orders for spares: one launch for each machine type, never of spot machines, which might be taken back when they
/// are needed. As many as the caps allow beside what was bought for gangs.
pub fn spares(
    view: &View<'_>,
    missing: &BTreeMap<Arc<str>, u32>,
    for_gangs: &[Launch],
    memory: &Memory,
) -> Vec<Launch> {
    if view.buying.stopped.is_some() {
        return Vec::new();
    }
    let mut tally = Tally::so_far(view, memory, for_gangs);
    let mut launches = Vec::new();
    for (machine, count) in missing {
        let Some(mut launch) = launch(view, machine, *count, memory) else { continue };
        while tally.refuses(None, &launch.machines).is_some() {
            launch.machines.pop();
        }
        if !launch.machines.is_empty() {
            tally.take(None, &launch.machines);
            launches.push(with_words(launch));
        }
    }
    launches
}

/// With its price and its reason.
fn with_words(launch: Launch) -> Launch {
    let price_micros = launch.machines.iter().map(|(_, price)| price).sum();
    let offer = launch.machines.first().map(|(offer, _)| offer.to_string()).unwrap_or_default();
    let why = format!("{} × {offer} as spares, at {} an hour", launch.machines.len(), money(price_micros));
    Launch { price_micros, why, ..launch }
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
    let open = steady.filter(|offer| {
        let key = key(offer);
        let is_left_alone = memory.backoff.leaves_alone(&purpose, &key, view.now).is_some();
        !is_left_alone && memory.shuns(&key, view.now).is_none()
    });
    let cheapest = open.min_by_key(|offer| (offer.price_micros, offer.place.clone()))?;
    let boot = SignedDuration::from_secs(i64::from(machine.boot_seconds));
    Some(Launch {
        key: LaunchKey { purpose, number: view.now.as_second() },
        queue: None,
        machines: vec![(key(cheapest), cheapest.price_micros); count as usize],
        ready_by: view.now.saturating_add(boot).unwrap_or(Timestamp::MAX),
        price_micros: 0,
        why: String::new(),
    })
}
