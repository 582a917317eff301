//! Figures, unless it is a rehearsal.

use std::ops::RangeInclusive;

use toolbox::figures;

/// Prints results.
#[derive(Clone, Copy)]
pub struct Report {
    pub is_rehearsal: bool,
}

impl Report {
    /// Prints a figure. In a rehearsal the number is only shown: its size and machine are not those of a
    /// figure.
    pub fn figure(self, id: &str, value: f64, unit: &str, reference: &str) {
        if self.is_rehearsal {
            println!("rehearsed {id} {value:.3} {unit}  ({reference})");
        } else {
            figures::print(id, value, unit, reference);
        }
    }

    /// How many undisturbed rounds are wanted, and how often it is tried.
    pub fn rounds(self) -> RangeInclusive<usize> {
        if self.is_rehearsal { 1..=1 } else { 5..=9 }
    }

    /// A size, or a tenth of it.
    pub fn size(self, count: usize) -> usize {
        if self.is_rehearsal { (count / 10).max(1) } else { count }
    }
}
