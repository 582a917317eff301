//! Gangs get all of their machines or pay for none, even if launches fail. For comparison, the same gangs go
//! through Karpenter's own path and kube-scheduler.
//!
//! ```text
//!   8 slots ─► gang ─► try 1 ─ fault? ─► given back ─► try 2 … ─► started whole ─► its machines are gone ─► next gang
//!                        └─ drawn by (seed, gang, try): the same on both sides
//! ```
//!
//! A **try** of ours is a launch. On Karpenter's own path the first try is all of a gang's claims, and each claim that replaces
//! one is another. Of all tries 30 % meet one fault: no stock, a boot of ten minutes, a machine that never registers, one that
//! vanishes while it boots. A slot has a machine type of its own and waits until its machines are gone, so that no gang
//! inherits machines of another.
//!
//! | figure | |
//! |---|---|
//! | `gangs_started_whole_percent` | gangs whose members all ran and succeeded in their first attempt |
//! | `unpaid_bound_violations` | failed tries that cost more than their size × ([`late_after`] + [`GONE`]), plus machines of failed tries that were held for longer than [`GONE`] after the next try, or after they were late |
//! | `wasted_node_seconds` | node-seconds paid for before their gang was whole, with the boots of tries that succeeded |
//! | `wasted_node_seconds_karpenter` | the same for gangs that were whole within [`PATIENCE`], and until then for the others |

mod finding;
mod ours;
mod slots;
mod theirs;

use anyhow::ensure;
use seeded_random::Random;
use toolbox::figures::{self, count};

use self::finding::{FAULT_PERCENT, Findings, GONE, Gang, PATIENCE, limit};
use crate::capacity::size::Size;

const GANGS: usize = 200;

/// Runs both.
pub async fn measure(size: Size) -> anyhow::Result<()> {
    let gangs = gangs(size);
    let ours = ours::run(size, &gangs).await?;
    println!("ours: {ours:?}");
    if !size.rehearse {
        print_ours(size, gangs.len(), &ours);
    }
    let theirs = theirs::run(size, &gangs).await?;
    println!("Karpenter's own path: {theirs:?}");
    if !size.rehearse {
        print_theirs(gangs.len(), &theirs);
    }
    ensure!(ours.is_as_promised(gangs.len()), "{ours:?}");
    Ok(())
}

fn print_ours(size: Size, gangs: usize, ours: &Findings) {
    let of = format!(
        "{gangs} gangs of 2 to 16 nodes, {FAULT_PERCENT} % of tries meet a fault, {} tries failed; seed {}",
        ours.failed_tries, size.seed
    );
    let percent = 100.0 * count(ours.whole) / count(gangs);
    figures::print("capacity.gangs_started_whole_percent", percent, "%", &of);
    let bound = format!(
        "of {} failed tries; each may cost its size × {} s, and hold nothing {} s later",
        ours.failed_tries,
        limit().as_secs(),
        GONE.as_secs()
    );
    figures::print("capacity.unpaid_bound_violations", count(ours.violations()), "tries", &bound);
    let of =
        format!("paid for before the gang was whole; {:.0} of them in failed tries", ours.failed_seconds);
    figures::print("capacity.wasted_node_seconds", ours.wasted_seconds, "node-s", &of);
}

fn print_theirs(gangs: usize, theirs: &Findings) {
    let of = format!(
        "the same faults, Karpenter's own path; {} of {gangs} gangs were whole within {} s, and paid for no longer",
        theirs.whole,
        PATIENCE.as_secs()
    );
    figures::print("capacity.wasted_node_seconds_karpenter", theirs.wasted_seconds, "node-s", &of);
}

fn gangs(size: Size) -> Vec<Gang> {
    let mut random = Random::new(size.seed);
    let members = |random: &mut Random| 2 + u32::try_from(random.below(15)).unwrap_or(0);
    (0..size.of(GANGS))
        .map(|index| Gang { name: format!("gang-{index}"), members: members(&mut random) })
        .collect()
}
