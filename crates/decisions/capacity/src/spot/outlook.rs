//! What the rest of a run is expected to cost, for all amounts of work and slack left: a dynamic programme.
//!
//! Work and slack are counted in steps, none shorter than the changeover. In each step the run is on on-demand, on
//! spot, or waits. A launch takes its changeover out of the step. Then the market gets older or turns, by its
//! [`Chances`]. A state is
//!
//! ```text
//!   work left (256 at most) × slack left (128 at most) × market (there or away, 13 ages) × machine (none, on-demand, spot)
//! ```
//!
//! which are at most 257 · 129 · 26 · 3 = 2.6 million numbers of 4 bytes, filled once in some tens of milliseconds.

use super::lifetimes::{Chances, RANGES, range_of};

const WORK_STEPS_MAX: u32 = 256;
const SLACK_STEPS_MAX: u32 = 128;
const PHASES: usize = 2 * RANGES;
const PLACES: usize = 3;

/// Where the run is, for the outlook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Nothing = 0,
    OnDemand = 1,
    Spot = 2,
}

/// Whether there is spot, and for how long it has been so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phase(usize);

impl Phase {
    pub(super) fn of(is_up: bool, age_seconds: u32) -> Self {
        Self(usize::from(is_up) * RANGES + range_of(age_seconds))
    }

    fn is_up(self) -> bool {
        self.0 >= RANGES
    }
}

/// What is at stake: sizes and prices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutlookStakes {
    /// The most work that may be left when it is asked.
    pub work_seconds: u32,
    /// The most slack that may be left when it is asked; more is taken as this much.
    pub slack_seconds: u32,
    /// From launch to work.
    pub changeover_seconds: u32,
    /// Slack below which only on-demand is safe.
    pub guard_seconds: u32,
    /// The price of an hour on spot, in micro-units.
    pub spot_micros: f64,
    /// The price of an hour on on-demand, in micro-units.
    pub on_demand_micros: f64,
}

impl OutlookStakes {
    /// The step of the outlook: the changeover, unless the work has too many of them.
    pub fn step_seconds(&self) -> u32 {
        self.changeover_seconds.max(self.work_seconds.div_ceil(WORK_STEPS_MAX)).max(1)
    }
}

/// Expected costs of what is left.
#[derive(Clone, Debug)]
pub struct SpotOutlook {
    stakes: OutlookStakes,
    step_seconds: f64,
    slack_steps: usize,
    /// The next phases of each phase with their chances.
    turns: [[(Phase, f32); 3]; PHASES],
    moved: f32,
    /// In steps on on-demand: costs are compared as shares of its price.
    values: Vec<f32>,
}

/// What each thing to do next is expected to cost in all, in micro-units. Infinite if it cannot be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    pub wait: f64,
    pub spot: f64,
    pub on_demand: f64,
}

impl SpotOutlook {
    /// Computes it. The chances must be those of [`OutlookStakes::step_seconds`].
    pub fn new(stakes: OutlookStakes, chances: &Chances) -> Self {
        let step = stakes.step_seconds();
        let work_steps = stakes.work_seconds.div_ceil(step).min(WORK_STEPS_MAX) as usize;
        let slack_steps = stakes.slack_seconds.div_ceil(step).min(SLACK_STEPS_MAX) as usize;
        let values = (work_steps + 1) * (slack_steps + 1) * PHASES * PLACES;
        let mut outlook = Self {
            stakes,
            step_seconds: f64::from(step),
            slack_steps,
            turns: turns(chances),
            moved: narrow(chances.moved),
            values: vec![0.0; values],
        };
        for work in 1..=work_steps {
            for slack in 0..=slack_steps {
                outlook.fill(work, slack);
            }
        }
        outlook
    }

    /// What a second of slack is worth here, in micro-units.
    pub(super) fn slack_micros_per_second(&self, work: i64, slack: i64, phase: Phase, place: Place) -> f64 {
        let less = slack - to_seconds(self.step_seconds);
        let worse = self.value(work, less, phase, place) - self.value(work, slack, phase, place);
        (worse / self.step_seconds).max(0.0)
    }

    /// What each thing to do next costs, for any amount of work and slack left, in seconds.
    pub(super) fn costs(&self, work: i64, slack: i64, phase: Phase, place: Place) -> Costs {
        let step = to_seconds(self.step_seconds);
        let changeover = |to: Place| if place == to { 0 } else { i64::from(self.stakes.changeover_seconds) };
        let after = |to: Place, price: f64| {
            let lost = changeover(to).min(step);
            let done = (step - lost).min(work);
            let paid = price * seconds_of(lost + done) / 3_600.0;
            paid + self.expected(work - done, slack - lost, phase, to)
        };
        let is_safe = slack >= i64::from(self.stakes.guard_seconds);
        let unless_unsafe = |cost: f64| if is_safe { cost } else { f64::INFINITY };
        Costs {
            wait: unless_unsafe(self.expected(work, slack - step, phase, Place::Nothing)),
            spot: if phase.is_up() {
                unless_unsafe(after(Place::Spot, self.stakes.spot_micros))
            } else {
                f64::INFINITY
            },
            on_demand: after(Place::OnDemand, self.stakes.on_demand_micros),
        }
    }

    /// The value after the market's next turn.
    fn expected(&self, work: i64, slack: i64, phase: Phase, place: Place) -> f64 {
        let mut sum = 0.0;
        for (next, chance) in self.turns[phase.0] {
            let value = self.value(work, slack, next, landing(place, next));
            let moved = if place == Place::Spot && next.is_up() { f64::from(self.moved) } else { 0.0 };
            let nowhere = if moved > 0.0 { self.value(work, slack, next, Place::Nothing) } else { 0.0 };
            sum += f64::from(chance) * ((1.0 - moved) * value + moved * nowhere);
        }
        sum
    }

    /// Between whole steps it is linear in each direction.
    fn value(&self, work: i64, slack: i64, phase: Phase, place: Place) -> f64 {
        if work <= 0 {
            return 0.0;
        }
        let work_steps = self.values.len() / (PHASES * PLACES * (self.slack_steps + 1)) - 1;
        let (work, work_part) = split(work, self.step_seconds, work_steps);
        let (slack, slack_part) = split(slack, self.step_seconds, self.slack_steps);
        let at = |work: usize, slack: usize| {
            f64::from(
                self.values[self.index(work.min(work_steps), slack.min(self.slack_steps), phase, place)],
            )
        };
        let low = at(work, slack) * (1.0 - slack_part) + at(work, slack + 1) * slack_part;
        let high = at(work + 1, slack) * (1.0 - slack_part) + at(work + 1, slack + 1) * slack_part;
        (low * (1.0 - work_part) + high * work_part) * self.stakes.on_demand_micros * self.step_seconds
            / 3_600.0
    }

    fn index(&self, work: usize, slack: usize, phase: Phase, place: Place) -> usize {
        ((work * (self.slack_steps + 1) + slack) * PHASES + phase.0) * PLACES + place as usize
    }

    /// All values for this many steps of work and slack; those with less of either are known.
    fn fill(&mut self, work: usize, slack: usize) {
        let spot_price = narrow(self.stakes.spot_micros / self.stakes.on_demand_micros.max(1.0));
        // The part of a step that a launch takes. A launch costs that part of a step's progress and of a step's slack.
        let part = narrow(f64::from(self.stakes.changeover_seconds) / self.step_seconds);
        let guard_steps = f64::from(self.stakes.guard_seconds) / self.step_seconds;
        let is_safe = seconds_of(i64::try_from(slack).unwrap_or(i64::MAX)) >= guard_steps;
        let less = slack.saturating_sub(1);
        for index in 0..PHASES {
            let phase = Phase(index);
            let go = |to: Place| {
                let ahead = if part < 1.0 { self.mean(work - 1, slack, phase, to) } else { 0.0 };
                part * self.mean(work, less, phase, to) + (1.0 - part) * ahead
            };
            // With no slack at all a launch is late. It is valued as if it were just in time, and the guard prevents
            // it.
            let launch = if slack == 0 {
                part + self.mean(work - 1, 0, phase, Place::OnDemand) + 1.0
            } else {
                1.0 + go(Place::OnDemand)
            };
            let stay = 1.0 + self.mean(work - 1, slack, phase, Place::OnDemand);
            let wait = if is_safe { self.mean(work, less, phase, Place::Nothing) } else { f32::INFINITY };
            let is_spot = is_safe && phase.is_up();
            let spot = if is_spot { spot_price + go(Place::Spot) } else { f32::INFINITY };
            let on_spot = if is_spot {
                spot_price + self.mean(work - 1, slack, phase, Place::Spot)
            } else {
                f32::INFINITY
            };
            let nothing = launch.min(wait).min(spot);
            let at = self.index(work, slack, phase, Place::Nothing);
            self.values[at + Place::Nothing as usize] = nothing;
            self.values[at + Place::OnDemand as usize] = stay.min(wait).min(spot);
            // A working spot machine is kept. If that is not safe, it counts as none.
            self.values[at + Place::Spot as usize] = if is_spot { on_spot } else { nothing };
        }
    }

    fn mean(&self, work: usize, slack: usize, phase: Phase, place: Place) -> f32 {
        if work == 0 {
            return 0.0;
        }
        let mut sum = 0.0;
        for (next, chance) in self.turns[phase.0] {
            let base = self.index(work, slack, next, Place::Nothing);
            let value = self.values[base + landing(place, next) as usize];
            sum += if place == Place::Spot && next.is_up() {
                chance * ((1.0 - self.moved) * value + self.moved * self.values[base])
            } else {
                chance * value
            };
        }
        sum
    }
}

/// Spot that is gone takes its machine with it.
fn landing(place: Place, phase: Phase) -> Place {
    if place == Place::Spot && !phase.is_up() { Place::Nothing } else { place }
}

fn turns(chances: &Chances) -> [[(Phase, f32); 3]; PHASES] {
    std::array::from_fn(|index| {
        let (is_up, range) = (index >= RANGES, index % RANGES);
        let base = index - range;
        let ends = if is_up { chances.lost[range] } else { chances.back[range] };
        let (older, ages) = chances.older(range);
        let other = if is_up { Phase(0) } else { Phase(RANGES) };
        [
            (other, narrow(ends)),
            (Phase(base + older), narrow((1.0 - ends) * ages)),
            (Phase(index), narrow((1.0 - ends) * (1.0 - ages))),
        ]
    })
}

/// How many whole steps, and the part of the next one.
fn split(seconds: i64, step_seconds: f64, steps_max: usize) -> (usize, f64) {
    let step = to_seconds(step_seconds).max(1);
    let seconds = seconds.max(0);
    let whole = usize::try_from(seconds / step).unwrap_or(usize::MAX);
    if whole >= steps_max { (steps_max, 0.0) } else { (whole, seconds_of(seconds % step) / step_seconds) }
}

#[allow(clippy::cast_precision_loss, reason = "seconds of a run's life")]
fn seconds_of(seconds: i64) -> f64 {
    seconds as f64
}

#[allow(clippy::cast_possible_truncation, reason = "a step of a run's life, from a u32")]
fn to_seconds(step_seconds: f64) -> i64 {
    step_seconds as i64
}

#[allow(clippy::cast_possible_truncation, reason = "a chance or a share, to compare expectations with")]
fn narrow(number: f64) -> f32 {
    number as f32
}
