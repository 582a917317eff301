//! The work of the servers: the processor time of each, and the requests that the API server counted.

use std::collections::BTreeMap;

use e2e::usage;

use crate::scheduler::yard::Yard;

/// Requests that are too few to matter are not shown.
const SHOWN: usize = 8;

/// Their work so far.
pub struct Servers {
    cpu_seconds: BTreeMap<String, f64>,
    requests: BTreeMap<String, f64>,
}

impl Servers {
    pub async fn now(yard: &Yard) -> anyhow::Result<Self> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let text = yard.client.request_text(request).await?;
        let mut requests = BTreeMap::new();
        for (labels, count) in text.lines().filter_map(counted) {
            *requests.entry(labels).or_default() += count;
        }
        // This program observes, and makes the bare calls.
        let this = ("this program".to_owned(), std::process::id());
        let pids = yard.cluster.server_pids().into_iter().chain([this]);
        let cpu = pids.map(|(name, pid)| Ok((name, usage::cpu_seconds(pid)?)));
        Ok(Self { cpu_seconds: cpu.collect::<anyhow::Result<_>>()?, requests })
    }

    /// Their work for each of `pods` pods since `before`, for people.
    pub fn since(&self, before: &Self, pods: f64) -> String {
        let done = |now: &BTreeMap<String, f64>, then: &BTreeMap<String, f64>| -> Vec<(String, f64)> {
            now.iter().map(|(key, now)| (key.clone(), now - then.get(key).unwrap_or(&0.0))).collect()
        };
        let cpu = done(&self.cpu_seconds, &before.cpu_seconds);
        let cpu = cpu.iter().map(|(name, seconds)| format!("{name} {:.2} ms", seconds * 1e3 / pods));
        let mut requests = done(&self.requests, &before.requests);
        requests.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let requests = requests.iter().filter(|(_, count)| *count > 0.0).take(SHOWN);
        let requests = requests.map(|(labels, count)| format!("{labels} {count}"));
        format!(
            "CPU per pod: {}\n  requests: {}",
            cpu.collect::<Vec<_>>().join(", "),
            requests.collect::<Vec<_>>().join(", ")
        )
    }
}

/// A line of the API server's metrics that counts requests: which, and how many.
fn counted(line: &str) -> Option<(String, f64)> {
    let (labels, count) = line.strip_prefix("apiserver_request_total{")?.rsplit_once("} ")?;
    let label = |name: &str| {
        let (_, rest) = labels.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0)
    };
    let subresource =
        label(",subresource").filter(|it| !it.is_empty()).map_or_else(String::new, |it| format!("/{it}"));
    let name = format!("{} {}{subresource} {}", label("verb")?, label(",resource")?, label("code")?);
    Some((name, count.parse().ok()?))
}
