//! The answers to questions. Pure.

use api_types::capacity::CapacityView;
use api_types::outlook::{Line, LineQuery, Outlook, RunOutlook, StartForecast, WaitingJob};
use cluster_model::plan::WaitingGang;
use cluster_model::{ClusterState, GangKey};

use super::forecaster;
use super::picture::Picture;
use crate::explain;
use crate::shares::shares;

/// The most runs in one answer: about 500 bytes each.
const LINE_MAX: usize = 1_000;
/// Why nothing is bought without `--buy-machines`.
pub const NOBODY_BUYS: &str = "the scheduler runs without --buy-machines";

/// The gang of a run that waits in a picture.
pub fn gang_of_run<'a>(picture: &'a Picture, namespace: &str, run: &str) -> Option<&'a GangKey> {
    let is_it = |gang: &&WaitingGang| *gang.gang.namespace == *namespace && gang.run.as_deref() == Some(run);
    picture.plan.waiting.iter().find(is_it).map(|gang| &gang.gang)
}

/// The outlook of one gang; `None` if it does not wait.
pub fn outlook(picture: &Picture, gang: &GangKey, forecast: Option<StartForecast>) -> Option<RunOutlook> {
    let waiting = &picture.plan.waiting;
    let at = waiting.iter().position(|waiting| waiting.gang == *gang)?;
    let mut ahead = Ahead::default();
    for other in &waiting[..at] {
        ahead.add(picture, other);
    }
    let outlook = Outlook { forecast, ..ahead.place(picture) };
    Some(RunOutlook { reasons: explain::reasons(&waiting[at]), outlook })
}

/// All queues, and the first waiting runs that were asked for, each with its place among all waiting gangs.
pub fn line(
    picture: &Picture,
    query: &LineQuery,
    forecast: impl Fn(&GangKey) -> Option<StartForecast>,
) -> Line {
    let is_asked_about = |gang: &WaitingGang| {
        let namespaces = query.namespaces.as_ref();
        gang.run.is_some() && namespaces.is_none_or(|it| it.contains(&*gang.gang.namespace))
    };
    let known_start = |gang: &WaitingGang| {
        forecast(&gang.gang).or_else(|| forecaster::is_stuck(gang).then(|| forecaster::no_start(picture)))
    };
    let mut ahead = Ahead::default();
    let job = |gang: &WaitingGang| {
        let place = ahead.place(picture);
        ahead.add(picture, gang);
        if !is_asked_about(gang) {
            return None;
        }
        let known = picture.state.gang(&gang.gang)?;
        let queue = picture.state.queue_of(picture.state.pod(known.lead()).pod()).ok();
        Some(WaitingJob {
            namespace: gang.gang.namespace.to_string(),
            run: gang.run.as_deref().map(str::to_owned),
            gang: gang.gang.name.to_string(),
            queue: queue.map(ToString::to_string),
            gpus: gpus(&picture.state, &gang.gang),
            waiting_since: known.waiting_since().to_string(),
            reason: explain::reasons(gang).into_iter().next(),
            outlook: Outlook { forecast: known_start(gang), ..place },
        })
    };
    let waiting = picture.plan.waiting.iter().filter_map(job);
    Line {
        planned_at: picture.made_at().to_string(),
        queues: shares(&picture.state),
        waiting: waiting.take(query.limit.min(LINE_MAX)).collect(),
        jobs_waiting: jobs_waiting(picture),
    }
}

/// The last decision about machines, as far as it was asked for; the API server filters it for the reader.
pub fn capacity(decided: Option<&CapacityView>, query: &LineQuery) -> CapacityView {
    let Some(decided) = decided else { return CapacityView::nothing(false, NOBODY_BUYS) };
    let is_asked_about =
        |namespace: &str| query.namespaces.as_ref().is_none_or(|namespaces| namespaces.contains(namespace));
    decided.seen_by(is_asked_about, true, query.limit.min(LINE_MAX))
}

/// The gangs ahead of a gang. A gang that cannot start as it is does not count: waiting does not bring it to
/// its turn.
#[derive(Default)]
struct Ahead {
    jobs: u32,
    gpus: u64,
}

impl Ahead {
    fn add(&mut self, picture: &Picture, gang: &WaitingGang) {
        if !forecaster::is_stuck(gang) {
            self.jobs = self.jobs.saturating_add(1);
            self.gpus += gpus(&picture.state, &gang.gang);
        }
    }

    fn place(&self, picture: &Picture) -> Outlook {
        Outlook {
            jobs_ahead: self.jobs,
            gpus_ahead: self.gpus,
            jobs_waiting: jobs_waiting(picture),
            planned_at: picture.made_at().to_string(),
            forecast: None,
        }
    }
}

fn jobs_waiting(picture: &Picture) -> u32 {
    u32::try_from(picture.plan.waiting.len()).unwrap_or(u32::MAX)
}

fn gpus(state: &ClusterState, gang: &GangKey) -> u64 {
    state.gang(gang).map_or(0, |gang| u64::try_from(gang.gpus()).unwrap_or(0))
}
