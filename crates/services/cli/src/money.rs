//! Formats money and GPU time for people. In the CLI only this rounds: the server makes the sums.

use rust_decimal::{Decimal, RoundingStrategy};

use crate::text::clean;

/// With two decimals; an amount above zero never looks like zero.
pub fn rounded(amount: &str) -> String {
    let Ok(amount) = amount.parse::<Decimal>() else { return clean(amount) };
    let rounded = amount.round_dp_with_strategy(2, RoundingStrategy::MidpointNearestEven);
    if rounded.is_zero() && amount > Decimal::ZERO {
        return "<0.01".to_owned();
    }
    // A tiny negative amount is shown as zero, without a sign.
    format!("{:.2}", if rounded.is_zero() { Decimal::ZERO } else { rounded })
}

/// Whether it is exactly zero.
pub fn is_zero(amount: &str) -> bool {
    amount.parse::<Decimal>().is_ok_and(|amount| amount.is_zero())
}

/// As a number to compare and to draw.
pub fn number(amount: &str) -> Decimal {
    amount.parse().unwrap_or_default()
}

/// GPU-seconds as GPU-hours with one decimal.
pub fn gpu_hours(gpu_seconds: i64) -> String {
    let hours = Decimal::from(gpu_seconds) / Decimal::from(3_600);
    let hours = hours.round_dp_with_strategy(1, RoundingStrategy::MidpointNearestEven);
    if hours.is_zero() && gpu_seconds > 0 {
        return "<0.1".to_owned();
    }
    format!("{hours:.1}")
}

#[cfg(test)]
mod tests {
    use super::{gpu_hours, rounded};

    #[test]
    fn money_has_two_decimals() {
        for (amount, expect) in [
            ("0", "0.00"),
            ("12.345", "12.34"),
            ("12.355", "12.36"),
            ("1234567.891", "1234567.89"),
            ("0.004999", "<0.01"),
            ("-0.001", "0.00"),
            ("-3.5", "-3.50"),
            ("x\u{1b}", "x\u{fffd}"),
        ] {
            assert_eq!(rounded(amount), expect, "{amount}");
        }
    }

    #[test]
    fn gpu_time_is_in_hours() {
        for (seconds, expect) in
            [(0, "0.0"), (1, "<0.1"), (3_600, "1.0"), (5_400, "1.5"), (36_000_180, "10000.0")]
        {
            assert_eq!(gpu_hours(seconds), expect, "{seconds}");
        }
    }
}
