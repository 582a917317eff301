//! Computes the cost of GPUs independently.

use num_bigint::BigInt;
use num_rational::BigRational;

/// A price per GPU and hour, from a second on.
#[derive(Clone, Debug)]
pub struct GpuPrice {
    /// From when.
    pub from: i64,
    /// Hundredths of the currency's unit.
    pub hundredths: i64,
}

/// Hundredths of a price per hour, as the currency's unit per second.
fn per_second(hundredths: i64) -> BigRational {
    BigRational::new(BigInt::from(hundredths), BigInt::from(100 * 3600))
}

/// The cost of `gpus` from one second to another.
pub fn cost(prices: &[GpuPrice], gpus: i64, from: i64, to: i64) -> BigRational {
    let mut sum = BigRational::from_integer(BigInt::from(0));
    for (index, price) in prices.iter().enumerate() {
        let until = prices.get(index + 1).map_or(i64::MAX, |next| next.from);
        let seconds = to.min(until) - from.max(price.from);
        if seconds > 0 {
            sum += per_second(price.hundredths) * BigRational::from_integer(BigInt::from(seconds * gpus));
        }
    }
    sum
}
