//! What workloads draw from a seed: the same seed gives the same numbers, on every machine.

/// Numbers, weighted choices and values of distributions. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(seeded_random::Random);

impl Random {
    /// Numbers that depend only on the seed.
    pub fn new(seed: u64) -> Self {
        Self(seeded_random::Random::new(seed))
    }

    /// A number below `end`, or zero if there is none. The bias is below `end` ÷ 2⁶⁴, which is invisible.
    pub fn below(&mut self, end: u64) -> u64 {
        let product = u128::from(self.0.next_u64()) * u128::from(end);
        u64::try_from(product >> 64).expect("the upper half of a product fits")
    }

    /// The index of one of the weights, each as likely as its share of their sum. `None` if the sum is zero.
    pub fn weighted(&mut self, weights: impl Iterator<Item = u64> + Clone) -> Option<usize> {
        let sum: u64 = weights.clone().sum();
        let mut drawn = self.below(sum);
        for (index, weight) in weights.enumerate() {
            if drawn < weight {
                return Some(index);
            }
            drawn -= weight;
        }
        None
    }

    /// A value from a distribution that is given by some of its quantiles: `(thousandths, value)`, growing in both,
    /// from 0 to 1000; between two of them all values are equally likely. Whole numbers only, because logarithms
    /// differ in the last bit from machine to machine.
    pub fn quantile(&mut self, quantiles: &[(u64, u64)]) -> u64 {
        const SCALE: u64 = 1_000_000;
        let drawn = self.below(1000 * SCALE);
        let upper = quantiles.partition_point(|(thousandths, _)| thousandths * SCALE <= drawn);
        let Some(&(high, high_value)) = quantiles.get(upper) else {
            return quantiles.last().map_or(0, |(_, value)| *value);
        };
        let (low, low_value) = upper.checked_sub(1).map_or((0, high_value), |lower| quantiles[lower]);
        let span = (high - low) * SCALE;
        low_value + (high_value - low_value) * (drawn - low * SCALE) / span
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn quantiles_are_met_within_a_percent() {
        let mut random = Random::new(7);
        let table = [(0, 10), (500, 100), (900, 1_000), (1_000, 10_000)];
        let drawn: Vec<u64> = (0..100_000).map(|_| random.quantile(&table)).collect();
        for (thousandths, value) in [(500, 100), (900, 1_000)] {
            let below = drawn.iter().filter(|it| **it < value).count();
            assert!(below.abs_diff(thousandths * 100) < 1_000, "{below} of 100,000 are below {value}");
        }
        assert!(drawn.iter().all(|it| (10..=10_000).contains(it)));
    }

    #[test]
    fn weights_decide_how_often() {
        let mut random = Random::new(7);
        let weights = [1u64, 0, 3];
        let mut counts = [0u32; 3];
        for _ in 0..10_000 {
            counts[random.weighted(weights.iter().copied()).unwrap()] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!(counts[0].abs_diff(2_500) < 200, "{counts:?}");
        assert_eq!(random.weighted([0u64].into_iter()), None);
    }
}
