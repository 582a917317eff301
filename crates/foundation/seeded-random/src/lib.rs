//! Numbers from a seed: the same seed gives the same series, on every machine and always. Seeds are written down, in
//! figures, cases and failing runs, so the series must never change.
//!
//! This crate never asks the operating system for randomness, and its numbers are not for secrets. Draws made from
//! the numbers (weights, shares, picks) belong to the crates that need them.

/// The series of one seed, by splitmix64: small, fast, and good enough to draw workloads and cases with.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that depend only on the seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or zero if there is none: what is left after dividing the next one.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_first_numbers_are_those_of_the_published_generator() {
        let mut random = Random::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_bound_takes_what_is_left_and_none_gives_zero() {
        let mut random = Random::new(1_234_567);
        assert_eq!([1_000, 1_000, 0].map(|bound| random.below(bound)), [317, 973, 0]);
    }
}
