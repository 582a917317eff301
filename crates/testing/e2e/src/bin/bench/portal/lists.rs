//! Measures the time and the size of pages of lists.

use anyhow::Context;
use serde_json::Value;

use crate::latency::{self, milliseconds, percentile_95};
use crate::portal::fill::team_name;

/// Requests that are measured.
pub const LIST_REQUESTS: usize = 1_200;
/// Requests at one time.
pub const LIST_CONCURRENCY: usize = 4;

/// The measurements.
pub struct Lists {
    /// The fewest runs on a page that another page follows.
    pub fewest: usize,
    /// 95 of 100 took less.
    pub p95_ms: f64,
    /// The largest page.
    pub largest_kb: f64,
}

/// Requests like the portal's: mostly the first page, also further ones, filters, and a search that finds
/// nothing.
pub async fn measure_lists(url: &str, token: &str) -> anyhow::Result<Lists> {
    let http = reqwest::Client::new();
    let first: Value = http.get(format!("{url}/v1/runs")).bearer_auth(token).send().await?.json().await?;
    let next = first["continue"].as_str().context("there is more than one page")?.to_owned();
    let queries = [
        String::new(),
        String::new(),
        format!("?continue={next}"),
        "?phase=Failed".to_owned(),
        "?search=finetune-0".to_owned(),
        "?search=nowhere".to_owned(),
        format!("?namespace={}", team_name(3)),
    ];
    let mut fewest = usize::MAX;
    for query in &queries {
        let request = http.get(format!("{url}/v1/runs{query}")).bearer_auth(token);
        let page: Value = request.send().await?.error_for_status()?.json().await?;
        let items = page["items"].as_array().map_or(0, Vec::len);
        if page["continue"].is_string() {
            fewest = fewest.min(items);
        }
    }
    let requests = (0..LIST_REQUESTS).map(|number| {
        http.get(format!("{url}/v1/runs{}", queries[number % queries.len()])).bearer_auth(token)
    });
    let answers = latency::answers(requests, LIST_CONCURRENCY).await.context("failed to list runs")?;
    let largest = answers.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    let p95 = percentile_95(&answers.iter().map(|(took, _)| *took).collect::<Vec<_>>());
    Ok(Lists { fewest, p95_ms: milliseconds(p95), largest_kb: f64::from(u32::try_from(largest)?) / 1_000.0 })
}

/// The size of the first page of nodes.
pub async fn nodes_page_kb(url: &str, token: &str) -> anyhow::Result<f64> {
    let request = reqwest::Client::new().get(format!("{url}/v1/nodes")).bearer_auth(token);
    let bytes = request.send().await?.error_for_status()?.bytes().await?.len();
    Ok(f64::from(u32::try_from(bytes)?) / 1_000.0)
}
