//! Buys in random histories with machine types that promise too much, and prints how often they order, and what they spend
//! beyond caps.
//!
//! ```text
//! cargo run --release -p capacity --example lies -- [histories] [first seed] [stop after this many]
//! ```

#[path = "../tests/it/lies.rs"]
#[allow(clippy::unwrap_used, reason = "as in tests")]
mod lies;

use std::process::ExitCode;

use lies::{HISTORIES, HOURS, ORDERS_PER_HOUR_MAX, Told, history};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse::<u64>().expect("numbers are expected"));
    let histories = arguments.next().unwrap_or(HISTORIES);
    let first = arguments.next().unwrap_or(0);
    let wrong_max = arguments.next().unwrap_or(u64::MAX);
    let (mut all, mut wrong) = (Told::default(), 0_u64);
    for seed in first..first + histories {
        let (told, found) = history(seed);
        all.add(told);
        if !found.is_empty() {
            wrong += 1;
            println!("disagreement in case {} seed {seed}: {}", seed - first + 1, found.join("; "));
            if wrong == wrong_max {
                return ExitCode::FAILURE;
            }
        }
    }
    let of = format!(
        "{} orders in {histories} histories of {HOURS} hours, {} gangs lied to",
        all.orders, all.lied_to
    );
    println!("figure buying.wasted_over_cap {} millionths  ({of}; bar: 0)", all.beyond_caps_micros);
    println!(
        "figure buying.orders_per_hour_max {} orders  ({of}; bar: {ORDERS_PER_HOUR_MAX})",
        all.orders_per_hour_max
    );
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
