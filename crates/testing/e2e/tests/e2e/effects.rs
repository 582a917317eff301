//! Effects of a committed plan, sent to the real API server and read back, match the state.

use std::time::Duration;

use anyhow::ensure;
use e2e::effects::Effects;
use effects_check::Tampering;

/// The long form is `cargo xtask bench house effects`.
const PLANS: u64 = 50;
/// Of plans that are tampered with.
const PLANS_OF_EACH: u64 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_committed_is_what_a_new_leader_reads() -> anyhow::Result<()> {
    let effects = Effects::start(Duration::from_secs(30)).await?;
    for tampering in [Tampering::None, Tampering::Double, Tampering::Stale] {
        let plans = if tampering == Tampering::None { PLANS } else { PLANS_OF_EACH };
        let judged = effects.judge(plans, 0, tampering).await?;
        ensure!(judged.disagreements.is_empty(), "{tampering:?}: {:#?}", judged.disagreements);
        ensure!(judged.tally.binds > 0, "{tampering:?}: something was done: {:?}", judged.tally);
    }
    effects.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_is_lost_is_noticed() -> anyhow::Result<()> {
    // A lost effect never shows: a longer wait would not help.
    let effects = Effects::start(Duration::from_secs(3)).await?;
    let judged = effects.judge(PLANS_OF_EACH, 0, Tampering::Drop).await?;
    ensure!(judged.disagreements.is_empty(), "{:#?}", judged.disagreements);
    ensure!(judged.tally.caught > 0, "something was lost: {:?}", judged.tally);
    effects.stop().await;
    Ok(())
}
