//! Randomness from a seed: the same numbers on every machine.

/// Splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From zero to one, both left out.
    pub fn share(&mut self) -> f64 {
        let upper = u32::try_from(self.next_u64() >> 32).unwrap_or(u32::MAX);
        (f64::from(upper) + 0.5) / 4_294_967_296.0
    }
}
