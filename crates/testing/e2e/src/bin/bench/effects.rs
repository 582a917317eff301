//! `cargo xtask bench house effects`, the half on the real API server: random plans are committed, carried out by
//! `cluster-apply` behind the fence, and read back by `cluster-convert`. The half in memory is the example `effects_cases` of
//! `effects-check`.

use std::time::Duration;

use anyhow::ensure;
use e2e::effects::{Effects, Judged};
use effects_check::Tampering;
use toolbox::figures;

/// How long effects may take to show.
const PATIENCE: Duration = Duration::from_secs(30);

/// Effects on the real API server, read back.
#[derive(clap::Args)]
pub struct Args {
    /// The number of plans.
    #[arg(long, default_value_t = 1_000)]
    plans: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub async fn measure(Args { plans, seed }: Args) -> anyhow::Result<()> {
    let effects = Effects::start(PATIENCE).await?;
    let Judged { tally, disagreements } = effects.judge(plans, seed, Tampering::None).await?;
    effects.stop().await;
    println!("{tally:?}");
    for disagreement in &disagreements {
        eprintln!("{}", disagreement.log.join("\n"));
        println!("disagreement in {disagreement}");
    }
    let reference = format!("of {} on the real API server, seeds from {seed}; bar: 0", tally.plans);
    figures::print("house.effects_mismatches_real", figures::count(disagreements.len()), "plans", &reference);
    ensure!(disagreements.is_empty(), "{} cases differ", disagreements.len());
    Ok(())
}
