//! What histories draw from a seed: the same everywhere and always, so that a seed stands for a history.

/// A stream of numbers.
pub struct Random(seeded_random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seeded_random::Random::new(seed))
    }

    /// Less than `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// Both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let count = u64::try_from((high - low + 1).max(1)).unwrap();
        low + i64::try_from(self.below(count)).unwrap()
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()].clone()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, usize::try_from(self.below(last as u64 + 1)).unwrap());
        }
    }
}
