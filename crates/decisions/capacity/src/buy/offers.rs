//! What can be bought now, and the cheapest of it for one gang.
//!
//! **A spot offer costs more than its price.** When it is taken back, a changeover and the work since the last save
//! are paid for again. So it is compared by `price · (1 + rate · (boot + restore + lost work))`, with the rate at
//! which this offer was taken back so far ([`crate::interruptions`]): gangs spread over zones and types by price and
//! by what was learned. A gang on several offers loses all of them with one; that is not counted.
//!
//! **Ceilings are on prices**, of whole machines and of all together, not on expected costs.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::Pod;
use jiff::Timestamp;

use super::need::{Ceiling, Need, admits, location, room};
use super::trial::Shape;
use crate::catalogue::{CatalogueMachine, Offer, OfferKey};
use crate::claim::Purpose;
use crate::demand::Limits;
use crate::launches::RESTORE_SECONDS;
use crate::memory::Memory;
use crate::mix::{self, Mix, Refusal};
use crate::money::money;
use crate::offering::Offering;
use crate::reserve;
use crate::view::View;

/// See the module.
pub(super) struct Offers<'a> {
    all: Vec<Available<'a>>,
    memory: &'a Memory,
    now: Timestamp,
}

struct Available<'a> {
    key: OfferKey,
    machine: &'a CatalogueMachine,
    offer: &'a Offer,
    /// How many are left.
    left: Option<u32>,
    /// Why none are tried.
    shunned: Option<&'a str>,
    /// Since when it has failed.
    failing_since: Option<Timestamp>,
    /// How often it is taken back, per hour.
    taken_back: f64,
}

/// Which offers are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Among {
    /// Those that can be bought now and stay.
    Steady,
    /// Those that can be bought now.
    Any,
    /// The same, and spot that failed recently.
    AnyIfSpotWereBack,
}

/// The cheapest machines for a gang.
pub(super) struct Quote {
    mix: Mix,
    /// What they cost, in millionths per hour.
    pub price_micros: i64,
    /// What they are expected to cost, including what is paid for again when they are taken back.
    pub expected_micros: i64,
    pub has_spot: bool,
    pub boot_seconds: u32,
}

/// Why there is no quote.
pub(super) enum Lack {
    /// No machines, in words.
    Machines(String),
    /// The cheapest machines cost more than they may.
    Ceiling { ceiling: Ceiling, cheapest_micros: i64 },
}

impl<'a> Offers<'a> {
    /// What can be bought, less what was bought.
    pub fn new(view: &View<'a>, memory: &'a Memory) -> Self {
        let available = |machine: &'a CatalogueMachine, offer: &'a Offer| {
            let key = OfferKey { machine: machine.name.clone(), place: offer.place.clone() };
            let taken = view.claims.iter().filter(|claim| claim.offer == key).count();
            let taken = u32::try_from(taken).unwrap_or(u32::MAX);
            Available {
                machine,
                offer,
                left: offer.most.map(|most| most.saturating_sub(taken)),
                shunned: memory.shuns(&key, view.now),
                failing_since: memory.failing_since(&key),
                taken_back: if offer.place.is_spot() { memory.interruptions.per_hour(&key) } else { 0.0 },
                key,
            }
        };
        let machines = view.catalogue.values();
        let all =
            machines.flat_map(|machine| machine.offers.iter().map(move |offer| available(machine, offer)));
        Self { all: all.collect(), memory, now: view.now }
    }

    /// The cheapest machines by expected cost; if those cost more than they may, the cheapest by price.
    pub fn quote(&self, need: &Need<'_>, among: Among) -> Result<Quote, Lack> {
        let by_expectation = self.solve(need, among, true)?;
        let Some(ceiling) = need.ceiling.filter(|it| by_expectation.price_micros > it.micros) else {
            return Ok(by_expectation);
        };
        let by_price = self.solve(need, among, false)?;
        if by_price.price_micros > ceiling.micros {
            return Err(Lack::Ceiling { ceiling, cheapest_micros: by_price.price_micros });
        }
        Ok(by_price)
    }

    fn solve(&self, need: &Need<'_>, among: Among, by_expectation: bool) -> Result<Quote, Lack> {
        let suits = self.all.iter().enumerate().filter(|(_, it)| {
            it.is_among(among) && it.suits(need.lead()) && self.left_alone(need, it).is_none()
        });
        let offerings: Vec<Offering> =
            suits.map(|(index, it)| it.offering(index, need, by_expectation)).collect();
        let mix = mix::decide(&[need.demand()], &offerings, &need.rooms, &Limits::default());
        if let Some(refused) = mix.refused.first() {
            return Err(Lack::Machines(self.why_not(need, among, in_words(&refused.reason))));
        }
        let mut quote = Quote { mix, price_micros: 0, expected_micros: 0, has_spot: false, boot_seconds: 0 };
        for (it, count) in self.bought(&quote.mix) {
            quote.price_micros += it.offer.price_micros * i64::from(count);
            quote.expected_micros += it.expected_micros(need) * i64::from(count);
            quote.has_spot |= it.is_spot();
            quote.boot_seconds = quote.boot_seconds.max(it.machine.boot_seconds);
        }
        Ok(quote)
    }

    fn bought<'b>(&'b self, mix: &'b Mix) -> impl Iterator<Item = (&'b Available<'a>, u32)> {
        mix.purchases.iter().filter_map(|purchase| {
            let index: usize = purchase.offering.parse().ok()?;
            Some((self.all.get(index)?, purchase.count))
        })
    }

    /// Subtracts from the stock what was decided.
    pub fn take(&mut self, quote: &Quote) {
        for purchase in &quote.mix.purchases {
            if let Some(it) =
                purchase.offering.parse::<usize>().ok().and_then(|index| self.all.get_mut(index))
            {
                it.left = it.left.map(|left| left.saturating_sub(purchase.count));
            }
        }
    }

    /// What a gang would get.
    pub fn shape(&self, need: &Need<'_>, quote: &Quote, because: &str) -> Shape {
        let mark = reserve::mark(need.gang);
        let (mut machines, mut nodes, mut words) = (Vec::new(), Vec::new(), Vec::new());
        for (it, count) in self.bought(&quote.mix) {
            words.push(format!("{count} × {}", it.key));
            for _ in 0..count {
                let name = format!("{mark}-{}", nodes.len());
                nodes.push(it.machine.node(&it.offer.place, name, &mark));
                machines.push((it.key.clone(), it.offer.price_micros));
            }
        }
        let why = format!(
            "{} at {} an hour for {} members of {} GPUs{because}",
            words.join(", "),
            money(quote.price_micros),
            need.pods.len(),
            need.lead().requests.gpus,
        );
        let (gang, queue) = (need.gang.clone(), need.queue.clone());
        Shape { gang, queue, machines, nodes, boot_seconds: quote.boot_seconds, why }
    }

    /// Offers of spot that would suit, and others.
    pub fn spot_for<'b>(&'b self, need: &'b Need<'_>) -> impl Iterator<Item = (&'b OfferKey, bool)> {
        let spot = self.all.iter().filter(|it| it.is_spot());
        spot.map(move |it| (&it.key, it.suits(need.lead())))
    }

    /// Since when no suitable spot could be bought: since the last suitable offer failed for the first time.
    pub fn dry_since(&self, need: &Need<'_>) -> Option<Timestamp> {
        let suits = self.all.iter().filter(|it| it.is_spot() && it.suits(need.lead()));
        suits.filter_map(|it| it.failing_since).max()
    }

    /// What happened to suitable spot, in words.
    pub fn dry(&self, need: &Need<'_>) -> Option<String> {
        self.failed(|it| it.is_spot() && it.suits(need.lead()))
    }

    /// Why an offer is not tried again for this gang now.
    fn left_alone(&self, need: &Need<'_>, it: &Available<'_>) -> Option<&'a str> {
        let purpose = Purpose::Gang(need.gang.clone());
        self.memory.backoff.leaves_alone(&purpose, &it.key, self.now)
    }

    /// Why nothing can be bought; suitable offers that failed recently come first, then machines that are smaller than
    /// their types promise.
    fn why_not(&self, need: &Need<'_>, among: Among, otherwise: String) -> String {
        let is_meant =
            |it: &Available<'_>| (among != Among::Steady || !it.is_spot()) && it.suits(need.lead());
        if let Some(failed) = self.failed(is_meant) {
            return format!("{failed}; tried again soon");
        }
        let suits: Vec<&Available<'_>> = self.all.iter().filter(|it| is_meant(it)).collect();
        let in_vain: BTreeSet<&str> = suits.iter().filter_map(|it| self.left_alone(need, it)).collect();
        let types: BTreeMap<&str, &CatalogueMachine> =
            suits.iter().map(|it| (&*it.machine.name, it.machine)).collect();
        let smaller = self.memory.rooms.words(types.into_values());
        let known: Vec<&str> = in_vain.into_iter().chain(smaller.iter().map(String::as_str)).collect();
        if known.is_empty() { otherwise } else { known.join("; ") }
    }

    fn failed(&self, is_meant: impl Fn(&Available<'_>) -> bool) -> Option<String> {
        let shunned: BTreeSet<&str> =
            self.all.iter().filter(|it| is_meant(it)).filter_map(|it| it.shunned).collect();
        let tried: Vec<&str> = shunned.into_iter().collect();
        (!tried.is_empty()).then(|| tried.join("; "))
    }
}

impl Quote {
    /// Whether nothing has to be bought: there seems to be room.
    pub fn is_room(&self) -> bool {
        self.mix.purchases.is_empty()
    }
}

impl Lack {
    /// Why, in words.
    pub fn why(&self) -> String {
        match self {
            Self::Machines(why) => why.clone(),
            Self::Ceiling { ceiling: Ceiling { micros, of }, cheapest_micros } => {
                format!("{of} is {} an hour, and {} would be needed", money(*micros), money(*cheapest_micros))
            }
        }
    }
}

impl Available<'_> {
    fn is_spot(&self) -> bool {
        self.offer.place.is_spot()
    }

    fn is_among(&self, among: Among) -> bool {
        match among {
            Among::Steady => self.shunned.is_none() && !self.is_spot(),
            Among::Any => self.shunned.is_none(),
            Among::AnyIfSpotWereBack => self.shunned.is_none() || self.is_spot(),
        }
    }

    /// Whether a member may be placed on it, apart from room.
    fn suits(&self, pod: &Pod) -> bool {
        let node = self.machine.node(&self.offer.place, "", "");
        (!self.is_spot() || pod.terms.takes_spot && pod.terms.buys_spot) && admits(&node, pod)
    }

    /// What an hour of work on it is expected to cost.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "prices, of some hours")]
    fn expected_micros(&self, need: &Need<'_>) -> i64 {
        let again = f64::from(self.machine.boot_seconds)
            + f64::from(RESTORE_SECONDS)
            + f64::from(need.lost_seconds_expected());
        (self.offer.price_micros as f64 * (1.0 + self.taken_back * again / 3_600.0)).round() as i64
    }

    fn offering(&self, index: usize, need: &Need<'_>, by_expectation: bool) -> Offering {
        let node = self.machine.node(&self.offer.place, "", "");
        let price = if by_expectation { self.expected_micros(need) } else { self.offer.price_micros };
        Offering {
            id: index.to_string(),
            instance_type: self.machine.instance_type.to_string(),
            location: location(&node, need.level()),
            price_per_hour: u64::try_from(price).unwrap_or(0),
            machine: room(&self.machine.room),
            boot_seconds: self.machine.boot_seconds,
            stock: self.left,
        }
    }
}

/// Why a gang is not served when it is the only one.
fn in_words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NoOffering(_) => "no machine type suits even one of its members".to_owned(),
        Refusal::Stock { members, places } => {
            format!("there are machines for {places} of its {members} members only")
        }
        // Limits of the mix, of which we set none.
        Refusal::GangCeiling { .. }
        | Refusal::QueueGpus { .. }
        | Refusal::Budget { .. }
        | Refusal::Taken { .. } => "no machines are left for it".to_owned(),
    }
}
