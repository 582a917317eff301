//! Reads numbers from Kubernetes.

use std::collections::BTreeMap;

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
