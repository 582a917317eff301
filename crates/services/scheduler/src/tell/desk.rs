//! The meeting point of callers, the planning thread and the forecast thread. Waits here are short, and the
//! planning thread never waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_types::capacity::CapacityView;
use api_types::outlook::StartForecast;
use cluster_model::GangKey;
use forecast::Coming;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::outcomes::Outcomes;
use super::picture::Picture;

/// A picture is taken and kept only while the last question is younger than this.
const ASKED_WITHIN: Duration = Duration::from_mins(1);
/// Time between two pictures: each costs the planning thread a copy of the state.
const PICTURE_PACE: Duration = Duration::from_secs(3);
/// For decisions about machines, the next picture is taken after this many times as long as the last one took.
const PICTURE_REST_FACTOR: u32 = 20;
/// Gangs that may wait for their forecast; a later question must be repeated.
const QUESTIONS_MAX: usize = 64;
/// Forecasts that are kept, some 500 bytes each; the oldest is forgotten first.
const FORECASTS_MAX: usize = 4_096;
/// After this a forecast is worked out anew, if it is asked for.
const FORECAST_LIFETIME: Duration = Duration::from_secs(30);

/// The meeting point of the threads.
#[derive(Default)]
pub struct Desk {
    inner: Mutex<Inner>,
    picture: watch::Sender<Option<Arc<Picture>>>,
    /// Counts forecasts, for callers that wait for one.
    forecasts_made: watch::Sender<u64>,
    plan_again: Notify,
    questions: Notify,
    outcomes: Outcomes,
}

#[derive(Default)]
struct Inner {
    asked: Option<Instant>,
    pictured: Option<Instant>,
    picture_took: Duration,
    /// Whether a picture newer than all earlier ones is needed.
    is_needed_anew: bool,
    waiting: VecDeque<GangKey>,
    is_waiting: BTreeSet<GangKey>,
    forecasts: BTreeMap<GangKey, (Instant, StartForecast)>,
    by_age: VecDeque<GangKey>,
    capacity: Option<Arc<CapacityView>>,
    coming: Arc<[Coming]>,
}

impl Desk {
    /// How forecasts turned out.
    pub fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    /// A picture of the last few seconds. If the last one is older, asks for a new one and waits for it until
    /// `deadline`, and then returns the older one; `None` if there is none.
    pub async fn picture(&self, deadline: Instant) -> Option<Arc<Picture>> {
        let now = Instant::now();
        self.lock().asked = Some(now);
        let mut pictures = self.picture.subscribe();
        let is_fresh =
            |picture: &Option<Arc<Picture>>| picture.as_ref().is_some_and(|it| it.taken + PICTURE_PACE > now);
        if !is_fresh(&pictures.borrow()) {
            self.plan_again.notify_one();
            // If none comes in time, an older picture will do.
            let _ = tokio::time::timeout_at(deadline, pictures.wait_for(is_fresh)).await;
        }
        self.picture.borrow().clone()
    }

    /// A picture taken after this call; `None` if none is taken by `deadline`. Pictures are asked for only so
    /// often that they take at most a twentieth of the planning thread's time.
    pub async fn new_picture(&self, deadline: Instant) -> Option<Arc<Picture>> {
        let due = {
            let inner = self.lock();
            inner.pictured.map(|at| at + inner.picture_took * PICTURE_REST_FACTOR)
        };
        if let Some(due) = due {
            tokio::time::sleep_until(due).await;
        }
        let now = Instant::now();
        let mut pictures = self.picture.subscribe();
        {
            let mut inner = self.lock();
            (inner.asked, inner.is_needed_anew) = (Some(now), true);
        }
        self.plan_again.notify_one();
        let is_new = |picture: &Option<Arc<Picture>>| picture.as_ref().is_some_and(|it| it.taken >= now);
        let found = tokio::time::timeout_at(deadline, pictures.wait_for(is_new)).await;
        found.ok()?.ok()?.clone()
    }

    /// Completes when a picture is needed and none is on its way.
    pub async fn plan_again(&self) {
        self.plan_again.notified().await;
    }

    /// Whether the planning thread should take a picture: one was asked for since the last one, and not long
    /// ago.
    pub fn wants_picture(&self) -> bool {
        let mut inner = self.lock();
        let now = Instant::now();
        let pictured = inner.pictured;
        let is_new = |at: Instant| pictured.is_none_or(|pictured| at > pictured);
        let is_asked = inner.asked.is_some_and(|at| at + ASKED_WITHIN > now && is_new(at));
        let is_due = inner.is_needed_anew || pictured.is_none_or(|at| at + PICTURE_PACE <= now);
        if is_asked && is_due {
            (inner.pictured, inner.is_needed_anew) = (Some(now), false);
        }
        is_asked && is_due
    }

    /// Notes how long a picture took.
    pub fn pictured(&self, took: Duration) {
        self.lock().picture_took = took;
    }

    /// Puts a picture on the desk, from within a runtime. The old one is dropped on another thread, because
    /// that takes as long as a copy; not on the forecast thread, which may be busy while many more come.
    pub fn show(&self, picture: Picture) {
        if let Some(old) = self.picture.send_replace(Some(Arc::new(picture))) {
            // Nobody waits for it.
            drop(tokio::task::spawn_blocking(move || drop(old)));
        }
    }

    /// Removes the picture when nobody has asked for a while: it is as large as the state itself.
    pub fn tidy(&self) {
        let is_asked = self.lock().asked.is_some_and(|at| at + ASKED_WITHIN > Instant::now());
        if !is_asked && self.picture.borrow().is_some() {
            self.picture.send_replace(None);
        }
    }

    /// Puts a decision about machines on the desk, with the machines on their way. Forecasts of gangs whose
    /// machines were ordered since, or are expected no more, become invalid.
    pub fn show_capacity(&self, capacity: CapacityView, coming: Vec<Coming>) {
        let mut inner = self.lock();
        inner.capacity = Some(Arc::new(capacity));
        let gangs = |coming: &[Coming]| -> BTreeSet<GangKey> {
            coming.iter().filter_map(|it| it.gang().cloned()).collect()
        };
        let (before, now) = (gangs(&inner.coming), gangs(&coming));
        for gang in before.symmetric_difference(&now) {
            inner.forecasts.remove(gang);
        }
        inner.coming = coming.into();
    }

    /// Machines that are on their way.
    pub fn coming(&self) -> Arc<[Coming]> {
        Arc::clone(&self.lock().coming)
    }

    /// The last decision about machines; `None` where none are bought.
    pub fn capacity(&self) -> Option<Arc<CapacityView>> {
        self.lock().capacity.clone()
    }

    /// The last forecast of a gang, of any age.
    pub fn forecast(&self, gang: &GangKey) -> Option<StartForecast> {
        self.lock().forecasts.get(gang).map(|(_, forecast)| forecast.clone())
    }

    /// Asks for a forecast, if there is no recent one and the forecast thread's queue is not full.
    pub fn ask(&self, gang: &GangKey) {
        let mut inner = self.lock();
        let is_young = inner.forecasts.get(gang).is_some_and(|(made, _)| made.elapsed() < FORECAST_LIFETIME);
        if is_young || inner.waiting.len() >= QUESTIONS_MAX || !inner.is_waiting.insert(gang.clone()) {
            return;
        }
        inner.waiting.push_back(gang.clone());
        drop(inner);
        self.questions.notify_one();
    }

    /// The same, and waits for it until `deadline`; after that an old one will do.
    pub async fn forecast_by(&self, gang: &GangKey, deadline: Instant) -> Option<StartForecast> {
        let mut made = self.forecasts_made.subscribe();
        self.ask(gang);
        loop {
            if !self.lock().is_waiting.contains(gang) {
                return self.forecast(gang);
            }
            if tokio::time::timeout_at(deadline, made.changed()).await.is_err() {
                return self.forecast(gang);
            }
        }
    }

    /// The next gang to forecast, with the picture to use. The question stays open until [`Desk::answer`].
    pub async fn next_question(&self) -> (GangKey, Option<Arc<Picture>>) {
        loop {
            let next = self.lock().waiting.pop_front();
            if let Some(gang) = next {
                return (gang, self.picture.borrow().clone());
            }
            self.questions.notified().await;
        }
    }

    /// Stores the forecast of a gang; `None` if it does not wait any more.
    pub fn answer(&self, gang: &GangKey, forecast: Option<StartForecast>) {
        let mut inner = self.lock();
        inner.is_waiting.remove(gang);
        match forecast {
            Some(forecast) => {
                if inner.forecasts.insert(gang.clone(), (Instant::now(), forecast)).is_none() {
                    inner.by_age.push_back(gang.clone());
                }
            }
            None => drop(inner.forecasts.remove(gang)),
        }
        if inner.by_age.len() > FORECASTS_MAX
            && let Some(oldest) = inner.by_age.pop_front()
        {
            inner.forecasts.remove(&oldest);
        }
        drop(inner);
        self.forecasts_made.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
