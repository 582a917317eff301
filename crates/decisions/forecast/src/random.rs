//! What a forecast draws from a seed: the same numbers on every machine.

/// Numbers and shares.
#[derive(Clone, Debug)]
pub(crate) struct Random(seeded_random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seeded_random::Random::new(seed))
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From zero to one, both left out.
    pub fn share(&mut self) -> f64 {
        let upper = u32::try_from(self.next_u64() >> 32).unwrap_or(u32::MAX);
        (f64::from(upper) + 0.5) / 4_294_967_296.0
    }
}
