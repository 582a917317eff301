//! Money without rounding.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Neg, Sub};

use api_types::price::{self, MICROS};
use rust_decimal::Decimal;

/// An amount of money, counted in 1 / (3600 × [`SHARES`]) of a millionth of the currency's unit. So a price per hour
/// in millionths, times seconds, times any share of a node's GPUs, is a whole number, and sums never depend on how
/// they are grouped. 96 bits of decimal hold 7 × 10¹² currency units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(pub i128);

/// A price in millionths of the currency's unit per hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HourlyPrice(pub i64);

/// Divisible by 1 to 16, 18, 20, 21, 22, 24, 26, 28, 30, 32 and 64: the GPU counts that nodes have. On a node with
/// another count (or shared by CPU) the remainder of the division, a few [`Amount`] units per second, stays with the
/// node's idle line.
pub const SHARES: i128 = 2_882_880;
/// [`Amount`] units of one unit of the currency.
pub const UNITS_PER_CURRENCY: i128 = 1_000_000 * 3_600 * SHARES;

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// As a decimal of the currency, rounded half to even to six places: for people, never for sums.
    pub fn to_decimal(self) -> Decimal {
        // This always fits: the largest has 1.7 × 10³⁸ / 1.04 × 10¹⁰ = 1.6 × 10²⁸ millionths, a decimal 7.9 × 10²⁸.
        Decimal::from_i128_with_scale(divide_half_even(self.0, UNITS_PER_CURRENCY / i128::from(MICROS)), 6)
    }
}

impl HourlyPrice {
    /// Reads `"98.32"`, as every object writes a price: see [`api_types::price::PATTERN`]. The highest is a million.
    /// Times a node's GPUs it is below 2⁶³ millionths (see `PriceBook::at`), which is 2.7 × 10²⁵ units a second: an
    /// `i128` can hold 200,000 years of that.
    pub fn parse(text: &str) -> Result<Self, InvalidPrice> {
        let micros = price::micros(text);
        micros.map(Self).ok_or_else(|| InvalidPrice(text.chars().take(ECHOED_MAX).collect()))
    }

    /// What one second costs.
    pub fn per_second(self) -> Amount {
        Amount(i128::from(self.0) * SHARES)
    }
}

/// How much of a text that is not a price is repeated.
const ECHOED_MAX: usize = 64;

/// The nearest whole quotient; of two equally near ones, the even one. `divisor` is above zero.
fn divide_half_even(dividend: i128, divisor: i128) -> i128 {
    let (floor, rest) = (dividend.div_euclid(divisor), dividend.rem_euclid(divisor));
    match (rest * 2).cmp(&divisor) {
        std::cmp::Ordering::Less => floor,
        std::cmp::Ordering::Equal => floor + floor.rem_euclid(2),
        std::cmp::Ordering::Greater => floor + 1,
    }
}

impl Add for Amount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Amount {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Neg for Amount {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

/// A rate times seconds, or the price of one times how many.
impl Mul<i64> for Amount {
    type Output = Self;
    fn mul(self, times: i64) -> Self {
        Self(self.0 * i128::from(times))
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// As [`Amount::to_decimal`].
impl fmt::Display for Amount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_decimal().fmt(formatter)
    }
}

/// Not a price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a price: write a decimal from 0 to 1000000 with at most six decimals, for example 2.99"
)]
pub struct InvalidPrice(pub String);
