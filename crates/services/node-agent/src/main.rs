//! The binary `warpyard-node-agent`; see the library for what it does.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use node_agent::agent;
use node_agent::args::Args;
use node_agent::metrics::Metrics;
use prometheus_client::registry::Registry;
use service_kit::health::Readiness;
use service_kit::{client, health, logs, shutdown};
use tracing::error;

// One thread: it waits for a few answers a second, on every machine.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    logs::init(args.common.log_format);
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = format!("{error:#}"), "Stopped.");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    args.validate()?;
    let stop = shutdown::on_signal()?;
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let readiness = Readiness::starting("has not read its Node yet");
    health::serve(args.common.health_listen, readiness.clone(), Arc::new(registry), stop.clone()).await?;
    let config = client::config(args.common.kubeconfig.as_deref()).await?;
    agent::run(args, client::client(&config)?, metrics, readiness, stop).await
}
