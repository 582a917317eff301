//! What the planning thread notes on its way: gangs that arrive, and starts that were forecast. Bounded, and O(1) for
//! each change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cluster_model::plan::Plan;
use cluster_model::{Change, ClusterState, GangKey};
use forecast::{Arrivals, Calibration, Forecast};
use jiff::Timestamp;
use placement::Policy;
use tokio::time::Instant;

use super::desk::Desk;
use super::picture::Picture;

/// Forecasts whose start is awaited, the oldest forgotten first: about 150 bytes each.
const AWAITED_MAX: usize = 4_096;

/// How earlier forecasts turned out; shared with the forecast thread.
#[derive(Debug, Default)]
pub struct Outcomes {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    calibration: Calibration,
    /// The first forecast of each gang, with when it was made.
    awaited: BTreeMap<GangKey, Forecast>,
    by_age: std::collections::VecDeque<GangKey>,
}

impl Outcomes {
    /// What was learned so far.
    pub fn calibration(&self) -> Calibration {
        self.lock().calibration.clone()
    }

    /// Takes note of a forecast; only the first of each gang says how good forecasts are.
    pub fn await_start(&self, gang: &GangKey, forecast: Forecast) {
        let mut inner = self.lock();
        if inner.awaited.contains_key(gang) {
            return;
        }
        inner.awaited.insert(gang.clone(), forecast);
        inner.by_age.push_back(gang.clone());
        if inner.by_age.len() > AWAITED_MAX
            && let Some(oldest) = inner.by_age.pop_front()
        {
            inner.awaited.remove(&oldest);
        }
    }

    fn started(&self, plan: &Plan) {
        let mut inner = self.lock();
        if inner.awaited.is_empty() {
            return;
        }
        for placement in &plan.placements {
            if let Some(forecast) = inner.awaited.remove(&placement.gang) {
                inner.calibration.started(&forecast, plan.made_at);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The planning thread's end of the desk.
pub struct Teller {
    desk: Arc<Desk>,
    arrivals: Arrivals,
    /// Gangs of which a first pod was seen since the last plan.
    new: Vec<GangKey>,
    /// Whether a plan was made: what was there before arrived at other times.
    has_planned: bool,
}

impl Teller {
    /// One that tells this desk.
    pub fn new(desk: Arc<Desk>) -> Self {
        Self { desk, arrivals: Arrivals::default(), new: Vec::new(), has_planned: false }
    }

    /// To be called before a change is applied.
    pub fn changes(&mut self, state: &ClusterState, change: &Change) {
        if let Change::Pod(pod) = change
            && pod.ours
            && state.gang(&pod.gang).is_none()
        {
            self.new.push(pod.gang.clone());
        }
    }

    /// To be called after a plan was made, and before anything of it is carried out.
    pub fn planned(&mut self, state: &ClusterState, policy: &Policy, plan: &Plan) {
        self.note_arrivals(state, plan.made_at);
        self.desk.outcomes().started(plan);
        if self.desk.wants_picture() {
            let started = Instant::now();
            self.desk.show(Picture {
                state: state.clone(),
                policy: policy.clone(),
                plan: plan.clone(),
                arrivals: self.arrivals.clone(),
                taken: Instant::now(),
            });
            self.desk.pictured(started.elapsed());
        }
    }

    fn note_arrivals(&mut self, state: &ClusterState, now: Timestamp) {
        let mut new = std::mem::take(&mut self.new);
        if std::mem::replace(&mut self.has_planned, true) {
            for gang in &new {
                self.arrivals.note(state, gang, now);
            }
            return;
        }
        // A new leader finds gangs of the last days: they came when their pods were created.
        let came = |gang: &GangKey| state.gang(gang).map(cluster_model::Gang::waiting_since);
        new.sort_by_key(|gang| (came(gang), gang.clone()));
        new.dedup();
        for gang in &new {
            self.arrivals.note(state, gang, came(gang).unwrap_or(now).min(now));
        }
    }
}
