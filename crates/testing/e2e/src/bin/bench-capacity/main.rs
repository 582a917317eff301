//! `cargo xtask bench capacity [PART…]`: machines bought through real Karpenter, with a cloud that misbehaves.
//!
//! ```text
//!   gangs     200 gangs of 2 to 16 nodes, 8 at a time; of their tries 30 % meet a fault. The same through Karpenter's own path
//!   scaleup   800 pods of one GPU from no node at all, beside Karpenter with kube-scheduler
//!   kills     SIGKILL of the scheduler at every step of a launch
//!   notices   100 machines are taken back under running gangs
//! ```
//!
//! What each figure means is said by the part that prints it. The cloud's own record, not ours, says what was paid for.

mod gangs;
mod kills;
mod notices;
mod scaleup;
mod yard;

use anyhow::bail;
use clap::Parser;

/// The parts, in the order in which they run.
const PARTS: [&str; 4] = ["gangs", "scaleup", "kills", "notices"];

/// Machines that are bought.
#[derive(Parser)]
struct Args {
    /// Run only these; all unless given.
    parts: Vec<String>,
    /// A tenth of everything, and no figures.
    #[arg(long)]
    rehearse: bool,
    /// Names the run: the same seed draws the same gangs and faults.
    #[arg(long, default_value_t = 20_261_117)]
    seed: u64,
}

/// How much of each part is run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Names the run.
    pub seed: u64,
    /// Whether it is only a tenth.
    pub rehearse: bool,
}

impl Size {
    /// All, or a tenth, rounded up.
    pub fn of(self, all: usize) -> usize {
        if self.rehearse { all.div_ceil(10) } else { all }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
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
