//! `cargo xtask bench capacity [PART…]`: machines bought through real Karpenter, with a cloud that misbehaves.
//!
//! ```text
//!   gangs     200 gangs of 2 to 16 nodes, 8 at a time; 30 % of their tries meet a fault. The same through
//!             Karpenter's own path
//!   scaleup   800 pods of one GPU, starting with no node, compared with Karpenter and kube-scheduler
//!   kills     SIGKILL of the scheduler at every step of a launch
//!   notices   100 machines are taken back under running gangs
//! ```
//!
//! Each part explains its figures. Payments are those in the cloud's own record, not in ours.

mod gangs;
mod kills;
mod notices;
mod scaleup;
mod size;
mod yard;

use anyhow::bail;

use crate::capacity::size::Size;

/// The parts, in the order in which they run.
const PARTS: [&str; 4] = ["gangs", "scaleup", "kills", "notices"];

/// Machines that are bought.
#[derive(clap::Args)]
pub struct Args {
    /// Run only these parts; the default is all.
    parts: Vec<String>,
    /// A tenth of everything, and no figures.
    #[arg(long)]
    rehearse: bool,
    /// Names the run: the same seed draws the same gangs and faults.
    #[arg(long, default_value_t = 20_261_117)]
    seed: u64,
}

pub async fn measure(args: Args) -> anyhow::Result<()> {
    e2e::bounds::hold_real_bars();
    if let Some(unknown) = args.parts.iter().find(|name| !PARTS.contains(&name.as_str())) {
        bail!("there is no part {unknown:?}\n\nhint: {}", PARTS.join(", "));
    }
    let wants = |name: &str| args.parts.is_empty() || args.parts.iter().any(|part| part == name);
    let size = Size { seed: args.seed, rehearse: args.rehearse };
    if wants("gangs") {
        gangs::measure(size).await?;
    }
    if wants("scaleup") {
        scaleup::measure(size).await?;
    }
    if wants("kills") {
        kills::measure(size).await?;
    }
    if wants("notices") {
        notices::measure(size).await?;
    }
    Ok(())
}
