//! How long spot lasts and how long it stays away: chances by age, counted from looks in the past.
//!
//! Both are far from memoryless: what has lasted a day will last, and most outages are over in minutes while some
//! take days. So there is one chance for each range of ages. Ranges grow by about half, so that thirteen of them
//! cover ten minutes to many hours.

/// Upper ends of the ranges of ages, in seconds; the last range has none.
const AGE_ENDS: [u32; RANGES - 1] =
    [600, 1_200, 1_800, 2_400, 3_600, 4_800, 7_200, 9_600, 14_400, 19_200, 28_800, 43_200];

/// How many ranges of ages there are.
pub const RANGES: usize = 13;

/// In each range, evidence about other markets counts no more than this many looks, and the prior this many.
const OTHERS_LOOKS: f64 = 30.0;
const PRIOR_LOOKS: f64 = 5.0;

/// Before anything was seen: spot lasts four hours on average, and is away for two.
pub const PRIOR_UP_SECONDS: u32 = 4 * 3_600;
const PRIOR_AWAY_SECONDS: f64 = 2.0 * 3_600.0;

/// Which range an age falls into.
pub fn range_of(age_seconds: u32) -> usize {
    AGE_ENDS.iter().position(|end| age_seconds <= *end).unwrap_or(RANGES - 1)
}

/// Looks at one standing, there or away, by its age.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    looks: [f64; RANGES],
    seconds: [f64; RANGES],
    ended: [f64; RANGES],
}

impl Tally {
    fn add(&mut self, other: &Self) {
        for range in 0..RANGES {
            self.looks[range] += other.looks[range];
            self.seconds[range] += other.seconds[range];
            self.ended[range] += other.ended[range];
        }
    }

    /// The chance for each range that it ends within `step` seconds. Where little was seen, what is known of others
    /// is used.
    fn chances(&self, others: &Self, prior_seconds: f64, step_seconds: f64) -> [f64; RANGES] {
        std::array::from_fn(|range| {
            let mean_look = if self.looks[range] + others.looks[range] > 0.0 {
                (self.seconds[range] + others.seconds[range]) / (self.looks[range] + others.looks[range])
            } else {
                step_seconds
            };
            let prior = (mean_look / prior_seconds).min(1.0);
            let elsewhere = (others.ended[range] + PRIOR_LOOKS * prior) / (others.looks[range] + PRIOR_LOOKS);
            let weight = (others.looks[range] + PRIOR_LOOKS).min(OTHERS_LOOKS);
            let here = (self.ended[range] + weight * elsewhere) / (self.looks[range] + weight);
            // Between looks nothing is known: over n looks the chance to last is the n-th power.
            1.0 - (1.0 - here.clamp(0.001, 0.98)).powf(step_seconds / mean_look.max(1.0))
        })
    }
}

/// What was learned about one offering, or about a market as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lifetimes {
    up: Tally,
    away: Tally,
    /// Seconds of spot, and how often a machine was lost while there was spot elsewhere in the market.
    machine_seconds: f64,
    moves: f64,
}

impl Lifetimes {
    /// Takes in that spot which was there, or away, for this long stayed so for another while, and whether it ended
    /// then.
    pub fn record(&mut self, is_up: bool, age_seconds: u32, look_seconds: u32, has_ended: bool) {
        let tally = if is_up { &mut self.up } else { &mut self.away };
        let range = range_of(age_seconds);
        tally.looks[range] += 1.0;
        tally.seconds[range] += f64::from(look_seconds);
        tally.ended[range] += f64::from(u8::from(has_ended));
    }

    /// Takes in that one machine's offering was there, and whether it ended while another one was there.
    pub(super) fn record_machine(&mut self, look_seconds: u32, must_move: bool) {
        self.machine_seconds += f64::from(look_seconds);
        self.moves += f64::from(u8::from(must_move));
    }

    /// Takes in all that was learned elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.up.add(&other.up);
        self.away.add(&other.away);
        self.machine_seconds += other.machine_seconds;
        self.moves += other.moves;
    }

    /// Chances over a step. Where little was seen of this market, what is known of others is used.
    pub fn chances(&self, others: &Self, step_seconds: u32) -> Chances {
        let step = f64::from(step_seconds);
        let moves_per_second = self.moves / self.machine_seconds.max(f64::from(PRIOR_UP_SECONDS));
        Chances {
            step_seconds,
            lost: self.up.chances(&others.up, f64::from(PRIOR_UP_SECONDS), step),
            back: self.away.chances(&others.away, PRIOR_AWAY_SECONDS, step),
            moved: 1.0 - (-moves_per_second * step).exp(),
        }
    }
}

/// What may happen to a market within a step, by the age of its standing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chances {
    /// The step.
    pub step_seconds: u32,
    /// Spot that is there goes.
    pub lost: [f64; RANGES],
    /// Spot that is away comes back.
    pub back: [f64; RANGES],
    /// The machine goes while there is spot elsewhere in the market.
    pub moved: f64,
}

impl Chances {
    /// The range after a step, if nothing ended, and the chance to be in it; otherwise it stays in its own.
    pub(super) fn older(&self, range: usize) -> (usize, f64) {
        let Some(&end) = AGE_ENDS.get(range) else { return (range, 0.0) };
        let start = if range == 0 { 0 } else { AGE_ENDS[range - 1] };
        let width = end - start;
        let chance = (f64::from(self.step_seconds) / f64::from(width)).min(1.0);
        (range_of(start + width / 2 + self.step_seconds).max(range + 1), chance)
    }
}
