//! What cases draw from a seed: the same on every machine.

/// A source of random numbers.
pub struct Random(seeded_random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seeded_random::Random::new(seed))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        let width = u64::try_from(most - least + 1).expect("the least is not more than the most");
        least + i64::try_from(self.below(width)).expect("it is below the width")
    }

    /// The same as a count.
    pub fn count(&mut self, least: u32, most: u32) -> u32 {
        u32::try_from(self.between(i64::from(least), i64::from(most))).expect("it is between the two")
    }

    pub fn chance(&mut self, percent: i64) -> bool {
        self.between(0, 99) < percent
    }

    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        let last = i64::try_from(among.len()).expect("a short list") - 1;
        among[usize::try_from(self.between(0, last)).expect("it is not negative")]
    }

    pub fn some<T>(&mut self, percent: i64, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(percent).then(|| value(self))
    }
}
