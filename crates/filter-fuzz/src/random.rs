//! Random numbers from a seed: splitmix64, the same on every machine.

/// A source of random numbers.
pub struct Random(u64);

impl Random {
    /// The series of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from `least` to `most`, both included.
    pub fn count(&mut self, least: usize, most: usize) -> usize {
        let width = u64::try_from(most - least).unwrap_or(u64::MAX - 1) + 1;
        least + usize::try_from(self.next() % width).unwrap_or(0)
    }

    /// Whether something happens that does so many times in a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.count(0, 99) < percent
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.count(0, among.len() - 1)]
    }
}
