//! `cargo xtask dev`: builds the portal and our binaries, then becomes `dev-platform`, which brings everything up.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::{builds, packages, portal};

/// Arguments of `cargo xtask dev`.
#[derive(Args)]
pub struct DevArgs {
    /// How many fake nodes with eight GPUs each.
    #[arg(long, default_value_t = 64)]
    pub nodes: u32,
    /// How many racks they are in.
    #[arg(long, default_value_t = 4)]
    pub racks: usize,
    /// Where the portal and the REST API listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub listen: String,
    /// Submit no jobs: the cluster stays empty.
    #[arg(long)]
    pub empty: bool,
    /// Buy machines for waiting gangs, through Karpenter, from a made-up cloud. With `--nodes 0` there are no
    /// other nodes.
    #[arg(long)]
    pub buy_machines: bool,
    /// A file that changes the scheduler's policy, in the format of `warpyard simulate --policy`.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
}

/// Builds everything and starts it in this process's place, so that Ctrl-C reaches it alone.
pub fn run(args: &DevArgs) -> anyhow::Result<()> {
    can_start(args)?;
    packages::install()?;
    portal::build_if_stale()?;
    eprintln!("building …");
    builds::build_platform()?;
    // It reads the same arguments.
    let error = builds::program("dev-platform").args(std::env::args_os().skip(2)).exec();
    Err(error).context("failed to start dev-platform")
}

/// Fails now instead of after minutes of compiling.
fn can_start(args: &DevArgs) -> anyhow::Result<()> {
    TcpListener::bind(&args.listen).with_context(|| {
        format!(
            "cannot listen on {}; choose another address with --listen, such as 127.0.0.1:8081",
            args.listen
        )
    })?;
    if let Some(file) = &args.policy {
        File::open(file).with_context(|| format!("failed to read the policy in {}", file.display()))?;
    }
    Ok(())
}
