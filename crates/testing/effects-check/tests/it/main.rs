//! Some hundred cases on the store in memory, tampered with in every way. `cargo xtask bench house effects` runs many more.

use effects_check::{Case, Tally, Tampering, memory};

/// Runs cases. Fails at the first in which the cluster differs from the state, or in which a wrong effect is
/// not noticed.
async fn run(seeds: std::ops::Range<u64>, tampering: Tampering) -> Tally {
    let mut all = Tally::default();
    for seed in seeds {
        match Case::run(seed, memory::server(), tampering).await.expect("the store answers") {
            Ok(tally) => all.add(&tally),
            Err(disagreement) => panic!("{disagreement}\n{}", disagreement.log.join("\n")),
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn what_was_committed_is_what_a_new_leader_reads() {
    let all = run(0..100, Tampering::None).await;
    let Tally { plans, binds, holds_written, holds_deleted, evictions, moves, caught } = all;
    for (what, count) in [
        ("plans", plans),
        ("binds", binds),
        ("holds written", holds_written),
        ("holds deleted", holds_deleted),
        ("evictions", evictions),
        ("moves", moves),
    ] {
        assert!(count >= 10, "{count} {what} are too few to show anything: {all:?}");
    }
    assert_eq!(caught, 0);
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_is_sent_twice_does_no_harm() {
    run(0..40, Tampering::Double).await;
}

#[tokio::test(start_paused = true)]
async fn binds_and_evictions_that_are_sent_again_later_do_no_harm() {
    run(0..40, Tampering::Stale).await;
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_is_lost_is_noticed() {
    let all = run(0..40, Tampering::Drop).await;
    assert!(all.caught >= 20, "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_written_again_after_its_end_is_noticed() {
    let all = run(0..100, Tampering::StaleHold).await;
    assert!(all.caught >= 5, "{all:?}");
}
