//! `cargo xtask experiments`: on public traces and made-up jobs, with the very code that schedules. CI runs the small one.

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
    /// Fewer seeds and copies: a look, not a figure to quote.
    #[arg(long)]
    quick: bool,
}

/// Builds the simulator with optimisation and runs the experiments; their figures are kept.
pub fn run(args: &ExperimentsArgs) -> anyhow::Result<()> {
    let mut command = cargo(&["run", "--release", "-p", "simulator", "--example", "experiments", "--"]);
    command.arg("--traces").arg(&args.traces).args(&args.names);
    if args.quick {
        command.arg("--quick");
    }
    commands::run_and_keep_figures(&mut command)
}

/// The one without a trace, in some twenty seconds.
pub fn run_synthetic() -> anyhow::Result<()> {
    run(&ExperimentsArgs { names: vec!["synthetic".to_owned()], traces: PathBuf::new(), quick: false })
}
