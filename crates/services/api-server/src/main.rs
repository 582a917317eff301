//! `warpyard-api-server`: wiring only.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use api_server::args::Args;
use api_server::cache::cluster_cache::ClusterCache;
use api_server::cost::ledger::Ledger;
use api_server::http::connections;
use api_server::metrics::Metrics;
use api_server::router::router;
use api_server::server::Server;
use clap::Parser;
use prometheus_client::registry::Registry;
use service_kit::health::{self, Readiness};
use service_kit::{client, logs, shutdown};
use tokio::net::TcpListener;
use tracing::info;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let address = args.checked_listen()?;
    let Args { common, listen: _, behind_tls, address_file, default_image, database_url_file, cluster } =
        args;
    logs::init(common.log_format);
    let stop = shutdown::on_signal()?;
    let config = client::config(common.kubeconfig.as_deref()).await?;
    let client = client::client(&config)?;
    let watches = client::watching(&config)?;

    let mut registry = Registry::default();
    let metrics = Metrics::new(&mut registry);
    let readiness = Readiness::starting("has not read all runs, queues, nodes and pods yet");
    health::serve(common.health_listen, readiness.clone(), Arc::new(registry), stop.clone()).await?;

    let cache = Arc::new(ClusterCache::default());
    let ledger = database_url_file.map(|file| Ledger::open(&file, &cluster)).transpose()?;
    let server = Server::new(client, Arc::clone(&cache), default_image, metrics)
        .behind_tls(behind_tls)
        .with_ledger(ledger);
    let server = Arc::new(server);
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    if let Some(path) = address_file {
        write_at_once(&path, &address.to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    info!(%address, "Listening.");

    // Streams do not end by themselves, and the server stops only when every answer has ended.
    let close_streams = async {
        stop.cancelled().await;
        server.events().close();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = connections::serve(listener, router(Arc::clone(&server)), stop.clone()) => Ok(()),
        result = follow(&cache, watches, &readiness) => result,
        () = server.events().publish(&cache) => unreachable!("it waits for ever"),
        () = close_streams => unreachable!("it waits for ever"),
    }
}

/// Keeps the cache current, and says when it is complete.
async fn follow(cache: &ClusterCache, client: kube::Client, readiness: &Readiness) -> anyhow::Result<()> {
    let report = async {
        cache.complete().await;
        readiness.ready();
        info!("Serving.");
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = cache.follow(client) => result.context("cannot go on reading"),
        () = report => unreachable!("it waits for ever"),
    }
}

/// Writes the file atomically: a process that waits for it never finds a part of it.
fn write_at_once(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_added_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}
