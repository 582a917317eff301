//! The thread that looks ahead: one question after the other, each bounded in plans. It works on pictures, and slows the
//! planning thread down by nothing but the processor it uses.

use std::sync::Arc;
use std::time::Instant;

use api_types::outlook::{Offer, StartForecast};
use cluster_model::GangKey;
use forecast::{Change, Draws, changes, eta};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::desk::Desk;
use super::picture::Picture;

/// Starts the thread; it ends with `stop`.
pub fn start(desk: Arc<Desk>, stop: CancellationToken) -> std::io::Result<()> {
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        loop {
            let next = runtime.block_on(async {
                tokio::select! {
                    () = stop.cancelled() => None,
                    next = desk.next_question() => Some(next),
                }
            });
            let Some((gang, picture)) = next else { return };
            let started = Instant::now();
            let forecast = picture.and_then(|picture| look_ahead(&desk, &picture, &gang));
            debug!(%gang, took_seconds = started.elapsed().as_secs_f64(), "Looked ahead.");
            desk.answer(&gang, forecast);
        }
    };
    std::thread::Builder::new().name("forecast".to_owned()).spawn(work).map(drop)
}

fn look_ahead(desk: &Desk, picture: &Picture, gang: &GangKey) -> Option<StartForecast> {
    let (state, policy, now) = (&picture.state, &picture.policy, picture.made_at());
    let draws = Draws { seed: picture.plan.generation, ..Draws::default() };
    let calibration = desk.outcomes().calibration();
    let (range, forecast) = eta(state, policy, now, gang, (&picture.arrivals, &calibration), draws)?;
    desk.outcomes().await_start(gang, forecast);
    let offers = changes(state, policy, now, gang);
    Some(StartForecast {
        p50_seconds: range.p50_seconds,
        p90_seconds: range.p90_seconds,
        made_at: now.to_string(),
        would_start_now: offers.iter().map(offer).collect(),
    })
}

fn offer(change: &Change) -> Offer {
    let code = match change {
        Change::FewerGpus { .. } => "FewerGpus",
        Change::FewerMembers { .. } => "FewerMembers",
        Change::GpuType { .. } => "GpuType",
        Change::Topology { .. } => "Topology",
        Change::Queue { .. } => "Queue",
        Change::Spot => "Spot",
    };
    Offer { code: code.to_owned(), message: change.to_string() }
}
