//! How long answers take.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::RequestBuilder;

/// Sends the requests, so many at a time; gives the times of the answers and their sizes in bytes, the fastest first.
pub async fn answers(
    requests: impl Iterator<Item = RequestBuilder>,
    at_once: usize,
) -> anyhow::Result<Vec<(Duration, usize)>> {
    let answers = requests.map(|request| async move {
        let began = Instant::now();
        let response = request.send().await?.error_for_status()?;
        let bytes = response.bytes().await?.len();
        Ok::<_, reqwest::Error>((began.elapsed(), bytes))
    });
    let answers = stream::iter(answers).buffer_unordered(at_once).try_collect::<Vec<_>>().await;
    let mut answers = answers.context("a request failed")?;
    answers.sort();
    Ok(answers)
}

/// The 95th percentile of sorted times.
pub fn percentile_95(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() * 95 / 100).or(sorted.last()).copied().unwrap_or_default()
}

/// As a number.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
