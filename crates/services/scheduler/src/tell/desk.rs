//! Where those who ask, the planning thread and the forecast thread meet. Nobody waits here for long, and the planning
//! thread not at all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_types::capacity::CapacityView;
use api_types::outlook::StartForecast;
use cluster_model::GangKey;
use forecast::Coming;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::learned::Outcomes;
use super::picture::Picture;

/// A picture is kept while somebody asked within this time, and taken for nobody who asked longer ago.
const ASKED_WITHIN: Duration = Duration::from_mins(1);
/// A picture costs the planning thread a copy of the state: no more than one in this time.
const PICTURE_PACE: Duration = Duration::from_secs(3);
/// After a picture, so many times as long as it took pass before another one is taken for who decides about machines.
const PICTURE_REST_FACTOR: u32 = 20;
/// Gangs that may wait for their forecast; who comes later asks again.
const QUESTIONS_MAX: usize = 64;
/// Forecasts that are kept, some 500 bytes each; the oldest is forgotten first.
const FORECASTS_MAX: usize = 4_096;
/// A forecast is worked out again after this, if somebody asks.
const FORECAST_LIFETIME: Duration = Duration::from_secs(30);

/// See the module.
#[derive(Default)]
pub struct Desk {
    inner: Mutex<Inner>,
    picture: watch::Sender<Option<Arc<Picture>>>,
    /// Counts forecasts, for those who wait for one.
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
    /// Whether somebody needs one that is newer than all there were.
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

    /// The cluster as it is, or was within the last seconds; asks for a new picture if the last is older, and waits for
    /// it until `deadline`. After that an older one has to do; `None` if there is none.
    pub async fn picture(&self, deadline: Instant) -> Option<Arc<Picture>> {
        let now = Instant::now();
        self.lock().asked = Some(now);
        let mut pictures = self.picture.subscribe();
        let is_fresh =
            |picture: &Option<Arc<Picture>>| picture.as_ref().is_some_and(|it| it.taken + PICTURE_PACE > now);
        if !is_fresh(&pictures.borrow()) {
            self.plan_again.notify_one();
            // Too late is not wrong: an older picture does too.
            let _ = tokio::time::timeout_at(deadline, pictures.wait_for(is_fresh)).await;
        }
        self.picture.borrow().clone()
    }

    /// A picture that was taken after now; `None` if none is by `deadline`. It is asked for only when pictures take a
    /// twentieth of the planning thread's time at most.
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

    /// Completes when somebody needs a picture and none is on its way.
    pub async fn plan_again(&self) {
        self.plan_again.notified().await;
    }

    /// Whether the planning thread should take a picture: somebody asked since the last one, and not long ago.
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

    /// Takes note of how long a picture took.
    pub fn pictured(&self, took: Duration) {
        self.lock().picture_took = took;
    }

    /// Puts a picture on the desk, from within a runtime. What was there is dropped on another thread: that takes as long
    /// as a copy. Not on the forecast thread, which may be busy while many more are shown.
    pub fn show(&self, picture: Picture) {
        if let Some(old) = self.picture.send_replace(Some(Arc::new(picture))) {
            // Nobody waits for it.
            drop(tokio::task::spawn_blocking(move || drop(old)));
        }
    }

    /// Takes the picture away when nobody asked for a while: it is as large as the state itself.
    pub fn tidy(&self) {
        let is_asked = self.lock().asked.is_some_and(|at| at + ASKED_WITHIN > Instant::now());
        if !is_asked && self.picture.borrow().is_some() {
            self.picture.send_replace(None);
        }
    }

    /// Puts what was decided about machines on the desk, with the machines that are on their way. What was worked out for a
    /// gang before its machines were ordered, or while they were still expected, holds no more.
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

    /// What was decided last about machines; `None` where nobody decides.
    pub fn capacity(&self) -> Option<Arc<CapacityView>> {
        self.lock().capacity.clone()
    }

    /// What was worked out for a gang, however old.
    pub fn forecast(&self, gang: &GangKey) -> Option<StartForecast> {
        self.lock().forecasts.get(gang).map(|(_, forecast)| forecast.clone())
    }

    /// Asks for a forecast, if there is no young one and the forecast thread has not too much to do.
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

    /// The same, and waits for it until `deadline`. An old one has to do after that.
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

    /// The next gang to look ahead for, with the picture to look at. The gang counts as asked about until
    /// [`Desk::answer`].
    pub async fn next_question(&self) -> (GangKey, Option<Arc<Picture>>) {
        loop {
            let next = self.lock().waiting.pop_front();
            if let Some(gang) = next {
                return (gang, self.picture.borrow().clone());
            }
            self.questions.notified().await;
        }
    }

    /// What was found out about a gang; nothing if it does not wait any more.
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
