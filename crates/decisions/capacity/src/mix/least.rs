//! The few bins of the least loss, or cost, among many.

/// The first `N` by loss, then by number.
pub struct Least<const N: usize>([(f64, usize); N]);

impl<const N: usize> Least<N> {
    /// Of all that are offered.
    pub fn of(offers: impl Iterator<Item = (f64, usize)>) -> Self {
        let mut least = Self([NONE; N]);
        for offer in offers {
            least.offer(offer);
        }
        least
    }

    fn offer(&mut self, mut it: (f64, usize)) {
        if self.0.last().is_none_or(|last| !is_before(it, *last)) {
            return;
        }
        for place in &mut self.0 {
            if is_before(it, *place) {
                std::mem::swap(place, &mut it);
            }
        }
    }

    /// Those of the least loss first.
    pub fn bins(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().map(|(_, bin)| bin).filter(|&bin| bin != NONE.1)
    }
}

const NONE: (f64, usize) = (f64::INFINITY, usize::MAX);

fn is_before(a: (f64, usize), b: (f64, usize)) -> bool {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).is_lt()
}

#[cfg(test)]
mod tests {
    use super::Least;

    #[test]
    fn the_least_come_first_and_of_equals_those_with_the_lower_number() {
        let of = |offers: &[(f64, usize)]| Least::<2>::of(offers.iter().copied()).bins().collect::<Vec<_>>();
        assert_eq!(of(&[]), [0; 0]);
        assert_eq!(of(&[(1.0, 7)]), [7]);
        assert_eq!(of(&[(1.0, 5), (1.0, 3), (0.5, 7)]), [7, 3]);
        assert_eq!(of(&[(-0.5, 9), (2.0, 1), (1.0, 4), (1.0, 2)]), [9, 2]);
    }
}
