//! `cargo xtask experiments`: runs the production planner on public traces and made-up jobs. CI runs the small
//! one.

use std::path::PathBuf;

use clap::Args;

use crate::commands::{self, cargo};

/// Arguments of `cargo xtask experiments`.
#[derive(Args)]
pub struct ExperimentsArgs {
    /// Which (synthetic, X1, X2, X3, X4, X5, X6, eta, why, thrash, energy, million); all without a name.
    names: Vec<String>,
    /// The folder of the public traces.
    #[arg(long, default_value = "../shared/traces")]
    traces: PathBuf,
    /// Fewer seeds and copies: a quick look, not figures to quote.
    #[arg(long)]
    quick: bool,
}

/// Builds the crate `experiments` with optimisation, runs the requested experiments, and keeps the figures.
pub fn run(args: &ExperimentsArgs) -> anyhow::Result<()> {
    let mut command = cargo(&["run", "--release", "-p", "experiments", "--"]);
    command.arg("--traces").arg(&args.traces).args(&args.names);
    if args.quick {
        command.arg("--quick");
    }
    commands::run_and_keep_figures(&mut command)
}

/// The experiment without a trace, in about twenty seconds.
pub fn run_synthetic() -> anyhow::Result<()> {
    run(&ExperimentsArgs { names: vec!["synthetic".to_owned()], traces: PathBuf::new(), quick: false })
}
