//! What `cargo xtask bench …` measures on real servers. One program for all benches: the code that they share is compiled
//! once.

mod capacity;
mod cleanup;
mod effects;
mod faults;
mod latency;
mod ledger;
mod portal;
mod runs;
mod scheduler;

use clap::Parser;

/// Measures on real servers; `cargo xtask bench` builds everything and starts it.
#[derive(Parser)]
enum Bench {
    Capacity(capacity::Args),
    Cleanup(cleanup::Args),
    Effects(effects::Args),
    Faults(faults::Args),
    Ledger(ledger::Args),
    Portal(portal::Args),
    Runs(runs::Args),
    Scheduler(scheduler::Args),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Bench::parse() {
        Bench::Capacity(args) => capacity::measure(args).await,
        Bench::Cleanup(args) => Box::pin(cleanup::measure(args)).await,
        Bench::Effects(args) => effects::measure(args).await,
        Bench::Faults(args) => Box::pin(faults::measure(args)).await,
        Bench::Ledger(args) => ledger::measure(args).await,
        Bench::Portal(args) => portal::measure(args).await,
        Bench::Runs(args) => runs::measure(args).await,
        Bench::Scheduler(args) => scheduler::measure(args).await,
    }
}
