//! Random numbers of a seed: the same on every machine.

/// A source of random numbers.
pub struct Random(seeded_random::Random);

impl Random {
    /// The series of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seeded_random::Random::new(seed))
    }

    /// A number from `least` to `most`, both included.
    pub fn count(&mut self, least: usize, most: usize) -> usize {
        let width = u64::try_from(most - least).unwrap_or(u64::MAX - 1) + 1;
        least + usize::try_from(self.0.below(width)).unwrap_or(0)
    }

    /// True with this probability, in percent.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.count(0, 99) < percent
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.count(0, among.len() - 1)]
    }
}
