//! What a candidate could have instead, and machines in words.

use std::collections::BTreeMap;

use super::worth::MoveStakes;
use crate::catalogue::OfferKey;
use crate::claim::Claim;
use crate::money::money;
use crate::view::View;

/// What a candidate could have instead.
pub(super) struct Alternative {
    pub stakes: MoveStakes,
    pub words: String,
}

/// Machines in words: how many of which, and what they cost.
pub(super) fn in_words(view: &View<'_>, claims: &[&Claim]) -> String {
    let mut kinds: BTreeMap<&OfferKey, u32> = BTreeMap::new();
    for claim in claims {
        *kinds.entry(&claim.offer).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.into_iter().map(|(offer, count)| format!("{count} × {offer}")).collect();
    let price = claims.iter().map(|claim| price_now(view, claim)).sum();
    format!("{} at {} an hour", kinds.join(", "), money(price))
}

/// What a machine costs, in millionths per hour: what was paid, or less if its offer costs less by now. So no gang
/// leaves an offer for the same one, or leaves a machine because others have become dearer.
pub(super) fn price_now(view: &View<'_>, claim: &Claim) -> i64 {
    let machine = view.catalogue.get(&claim.offer.machine);
    let offer = machine.and_then(|machine| machine.offer(&claim.offer.place));
    offer.map_or(claim.price_micros, |offer| offer.price_micros.min(claim.price_micros))
}
