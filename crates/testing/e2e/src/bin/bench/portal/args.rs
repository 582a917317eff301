//! The arguments.

/// Lists and event streams of one API server.
#[derive(clap::Args)]
pub struct Args {
    /// Runs in the cluster.
    #[arg(long, default_value_t = 10_000)]
    pub runs: usize,
    /// Nodes in the cluster, of eight GPUs each.
    #[arg(long, default_value_t = 1_000)]
    pub nodes: usize,
    /// Event streams at the same time.
    #[arg(long, default_value_t = 500)]
    pub streams: usize,
    /// Measure the debug build; for trying out only.
    #[arg(long)]
    pub debug: bool,
}
