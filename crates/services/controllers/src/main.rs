//! `warpyard-controllers`: reads arguments, takes the lease, and runs the Run controller and the meter until
//! the lease is lost or it is asked to stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api_types::names::{CONTROLLERS_LEASE, SYSTEM_NAMESPACE};
use clap::Parser;
use controllers::cleanup::Limits;
use controllers::cleanup::metrics::Metrics as CleanupMetrics;
use controllers::meter::Meter;
use controllers::meter::metrics::Metrics as MeterMetrics;
use controllers::run::build::Surroundings;
use controllers::run::reporting::Reporting;
use controllers::service::{self, Books, Metrics};
use prometheus_client::registry::Registry;
use service_kit::args::{CommonArgs, LeaseArgs, parse_duration};
use service_kit::health::Readiness;
use service_kit::lease::{self, LeaseName};
use service_kit::{client, health, logs, shutdown};
use store::Ledger;
use tracing::{error, info, warn};

/// The wait between two tries to migrate the schema.
const MIGRATE_RETRY: Duration = Duration::from_secs(2);

/// Turns Runs into Jobs, and the state of Jobs and pods into the Runs' status.
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
    #[command(flatten)]
    cleanup: CleanupArgs,
}

/// How long what has ended stays in the cluster. Runs are archived in the ledger's database before they are deleted;
/// without a database they stay.
#[derive(clap::Args, Debug)]
struct CleanupArgs {
    /// How long a run stays after its end. Afterwards `warpyard ls --all`, `show` and `cost` still find it.
    #[arg(long = "keep-runs-for", default_value = "30d", value_parser = parse_duration, value_name = "TIME")]
    runs_for: Duration,
    /// The most ended runs of a namespace that stay; those that ended first go first.
    #[arg(long = "keep-runs", default_value_t = 1_000, value_name = "COUNT")]
    runs: usize,
    /// How long the pods of an ended attempt stay, and with them its logs.
    #[arg(long = "keep-pods-for", default_value = "7d", value_parser = parse_duration, value_name = "TIME")]
    pods_for: Duration,
}

/// The ledger's database. Without it nothing is metered, and everything else works.
#[derive(clap::Args, Debug)]
struct LedgerArgs {
    /// File with the URL of the ledger's database, for the role `warpyard_meter`. A file, because the URL
    /// contains a password, and everybody can see arguments.
    #[arg(long, value_name = "FILE")]
    database_url_file: Option<PathBuf>,
    /// File with the URL of the same database for its owner: the schema is brought up to date at start.
    #[arg(long, value_name = "FILE", requires = "database_url_file")]
    migrate_url_file: Option<PathBuf>,
    /// This cluster's name in the ledger. It must never change: it is part of every key.
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

/// Where members report their progress. Without an address they report nothing, and everything else works.
#[derive(clap::Args, Debug)]
struct ReportingArgs {
    /// The API server's URL as members reach it, with https.
    #[arg(long, value_name = "URL")]
    report_url: Option<String>,
    /// File with the CA certificate (PEM) that signed the server's certificate. Without it, members use the CAs
    /// of their image.
    #[arg(long, value_name = "FILE", requires = "report_url")]
    report_ca_file: Option<PathBuf>,
}

impl ReportingArgs {
    fn open(&self) -> anyhow::Result<Option<Reporting>> {
        let Some(url) = &self.report_url else { return Ok(None) };
        let read = |file: &PathBuf| {
            std::fs::read_to_string(file)
                .with_context(|| format!("failed to read the CA in {}", file.display()))
        };
        let ca = self.report_ca_file.as_ref().map(read).transpose()?;
        Ok(Some(Reporting::new(url, ca)?))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Args { common, lease, ledger: ledger_args, reporting, cleanup } = Args::parse();
    logs::init(common.log_format);
    let stop = shutdown::on_signal()?;
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let meter_metrics = MeterMetrics::register(&mut registry);
    let cleanup_metrics = CleanupMetrics::register(&mut registry);
    let ledger = ledger_args.open()?;
    let around = Surroundings {
        metered: ledger.is_some(),
        reporting: reporting.open()?,
        keep_pods_seconds: Some(i32::try_from(cleanup.pods_for.as_secs()).unwrap_or(i32::MAX)),
    };
    if let Some(file) = &ledger_args.migrate_url_file {
        // Not only the leader does this: two at once are harmless.
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
    let books = ledger.map(|ledger| Books {
        ledger,
        meter: Arc::new(Meter::new(meter_metrics)),
        limits: Limits { keep_for: cleanup.runs_for, keep_most: cleanup.runs },
        cleanup_metrics,
    });
    if books.is_none() {
        info!("Ended runs stay in the cluster, because there is no database to archive them in.");
    }
    let work = service::run(client::watching(&config)?, metrics, books, around, stop, || {
        readiness.ready();
        info!("Controlling runs.");
    });
    tokio::select! {
        done = work => {
            held.release().await;
            done?;
        }
        lost = lost => {
            // Exit at once: every write is safe with two leaders, but one is enough.
            error!(%lost, "Lost the lease; exiting.");
            std::process::exit(1);
        }
    }
    Ok(())
}

/// Migrates the schema as soon as the database allows it. Tasks that need it retry meanwhile.
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
