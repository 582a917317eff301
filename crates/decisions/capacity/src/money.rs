//! Money for people.

use crate::catalogue::MICROS;

/// Millionths as a decimal with two digits, or as many as it takes for less than a hundredth.
pub fn money(micros: i64) -> String {
    let (whole, part) = (micros / MICROS, micros % MICROS);
    if part % 10_000 == 0 { format!("{whole}.{:02}", part / 10_000) } else { format!("{whole}.{part:06}") }
}
