//! The market as it is seen now.

use std::sync::Arc;

/// Millionths of the currency per machine and hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HourlyPrice(pub u64);

impl HourlyPrice {
    /// As a number to compute expectations with; exact below 2^53 millionths.
    #[allow(clippy::cast_precision_loss, reason = "nobody pays nine milliards an hour")]
    pub fn micros(self) -> f64 {
        self.0 as f64
    }
}

/// A type of machine in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarketOffering {
    /// Its name; ties are broken by it.
    pub name: Arc<str>,
    /// Whether a spot machine can be bought now.
    pub has_spot: bool,
    /// What it costs, or would cost if there were one.
    pub spot: HourlyPrice,
    /// For how long spot has been as it is, there or not, as far as is known.
    pub standing_seconds: u32,
    /// What an on-demand machine costs.
    pub on_demand: HourlyPrice,
}

/// All offerings that the run can use. They do the same work in the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Market {
    /// In any order.
    pub offerings: Vec<MarketOffering>,
    /// For how long there has been any spot at all, or none.
    pub standing_seconds: u32,
}

impl Market {
    /// The offering of that name.
    pub fn offering(&self, name: &str) -> Option<&MarketOffering> {
        self.offerings.iter().find(|offering| &*offering.name == name)
    }

    /// The cheapest on-demand machine within the ceiling; ties by name.
    pub fn on_demand(&self, ceiling: Option<HourlyPrice>) -> Option<&MarketOffering> {
        let affordable = |it: &&MarketOffering| ceiling.is_none_or(|ceiling| it.on_demand <= ceiling);
        self.offerings.iter().filter(affordable).min_by_key(|it| (it.on_demand, &it.name))
    }
}
