//! Pages of lists: how long they take, and how large they are.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;

use crate::fill::team_name;
use crate::observe::{milliseconds, percentile_95};

/// Requests that are measured.
pub const LIST_REQUESTS: usize = 1_200;
/// Requests at one time.
pub const LIST_CONCURRENCY: usize = 4;

/// What was seen.
pub struct Lists {
    /// Runs on the page that has the fewest, of those that are followed by another.
    pub fewest: usize,
    /// 95 of 100 took less.
    pub p95_ms: f64,
    /// The largest page.
    pub largest_kb: f64,
}

/// What pages ask for: mostly the first page, also further ones, filters, and a search that finds nothing.
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
        let request =
            http.get(format!("{url}/v1/runs{}", queries[number % queries.len()])).bearer_auth(token);
        async move {
            let began = Instant::now();
            let response = request.send().await?.error_for_status()?;
            let bytes = response.bytes().await?.len();
            Ok::<_, reqwest::Error>((began.elapsed(), bytes))
        }
    });
    let mut answers: Vec<(Duration, usize)> = stream::iter(requests)
        .buffer_unordered(LIST_CONCURRENCY)
        .try_collect()
        .await
        .context("failed to list runs")?;
    answers.sort();
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
