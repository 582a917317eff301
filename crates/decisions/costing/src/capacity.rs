//! What a node can give, second by second, and what a part of it costs.

use std::ops::AddAssign;

use crate::lives::Life;
use crate::money::{Amount, HourlyPrice};
use crate::price::PriceBook;
use crate::purchase::Purchase;
use crate::record::{NodeShape, PodRecord};
use crate::time::Moment;

/// From one moment to another a node has this and costs that.
pub(crate) struct Stretch {
    pub(crate) from: Moment,
    pub(crate) to: Moment,
    pub(crate) capacity: Capacity,
}

/// GPUs and CPU of a node, its cost per second if it is known, and what that is below the price on demand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    gpus: u32,
    cpu_millis: i64,
    rate: Option<Amount>,
    saved: Amount,
}

/// What pods hold of a node; or, as a difference, what one pod takes or gives back.
#[derive(Clone, Copy, Default)]
pub(crate) struct Held {
    pub(crate) gpus: i64,
    cpu_millis: i64,
}

/// What no pod holds. Below zero if pods hold more than there is.
pub(crate) struct Left {
    pub(crate) gpus: i64,
    pub(crate) rate: Option<Amount>,
    pub(crate) saved: Amount,
    pub(crate) is_overcommitted: bool,
}

impl Capacity {
    fn of(shape: &NodeShape, price: Option<HourlyPrice>, saved: Amount) -> Self {
        let rate = price.map(HourlyPrice::per_second);
        Self { gpus: shape.gpus, cpu_millis: shape.cpu_millis, rate, saved }
    }

    /// What a pod's part costs per second.
    pub(crate) fn share(&self, held: Held) -> Option<Amount> {
        self.rate.map(|rate| self.part_of(rate, held))
    }

    /// How much more a pod's part would cost per second on demand.
    pub(crate) fn saved_share(&self, held: Held) -> Amount {
        self.part_of(self.saved, held)
    }

    /// Whole units of money for each unit of capacity. The remainder of the division stays with what no pod holds, so
    /// that the parts and the rest are exactly the whole.
    fn part_of(&self, rate: Amount, held: Held) -> Amount {
        let (units, held) = self.shared(held);
        if units > 0 { Amount(rate.0.div_euclid(i128::from(units))) * held } else { Amount::ZERO }
    }

    pub(crate) fn left(&self, held: Held) -> Left {
        let (units, units_held) = self.shared(held);
        Left {
            gpus: i64::from(self.gpus) - held.gpus,
            rate: self.rate.zip(self.share(held)).map(|(rate, share)| rate - share),
            saved: self.saved - self.saved_share(held),
            is_overcommitted: units_held > units || held.gpus > i64::from(self.gpus),
        }
    }

    /// A node is shared by its GPUs, a node without GPUs by its CPU: how many units there are, and how many are held.
    fn shared(&self, held: Held) -> (i64, i64) {
        if self.gpus > 0 { (i64::from(self.gpus), held.gpus) } else { (self.cpu_millis, held.cpu_millis) }
    }
}

impl Held {
    pub(crate) fn by(pod: &PodRecord) -> Self {
        Self { gpus: i64::from(pod.gpus), cpu_millis: pod.cpu_millis }
    }

    pub(crate) fn given_back(self) -> Self {
        Self { gpus: -self.gpus, cpu_millis: -self.cpu_millis }
    }
}

impl AddAssign for Held {
    fn add_assign(&mut self, other: Self) {
        self.gpus += other.gpus;
        self.cpu_millis += other.cpu_millis;
    }
}

/// What a node has and costs from `from` until `to`, both within its life: without a gap, each stretch as long as it
/// can be.
pub(crate) fn stretches(life: &Life<'_>, prices: &PriceBook, from: Moment, to: Moment) -> Vec<Stretch> {
    let mut changes = life.node.shape_changes();
    if changes.is_empty() {
        // It was never seen: it has no price, and its seconds are on a line that says so.
        changes.push((life.from, NodeShape::default()));
    }
    let bought = life.node.bought.as_ref();
    let saved = bought.map_or(Amount::ZERO, Purchase::saved_per_second);
    let mut stretches: Vec<Stretch> = Vec::new();
    for (index, (begins, shape)) in changes.iter().enumerate() {
        let ends = changes.get(index + 1).map_or(to, |(at, _)| *at).min(to);
        let mut at = (*begins).max(from);
        if at >= ends {
            continue;
        }
        let cuts = if bought.is_some() { Vec::new() } else { prices.changes(shape, at, ends) };
        for cut in cuts.into_iter().chain([ends]) {
            let price = bought.map(|bought| bought.paid).or_else(|| prices.at(shape, at));
            let capacity = Capacity::of(shape, price, saved);
            match stretches.last_mut() {
                Some(last) if last.capacity == capacity => last.to = cut,
                _ => stretches.push(Stretch { from: at, to: cut, capacity }),
            }
            at = cut;
        }
    }
    stretches
}
