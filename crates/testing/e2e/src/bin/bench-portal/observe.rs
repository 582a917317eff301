//! What Kubernetes says, and what is made of it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use kube::Client;

/// Open watches by kind, as the Kubernetes API server counts them.
pub async fn watches(client: &Client) -> anyhow::Result<BTreeMap<String, f64>> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let metrics =
        client.request_text(request).await.context("failed to read the metrics of kube-apiserver")?;
    let mut counts = BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_longrunning_requests{")) {
        let kind =
            line.split_once("resource=\"").and_then(|(_, rest)| rest.split_once('"')).map(|(kind, _)| kind);
        let count = line.rsplit_once(' ').and_then(|(_, count)| count.parse::<f64>().ok());
        if let (true, Some(kind), Some(count)) = (line.contains("verb=\"WATCH\""), kind, count) {
            *counts.entry(kind.to_owned()).or_default() += count;
        }
    }
    Ok(counts)
}

/// What 95 of 100 are below, of sorted times.
pub fn percentile_95(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() * 95 / 100).or(sorted.last()).copied().unwrap_or_default()
}

/// As a number.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
