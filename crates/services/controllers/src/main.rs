//! `warpyard-controllers`: arguments, lease, and the Run controller with the meter until the lease is lost or we are
//! asked to stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api_types::names::{CONTROLLERS_LEASE, SYSTEM_NAMESPACE};
use clap::Parser;
use controllers::meter::Meter;
use controllers::meter::metrics::Metrics as MeterMetrics;
use controllers::run::reporting::Reporting;
use controllers::service::{self, Metrics};
use prometheus_client::registry::Registry;
use service_kit::args::{CommonArgs, LeaseArgs};
use service_kit::health::Readiness;
use service_kit::lease::{self, LeaseName};
use service_kit::{client, health, logs, shutdown};
use store::Ledger;
use tracing::{error, info, warn};

/// From one try to bring the schema up to date to the next.
const MIGRATE_RETRY: Duration = Duration::from_secs(2);

/// Turns Runs into Jobs, and what becomes of them into the Runs' status.
#[derive(Parser, Debug)]
#[command(name = "warpyard-controllers", version)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    reporting: ReportingArgs,
}

/// Where the bill is kept. Without a database nothing is metered, and everything else works.
#[derive(clap::Args, Debug)]
struct LedgerArgs {
    /// File with the URL of the ledger's database, for the role `warpyard_meter`. A file, because a URL holds a
    /// password, and arguments are seen by everybody.
    #[arg(long, value_name = "FILE")]
    database_url_file: Option<PathBuf>,
    /// File with the URL of the same database for its owner: the schema is brought up to date at start.
    #[arg(long, value_name = "FILE", requires = "database_url_file")]
    migrate_url_file: Option<PathBuf>,
    /// This cluster's name in the ledger. It must never change: it is in the key of everything.
    #[arg(long, value_name = "NAME", default_value = "default")]
    cluster: String,
}

impl LedgerArgs {
    fn open(&self) -> anyhow::Result<Option<Ledger>> {
        let Some(file) = &self.database_url_file else { return Ok(None) };
        let url = read_url(file)?;
        let ledger = Ledger::open(&url, &self.cluster)
            .with_context(|| format!("{} holds no URL of a database", file.display()))?;
        Ok(Some(ledger))
    }
}

/// Where members report what they have done. Without an address they report nothing, and everything else works.
#[derive(clap::Args, Debug)]
struct ReportingArgs {
    /// The API server's URL as members reach it, with https.
    #[arg(long, value_name = "URL")]
    report_url: Option<String>,
    /// File with the authority, PEM, that signed its certificate. Without it, those that an image knows.
    #[arg(long, value_name = "FILE", requires = "report_url")]
    report_ca_file: Option<PathBuf>,
}

impl ReportingArgs {
    fn open(&self) -> anyhow::Result<Option<Reporting>> {
        let Some(url) = &self.report_url else { return Ok(None) };
        let read = |file: &PathBuf| {
            std::fs::read_to_string(file)
                .with_context(|| format!("failed to read the authority in {}", file.display()))
        };
        let ca = self.report_ca_file.as_ref().map(read).transpose()?;
        Ok(Some(Reporting::new(url, ca)?))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Args { common, lease, ledger: ledger_args, reporting } = Args::parse();
    logs::init(common.log_format);
    let stop = shutdown::on_signal()?;
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let meter_metrics = MeterMetrics::register(&mut registry);
    let ledger = ledger_args.open()?;
    let reporting = reporting.open()?;
    if let Some(file) = &ledger_args.migrate_url_file {
        // Not only by the leader: two at once are harmless.
        tokio::spawn(migrate(read_url(file)?));
    }
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
    let ledger = ledger.map(|ledger| (ledger, Arc::new(Meter::new(meter_metrics))));
    let work = service::run(client::watching(&config)?, metrics, ledger, reporting, stop, || {
        readiness.ready();
        info!("Controlling runs.");
    });
    tokio::select! {
        done = work => {
            held.release().await;
            done?;
        }
        lost = lost => {
            // Nothing may linger here: every write is safe with two leaders, but one is enough.
            error!(%lost, "Lost the lease; exiting.");
            std::process::exit(1);
        }
    }
    Ok(())
}

/// Brings the schema up to date, as soon as the database lets us. Everything that needs it tries again meanwhile.
async fn migrate(owner_url: String) {
    let mut failures = 0_u32;
    while let Err(error) = store::migrate(&owner_url).await {
        if failures == 0 {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            warn!(%error, cause, "Could not bring the ledger's schema up to date; will try again.");
        }
        failures = failures.saturating_add(1);
        tokio::time::sleep(MIGRATE_RETRY).await;
    }
    info!("The ledger's schema is up to date.");
}

fn read_url(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("failed to read the database URL in {}", file.display()))?;
    Ok(text.trim().to_owned())
}
