//! The forecast thread: one question after the other, each bounded in plans. It works on pictures, and takes
//! only processor time from the planning thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use api_types::outlook::{Offer, StartForecast};
use cluster_model::GangKey;
use cluster_model::plan::{WaitReason, WaitingGang};
use forecast::{Coming, Draws, Known, RequestChange, changes, eta};
use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::desk::Desk;
use super::picture::Picture;

/// Makes the forecast of one gang; `None` if there is none.
type LookAhead = fn(&Desk, &Picture, &GangKey) -> Option<StartForecast>;

/// Starts the thread; it ends with `stop`. Questions that made it panic are counted.
pub fn start(desk: Arc<Desk>, panics: Counter, stop: CancellationToken) -> std::io::Result<()> {
    start_with(desk, panics, stop, look_ahead)
}

fn start_with(
    desk: Arc<Desk>,
    panics: Counter,
    stop: CancellationToken,
    look_ahead: LookAhead,
) -> std::io::Result<()> {
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
            let look = || picture.and_then(|picture| look_ahead(&desk, &picture, &gang));
            // A panic leaves only locks, whose poisoning is ignored, and a dropped copy, so the next question
            // is answered all the same. The panic was logged where it happened.
            let forecast = catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| {
                panics.inc();
                None
            });
            debug!(%gang, took_seconds = started.elapsed().as_secs_f64(), "Looked ahead.");
            desk.answer(&gang, forecast);
        }
    };
    std::thread::Builder::new().name("forecast".to_owned()).spawn(work).map(drop)
}

fn look_ahead(desk: &Desk, picture: &Picture, gang: &GangKey) -> Option<StartForecast> {
    let (state, policy, now) = (&picture.state, &picture.policy, picture.made_at());
    let waiting = picture.plan.waiting.iter().find(|waiting| waiting.gang == *gang)?;
    let would_start_now = changes(state, policy, now, gang).iter().map(offer).collect();
    let mut told = StartForecast { would_start_now, ..no_start(picture) };
    let coming = desk.coming();
    if is_stuck(waiting) && !may_be_helped(waiting, &coming) {
        return Some(told);
    }
    let draws = Draws { seed: picture.plan.generation, ..Draws::default() };
    let calibration = desk.outcomes().calibration();
    let known = Known { arrivals: &picture.arrivals, calibration: &calibration, coming: &coming };
    let (range, forecast) = eta(state, policy, now, gang, known, draws)?;
    told.not_within_seconds = forecast.not_within_seconds();
    if told.not_within_seconds.is_none() {
        (told.p50_seconds, told.p90_seconds) = (Some(range.p50_seconds), Some(range.p90_seconds));
        desk.outcomes().await_start(gang, forecast);
    }
    Some(told)
}

/// Whether something other than time must change. Such a gang starts in no simulated future, and finding that
/// out takes longest.
pub(super) fn is_stuck(gang: &WaitingGang) -> bool {
    gang.reasons.first().is_some_and(WaitReason::is_stuck)
}

/// Whether machines that are on their way, for it or for others, may be what a gang lacks.
fn may_be_helped(gang: &WaitingGang, coming: &[Coming]) -> bool {
    let first = gang.reasons.first();
    !coming.is_empty() && first.is_some_and(WaitReason::has_no_such_node)
}

/// The forecast of a gang that is stuck, before the search for changes that would start it.
pub(super) fn no_start(picture: &Picture) -> StartForecast {
    StartForecast {
        p50_seconds: None,
        p90_seconds: None,
        not_within_seconds: None,
        made_at: picture.made_at().to_string(),
        would_start_now: Vec::new(),
    }
}

fn offer(change: &RequestChange) -> Offer {
    let code = match change {
        RequestChange::FewerGpus { .. } => "FewerGpus",
        RequestChange::FewerMembers { .. } => "FewerMembers",
        RequestChange::GpuType { .. } => "GpuType",
        RequestChange::Topology { .. } => "Topology",
        RequestChange::Queue { .. } => "Queue",
        RequestChange::Spot => "Spot",
    };
    Offer { code: code.to_owned(), message: change.to_string() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use api_types::outlook::StartForecast;
    use cluster_model::GangKey;
    use prometheus_client::metrics::counter::Counter;
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::super::tests::picture;
    use super::{Desk, Picture, start_with};

    fn look_ahead(_: &Desk, _: &Picture, gang: &GangKey) -> Option<StartForecast> {
        assert_ne!(&*gang.name, "bad", "a test panics on purpose");
        (&*gang.name != "gone").then(super::super::tests::forecast)
    }

    #[tokio::test]
    async fn a_question_that_panics_has_no_answer_and_the_next_one_has() {
        let desk = Arc::<Desk>::default();
        picture(&desk).await;
        let (panics, stop) = (Counter::default(), CancellationToken::new());
        start_with(Arc::clone(&desk), panics.clone(), stop.clone(), look_ahead).expect("a thread");
        let ask = |name: &str| {
            let (desk, gang) = (Arc::clone(&desk), GangKey::new("team", name));
            async move { desk.forecast_by(&gang, Instant::now() + Duration::from_secs(30)).await }
        };
        assert_eq!(ask("bad").await, None);
        assert!(ask("good").await.is_some());
        assert_eq!(ask("gone").await, None);
        assert_eq!(panics.get(), 1);
        stop.cancel();
    }
}
