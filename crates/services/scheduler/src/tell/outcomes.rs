//! The accuracy of earlier forecasts.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cluster_model::GangKey;
use cluster_model::plan::Plan;
use forecast::{Calibration, Forecast};

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
    /// The first forecast of each gang, with the time at which it was made.
    awaited: BTreeMap<GangKey, Forecast>,
    by_age: std::collections::VecDeque<GangKey>,
}

impl Outcomes {
    /// The calibration learned so far.
    pub fn calibration(&self) -> Calibration {
        self.lock().calibration.clone()
    }

    /// Notes a forecast; only the first of each gang counts for the calibration.
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

    pub(super) fn started(&self, plan: &Plan) {
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
