//! How far off earlier forecasts were, and what that means for the next.

use std::collections::VecDeque;

use jiff::Timestamp;

/// Starts that are remembered of each kind.
const STARTS_MAX: usize = 300;
/// With fewer starts than this, forecasts are not corrected.
const STARTS_MIN: usize = 5;
/// The number of starts at which their correction counts half.
const HALF_TRUSTED: f64 = 20.0;
/// Added to waits before they are compared: the difference between 2 and 4 seconds does not matter.
const MARGIN_SECONDS: f64 = 60.0;

/// How long a gang still waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// A longer wait is as likely as a shorter one.
    pub p50_seconds: u32,
    /// One in ten waits longer.
    pub p90_seconds: u32,
}

/// What the futures said, before any correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    made_at: Timestamp,
    /// Waits of the futures: their 30 % quantile, because the middle is mostly too high.
    middle_seconds: u32,
    /// Their 90 % quantile.
    late_seconds: u32,
    /// No gang waits longer than this, whatever was learned.
    most_seconds: u32,
    /// Whether it starts before that in at least half of the futures.
    is_foreseen: bool,
    waits_for: WaitsFor,
}

/// What a gang waits for: forecasts of each kind are differently far off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// A part of a node.
    Little,
    /// As much as the largest node has, or more.
    Much,
    /// Machines that were ordered for it. The ends of other gangs say nothing about how long those take.
    Machines,
}

impl Forecast {
    /// From sorted waits, of which none is longer than `most_seconds`.
    pub(crate) fn of(waits: &[u32], made_at: Timestamp, most_seconds: u32, waits_for: WaitsFor) -> Self {
        let (middle_seconds, late_seconds) = (quantile(waits, 30), quantile(waits, 90));
        let starts = waits.iter().filter(|wait| **wait < most_seconds).count();
        let is_foreseen = starts * 2 >= waits.len();
        Self { made_at, middle_seconds, late_seconds, most_seconds, is_foreseen, waits_for }
    }

    /// How far ahead the futures looked, if the gang does not start by then in most of them: then the range says
    /// nothing.
    pub fn not_within_seconds(&self) -> Option<u32> {
        (!self.is_foreseen).then_some(self.most_seconds)
    }
}

/// Earlier forecasts and their outcomes: at most 300 each for small gangs, large ones, and those that waited for
/// machines.
#[derive(Clone, Debug, Default)]
pub struct Calibration {
    small: VecDeque<Miss>,
    large: VecDeque<Miss>,
    machines: VecDeque<Miss>,
}

/// How many times as long a gang waited as the futures said.
#[derive(Clone, Copy, Debug)]
struct Miss {
    middle: f64,
    late: f64,
    /// Long waits count more for the middle.
    weight: f64,
}

impl Calibration {
    /// Records a start that was forecast.
    pub fn started(&mut self, forecast: &Forecast, at: Timestamp) {
        let wait = u32::try_from(at.as_second() - forecast.made_at.as_second()).unwrap_or(0);
        let said = |seconds: u32| f64::from(seconds) + MARGIN_SECONDS;
        let miss = Miss {
            middle: said(wait) / said(forecast.middle_seconds),
            late: said(wait) / said(forecast.late_seconds),
            weight: said(forecast.middle_seconds).sqrt().sqrt(),
        };
        let misses = match forecast.waits_for {
            WaitsFor::Little => &mut self.small,
            WaitsFor::Much => &mut self.large,
            WaitsFor::Machines => &mut self.machines,
        };
        misses.push_back(miss);
        if misses.len() > STARTS_MAX {
            misses.pop_front();
        }
    }

    /// A forecast, corrected.
    pub(crate) fn range(&self, forecast: &Forecast) -> Range {
        let misses = match forecast.waits_for {
            WaitsFor::Little => &self.small,
            WaitsFor::Much => &self.large,
            WaitsFor::Machines => &self.machines,
        };
        let (middle, late) = if misses.len() < STARTS_MIN {
            (1.0, 1.5)
        } else {
            let middle = weighted(misses.iter().map(|miss| (miss.middle, miss.weight)).collect(), 0.5);
            let late = weighted(misses.iter().map(|miss| (miss.late, 1.0)).collect(), 0.9);
            let starts = f64::from(u32::try_from(misses.len()).unwrap_or(u32::MAX));
            let trust = starts / (starts + HALF_TRUSTED);
            (1.0 + (middle - 1.0) * trust, 1.0 + (late - 1.0) * trust)
        };
        let corrected = |seconds, factor| corrected(seconds, factor).min(forecast.most_seconds);
        let p50_seconds = corrected(forecast.middle_seconds, middle);
        Range { p50_seconds, p90_seconds: corrected(forecast.late_seconds, late).max(p50_seconds) }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
fn corrected(seconds: u32, factor: f64) -> u32 {
    let value = (f64::from(seconds) + MARGIN_SECONDS) * factor - MARGIN_SECONDS;
    value.clamp(0.0, f64::from(u32::MAX)) as u32
}

/// The value below which this share of the weight is.
fn weighted(mut values: Vec<(f64, f64)>, share: f64) -> f64 {
    values.sort_by(|one, other| one.0.total_cmp(&other.0));
    let all: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    for (value, weight) in &values {
        below += weight;
        if below >= share * all {
            return *value;
        }
    }
    values.last().map_or(1.0, |(value, _)| *value)
}

/// Between the two values nearest to it.
fn quantile(sorted: &[u32], percent: usize) -> u32 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0 };
    let (index, rest) = (last * percent / 100, last * percent % 100);
    let (low, high) = (sorted[index], sorted[(index + 1).min(last)]);
    low + u32::try_from(u64::from(high - low) * rest as u64 / 100).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn every_future_says(seconds: u32, waits_for: WaitsFor) -> Forecast {
        Forecast::of(&[seconds; 16], at(0), 300_000, waits_for)
    }

    #[test]
    fn quantiles_lie_between_their_neighbours() {
        for (waits, percent, expected) in [
            (vec![], 50, 0),
            (vec![7], 90, 7),
            (vec![0, 100], 30, 30),
            ((0..=10).collect(), 90, 9),
            (vec![0, 10, 20, 30, 40], 90, 36),
        ] {
            assert_eq!(quantile(&waits, percent), expected, "{waits:?} {percent}");
        }
    }

    #[test]
    fn forecasts_that_were_too_early_are_put_off() {
        let mut calibration = Calibration::default();
        let forecast = every_future_says(1_000, WaitsFor::Little);
        let before = calibration.range(&forecast);
        assert_eq!((before.p50_seconds, before.p90_seconds), (1_000, 1_530), "nothing is known yet");
        for _ in 0..1_000 {
            calibration.started(&forecast, at(4_000));
        }
        let after = calibration.range(&forecast);
        assert!((3_700..=4_000).contains(&after.p50_seconds), "{after:?}");
        assert!(calibration.small.len() == STARTS_MAX, "no more are kept");
        for other in [WaitsFor::Much, WaitsFor::Machines] {
            let range = calibration.range(&every_future_says(1_000, other));
            assert_eq!(range, before, "{other:?} is another matter");
        }
    }

    #[test]
    fn nine_in_ten_start_by_the_late_end() {
        let mut calibration = Calibration::default();
        let forecast = every_future_says(600, WaitsFor::Little);
        for wait in (0..300).map(|number| number * 10) {
            calibration.started(&forecast, at(wait));
        }
        let range = calibration.range(&forecast);
        let covered = (0..300).filter(|number| number * 10 <= range.p90_seconds).count();
        assert!((255..=285).contains(&covered), "{range:?} covers {covered} of 300");
        let covered = (0..300).filter(|number| number * 10 <= range.p50_seconds).count();
        assert!((120..=180).contains(&covered), "{range:?} covers {covered} of 300");
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut calibration = Calibration::default();
        let forecast = every_future_says(1_000, WaitsFor::Much);
        (0..STARTS_MAX).for_each(|_| calibration.started(&forecast, at(50_000)));
        assert!(calibration.range(&forecast).p50_seconds > 40_000);
        (0..STARTS_MAX).for_each(|_| calibration.started(&forecast, at(500)));
        let range = calibration.range(&forecast);
        assert!((500..600).contains(&range.p50_seconds), "{range:?}");
        assert!(range.p50_seconds <= range.p90_seconds, "{range:?}");
    }

    #[test]
    fn long_waits_say_more_of_the_middle_than_short_ones() {
        let mut calibration = Calibration::default();
        let (short, long) =
            (every_future_says(0, WaitsFor::Little), every_future_says(100_000, WaitsFor::Little));
        // Six short waits are as forecast, four long ones twice as long: by number the middle would stay.
        (0..60).for_each(|_| calibration.started(&short, at(0)));
        (0..40).for_each(|_| calibration.started(&long, at(200_000)));
        assert!(calibration.range(&long).p50_seconds > 150_000);
        let longest = every_future_says(300_000, WaitsFor::Little);
        assert_eq!(calibration.range(&longest).p90_seconds, 300_000, "no gang waits longer");
    }
}
