//! The bill, judged: an own record of everything that happened, an own naive reckoning of what it cost, and the
//! ledger's rows to compare with.
//!
//! ```text
//!   watch pods, nodes ─► Witness: raw JSON, every event ─► Use (own rules) ─┐
//!                                             prices ─► rationals ──────────┼─► compare ─► what is wrong
//!   PostgreSQL ─► Bill: lines that are charged and not reversed, open use ──┤
//!   the cloud's own bill ─► lives of machines that were bought ─────────────┘
//! ```
//!
//! It shares no rule with the meter: it reads the objects by itself, and knows neither `costing` nor `store`.

mod bill;
mod compare;
mod machines;
mod witness;

pub use bill::{Bill, BilledLine, OpenUse};
pub use compare::{compare_nodes, compare_pods};
pub use machines::machines_are_billed;
pub use witness::{NodeLife, Use, Witness};

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

/// What `gpus` cost from one second to another.
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
