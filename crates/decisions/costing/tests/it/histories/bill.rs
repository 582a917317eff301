//! The common form in which both sides are compared: which pod used what, and what it cost, as fractions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::iter::Sum;

use costing::{Attribution, Class, Day};
use num_bigint::BigInt;
use num_rational::BigRational;

/// The ledger's, or the reference's.
#[derive(Default, PartialEq, Eq)]
pub struct Bill {
    pub rows: BTreeMap<Row, Used>,
    /// All of a node, by UID.
    pub nodes: BTreeMap<String, Money>,
    /// Names of nodes, and seconds in which pods hold more than there is.
    pub overcommitted: BTreeSet<(String, i64)>,
    /// UIDs of pods, and days on which they are outside of every node.
    pub outside: BTreeSet<(String, Day)>,
}

/// UIDs of the nodes that are still there in the second `now`, which counts no more; without a pod, and with each of
/// the pods that are on them then.
pub type GoesOn = BTreeSet<(Option<String>, String)>;

/// As fine as lines are, but for time within the day.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// `None` is what is left of the node.
    pub pod_uid: Option<String>,
    pub node_uid: String,
    pub day: Day,
    pub class: Class,
    pub attribution: Attribution,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Of pods only: time that is not idle at all has no line.
    pub seconds: i64,
    pub gpu_seconds: i64,
    /// GPUs times seconds, and seconds, without a price.
    pub unpriced: (i64, i64),
    pub money: Money,
    /// How much more it would have cost on demand.
    pub saved: Money,
}

impl Used {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    pub fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.gpu_seconds += other.gpu_seconds;
        self.unpriced.0 += other.unpriced.0;
        self.unpriced.1 += other.unpriced.1;
        self.money.add(&other.money);
        self.saved.add(&other.saved);
    }
}

/// An exact sum of fractions of the currency. Those with the same denominator are added as they come, and nothing is
/// reduced: finding common divisors of big numbers would take nine tenths of the test's time.
#[derive(Clone, Default)]
pub struct Money {
    by_denominator: BTreeMap<i128, i128>,
}

impl Money {
    pub fn fraction(numerator: i128, denominator: i128) -> Self {
        Self { by_denominator: BTreeMap::from([(denominator, numerator)]) }
    }

    pub fn add(&mut self, other: &Self) {
        for (denominator, numerator) in &other.by_denominator {
            *self.by_denominator.entry(*denominator).or_default() += numerator;
        }
    }

    pub fn minus(mut self, other: &Self) -> Self {
        self.add(&other.times(-1));
        self
    }

    pub fn times(&self, times: i64) -> Self {
        let mut product = self.clone();
        product.by_denominator.values_mut().for_each(|numerator| *numerator *= i128::from(times));
        product
    }

    fn value(&self) -> BigRational {
        let mut sum = BigRational::default();
        for (denominator, numerator) in &self.by_denominator {
            let (numerator, denominator) = (BigInt::from(*numerator), BigInt::from(*denominator));
            let over_both = sum.numer() * &denominator + numerator * sum.denom();
            sum = BigRational::new_raw(over_both, sum.denom() * denominator);
        }
        sum
    }
}

impl PartialEq for Money {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (self.value(), other.value());
        one.numer() * other.denom() == other.numer() * one.denom()
    }
}

impl Eq for Money {}

impl<'a> Sum<&'a Money> for Money {
    fn sum<I: Iterator<Item = &'a Money>>(all: I) -> Self {
        let mut sum = Self::default();
        all.for_each(|money| sum.add(money));
        sum
    }
}

impl fmt::Debug for Money {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().reduced().fmt(formatter)
    }
}
