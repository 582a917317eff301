//! `warpyard-controllers`: arguments, lease, and the Run controller until the lease is lost or we are asked to stop.

use std::sync::Arc;

use api_types::names::{CONTROLLERS_LEASE, SYSTEM_NAMESPACE};
use clap::Parser;
use controllers::service::{self, Metrics};
use prometheus_client::registry::Registry;
use service_kit::args::{CommonArgs, LeaseArgs};
use service_kit::health::Readiness;
use service_kit::lease::{self, LeaseName};
use service_kit::{client, health, logs, shutdown};
use tracing::{error, info};

/// Turns Runs into Jobs, and what becomes of them into the Runs' status.
#[derive(Parser, Debug)]
#[command(name = "warpyard-controllers", version)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    lease: LeaseArgs,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Args { common, lease } = Args::parse();
    logs::init(common.log_format);
    let stop = shutdown::on_signal()?;
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let readiness = Readiness::starting("waits for the lease");
    health::serve(common.health_listen, readiness.clone(), Arc::new(registry), stop.clone()).await?;

    let config = client::config(common.kubeconfig.as_deref()).await?;
    let name = LeaseName {
        namespace: SYSTEM_NAMESPACE.to_owned(),
        name: CONTROLLERS_LEASE.to_owned(),
        identity: lease::identity(&std::env::var("HOSTNAME").unwrap_or_else(|_| "controllers".to_owned())),
    };
    let held = match lease::acquire(&config, name, lease.times()?, &stop).await {
        Ok(held) => held,
        Err(lease::Error::Stopped) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    readiness.not_ready("fills its caches");
    let lost = held.lost();
    let work = service::run(client::client(&config)?, metrics, stop, || {
        readiness.ready();
        info!("Controlling runs.");
    });
    tokio::select! {
        () = work => held.release().await,
        lost = lost => {
            // Nothing may linger here: every write is safe with two leaders, but one is enough.
            error!(%lost, "Lost the lease; exiting.");
            std::process::exit(1);
        }
    }
    Ok(())
}
