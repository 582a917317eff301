//! What the kernel and Kubernetes say, and what is made of it.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};
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

/// The measured process, by its id.
#[derive(Clone, Copy)]
pub struct Process(pub u32);

impl Process {
    /// Resident memory.
    pub fn memory_mb(self) -> anyhow::Result<f64> {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.0)).context("the API server is gone")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes / 1_024.0)
    }

    /// User and system time so far. The kernel counts in hundredths of a second on every Linux of today.
    pub fn cpu_seconds(self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).context("the API server is gone")?;
        // Fields count from the end of the name, which is in parentheses: user time is the 12th from there.
        let (_, fields) = stat.rsplit_once(") ").context("the kernel's format")?;
        let ticks: Vec<f64> =
            fields.split(' ').skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
        ensure!(ticks.len() == 2, "the kernel's format");
        Ok((ticks[0] + ticks[1]) / 100.0)
    }
}

/// What 95 of 100 are below, of sorted times.
pub fn percentile_95(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() * 95 / 100).or(sorted.last()).copied().unwrap_or_default()
}

/// As a number.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
