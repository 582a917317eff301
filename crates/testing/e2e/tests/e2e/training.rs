//! Real `PyTorch` on real kubelets, interrupted: the short form of `cargo xtask bench runs`.

use std::time::Duration;

use anyhow::ensure;
use e2e::training::strikes::Kind;
use e2e::training::{Framework, Script, Strike, Yard, YardSize, contest, reference};

#[tokio::test(flavor = "multi_thread")]
async fn a_training_survives_notices_and_a_kill_and_ends_with_the_same_bits() -> anyhow::Result<()> {
    let strike =
        |kind, rank, after_steps| Strike { kind, rank, after_steps, delay: Duration::from_millis(7) };
    let strikes = [strike(Kind::Notice, 1, 5), strike(Kind::Kill, 2, 12), strike(Kind::Notice, 3, 3)];
    let script = Script {
        framework: Framework::Plain,
        members: 4,
        epoch_steps: 40,
        epochs: contest::epochs_for(&strikes, 40),
        every_steps: Some(8),
        step_seconds: 0.03,
    };
    let in_peace = tempfile::tempdir()?;
    // A third node stands by while another one has a notice.
    let size = YardSize { nodes: 3, notices_power_cuts_soon: false };
    let (yard, in_peace) = tokio::try_join!(Yard::start(size), reference::train(&script, in_peace.path()))?;
    let found = contest::run(&yard, "short", &script, &strikes, &in_peace).await?;
    found.print("runs.short", "CI's short form");
    let missed = found.missed();
    ensure!(missed.is_empty(), "{missed:#?}\n{found:#?}");
    yard.stop().await;
    Ok(())
}
