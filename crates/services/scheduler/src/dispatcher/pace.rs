//! When to plan: soon after a cluster change, at most for a tenth of the time, and when the last plan asked for
//! it.

use std::time::Duration;

use cluster_model::plan::Plan;
use tokio::time::Instant;

/// Changes are gathered for this long after the first one, so that a gang's pods are planned together.
const COALESCE: Duration = Duration::from_millis(10);
/// After a plan, changes are gathered for this many times as long as the plan took, so that planning takes a
/// tenth of the time: while thousands of gangs leave and start one after the other, every plan looks at all of
/// them …
const REST_FACTOR: u32 = 9;
/// … but for no longer than this.
const REST_MAX: Duration = Duration::from_millis(500);
/// The longest time until a plan that the last one asked for: an `Instant` cannot hold centuries.
const LOOK_AGAIN_MAX: Duration = Duration::from_hours(24);

/// The time of the last plan and of the next one.
#[derive(Debug)]
pub(super) struct Pace {
    /// The generation that the state had after the last plan.
    planned: Option<u64>,
    /// When to plan again without a change: the last plan said so.
    look_again_at: Option<Instant>,
    /// Changes are gathered until then, unless a plan is asked for: the last plan took long.
    rests_until: Instant,
    /// When a new plan was asked for.
    asked_at: Option<Instant>,
}

impl Pace {
    /// Nothing is planned yet.
    pub fn new(now: Instant) -> Self {
        Self { planned: None, look_again_at: None, rests_until: now, asked_at: None }
    }

    /// Whether there was a plan.
    pub fn has_planned(&self) -> bool {
        self.planned.is_some()
    }

    /// Asks for a new plan.
    pub fn ask(&mut self, now: Instant) {
        self.asked_at.get_or_insert(now);
    }

    /// The first input came: returns until when more are gathered.
    pub fn gather_until(&self, now: Instant) -> Instant {
        let coalesced = now + COALESCE;
        if self.asked_at.is_some() { coalesced } else { coalesced.max(self.rests_until) }
    }

    /// When to plan next. Never before the rest after the last plan is over: plans one after the other would
    /// keep the inputs from being read.
    pub fn plan_at(&self, generation: u64) -> Option<Instant> {
        let changed = (self.planned != Some(generation)).then_some(self.rests_until);
        let due = self.look_again_at.map(|at| at.max(self.rests_until));
        [self.asked_at, changed, due].into_iter().flatten().min()
    }

    /// A plan was made and committed.
    pub fn planned(&mut self, plan: &Plan, generation: u64, started: Instant) {
        self.planned = Some(generation);
        // In whole milliseconds, rounded up: a moment too early would find nothing new.
        self.look_again_at = plan.look_again_at.map(|at| {
            let milliseconds = at.as_millisecond() - plan.made_at.as_millisecond() + 1;
            started + Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)).min(LOOK_AGAIN_MAX)
        });
        self.asked_at = None;
        self.rests_until = Instant::now() + REST_MAX.min(started.elapsed() * REST_FACTOR);
    }
}
