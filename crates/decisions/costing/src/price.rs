//! Prices with effective dates.

use std::cmp::Reverse;

use crate::money::HourlyPrice;
use crate::record::NodeShape;
use crate::time::Moment;

/// How a node was bought, as price sheets name it.
pub type CapacityType = String;

/// What a price is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriceUnit {
    /// The whole node.
    Node,
    /// Each GPU of the node.
    Gpu,
}

/// One entry of a price sheet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// The sheet it is on.
    pub sheet: String,
    /// Nodes of this instance type only.
    pub instance_type: Option<String>,
    /// Nodes with this GPU type only.
    pub gpu_type: Option<String>,
    /// Nodes bought this way only.
    pub capacity_type: Option<CapacityType>,
    /// What it is the price of.
    pub unit: PriceUnit,
    /// How much.
    pub price: HourlyPrice,
    /// When it comes into force.
    pub from: Moment,
}

/// All prices, in a fixed order: the first one that matches a node and is in force counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceBook {
    prices: Vec<Price>,
}

impl PriceBook {
    /// In any order.
    pub fn new(mut prices: Vec<Price>) -> Self {
        prices.sort_by(|one, other| one.precedence().cmp(&other.precedence()));
        Self { prices }
    }

    /// The price of a whole node of this shape at a moment. Of the entries that match and are in force, the most
    /// specific counts (instance type before GPU type before capacity type), then the one that came into force last,
    /// then the first by sheet name. `None` if there is none.
    pub fn at(&self, shape: &NodeShape, at: Moment) -> Option<HourlyPrice> {
        let price = self.prices.iter().find(|price| price.from <= at && price.matches(shape))?;
        match price.unit {
            PriceUnit::Node => Some(price.price),
            // An amount too large to count (9 million GPUs at the highest price) is unknown, and not cut off.
            PriceUnit::Gpu => price.price.0.checked_mul(i64::from(shape.gpus)).map(HourlyPrice),
        }
    }

    /// Moments within `(from, to)` at which the price of a node of this shape may change, in order.
    pub fn changes(&self, shape: &NodeShape, from: Moment, to: Moment) -> Vec<Moment> {
        let within = |price: &&Price| from < price.from && price.from < to && price.matches(shape);
        let mut changes: Vec<_> = self.prices.iter().filter(within).map(|price| price.from).collect();
        changes.sort_unstable();
        changes.dedup();
        changes
    }
}

impl Price {
    fn matches(&self, shape: &NodeShape) -> bool {
        let asks = |wanted: &Option<String>, is: Option<&String>| wanted.is_none() || wanted.as_ref() == is;
        asks(&self.instance_type, shape.instance_type.as_ref())
            && asks(&self.gpu_type, shape.gpu_type.as_ref())
            && asks(&self.capacity_type, Some(&shape.capacity_type))
    }

    /// The lowest counts first. What follows the sheet's name only makes the order total, so that a sheet that
    /// contradicts itself has one meaning.
    fn precedence(&self) -> impl Ord + '_ {
        let asked = (self.instance_type.is_some(), self.gpu_type.is_some(), self.capacity_type.is_some());
        let what = (&self.instance_type, &self.gpu_type, &self.capacity_type);
        (Reverse(asked), Reverse(self.from), &self.sheet, self.unit, self.price, what)
    }
}
