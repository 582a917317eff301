//! How the run times of ended gangs are distributed: what a forecast draws from.
//!
//! Time is cut into steps, each √2 times as long as the one before. Each step has two numbers: how many gangs got as
//! far, and how many of them ended in it. Their ratio is the chance that a gang in that step ends in it. This holds
//! for gangs that still run too: no gang "should have ended" by now. Both numbers fade with each end, as in
//! `history.rs`.

use serde::{Deserialize, Serialize};

/// Steps of time: the last begins after half a year.
pub const RUN_TIME_STEPS: usize = 48;
/// Gangs are counted in units of this, so that fading loses nothing that matters; 500 × 2¹⁶ fits.
const ONE: u32 = 1 << 16;
/// With each end, earlier ones fade to 499/500.
const FADE: u32 = 500;

/// Run times of one kind of gangs, 384 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Steps", into = "Steps")]
pub struct RunTimes {
    reached: [u32; RUN_TIME_STEPS],
    ended: [u32; RUN_TIME_STEPS],
}

/// The written form: without the steps at the end that no gang reached.
#[derive(Serialize, Deserialize)]
struct Steps {
    reached: Vec<u32>,
    ended: Vec<u32>,
}

impl From<RunTimes> for Steps {
    fn from(times: RunTimes) -> Self {
        let last = |counts: &[u32]| counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let some = |counts: [u32; RUN_TIME_STEPS]| counts[..last(&counts)].to_vec();
        Self { reached: some(times.reached), ended: some(times.ended) }
    }
}

impl From<Steps> for RunTimes {
    fn from(steps: Steps) -> Self {
        let mut times = Self::default();
        for (all, some) in [(&mut times.reached, &steps.reached), (&mut times.ended, &steps.ended)] {
            all.iter_mut().zip(some).for_each(|(all, some)| *all = *some);
        }
        times
    }
}

impl Default for RunTimes {
    fn default() -> Self {
        Self { reached: [0; RUN_TIME_STEPS], ended: [0; RUN_TIME_STEPS] }
    }
}

impl RunTimes {
    /// The step in which a run of this length ends.
    pub fn step_of(seconds: i64) -> usize {
        let seconds = u64::try_from(seconds).unwrap_or(0).clamp(1, u64::from(u32::MAX));
        // Twice the logarithm is the logarithm of the square.
        ((seconds * seconds).ilog2() as usize).min(RUN_TIME_STEPS - 1)
    }

    /// How many gangs got as far as a step, faded, before they ended in it or later.
    pub fn reached(&self, step: usize) -> f64 {
        f64::from(self.reached[step]) / f64::from(ONE)
    }

    /// How many gangs ended in a step, faded.
    pub fn ended(&self, step: usize) -> f64 {
        f64::from(self.ended[step]) / f64::from(ONE)
    }

    pub(crate) fn add(&mut self, seconds: i64) {
        for count in self.reached.iter_mut().chain(&mut self.ended) {
            *count -= *count / FADE;
        }
        let step = Self::step_of(seconds);
        for count in &mut self.reached[..=step] {
            *count += ONE;
        }
        self.ended[step] += ONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_half_octaves() {
        let steps =
            [(0, 0), (1, 0), (2, 2), (3, 3), (4, 4), (1000, 19), (1024, 20), (86_400, 32), (1 << 40, 47)];
        for (seconds, step) in steps {
            assert_eq!(RunTimes::step_of(seconds), step, "{seconds} s");
        }
    }

    #[test]
    fn who_ended_got_as_far_and_no_further() {
        let mut times = RunTimes::default();
        times.add(100);
        times.add(10_000);
        let (short, long) = (RunTimes::step_of(100), RunTimes::step_of(10_000));
        assert!((times.reached(short) - 1.998).abs() < 0.001, "{times:?}");
        assert!((times.reached(short + 1) - 1.0).abs() < 0.001, "{times:?}");
        assert!((times.ended(short) - 0.998).abs() < 0.001 && (times.ended(long) - 1.0).abs() < 0.001);
        assert!(times.reached(long + 1) == 0.0);
    }

    #[test]
    fn what_is_old_fades_and_nothing_overflows() {
        let mut times = RunTimes::default();
        (0..1_000_000).for_each(|_| times.add(1));
        assert!(times.reached(0) < 501.0, "{}", times.reached(0));
        (0..5_000).for_each(|_| times.add(1000));
        assert!(times.ended(0) < 0.1, "{}", times.ended(0));
    }
}
