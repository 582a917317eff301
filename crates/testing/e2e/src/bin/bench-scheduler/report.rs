//! Figures, unless it is a rehearsal.

use std::ops::RangeInclusive;

use test_cluster::figures;

/// Where results go.
#[derive(Clone, Copy)]
pub struct Report {
    pub is_rehearsal: bool,
}

impl Report {
    /// Prints a figure. Of a rehearsal it is shown, but is none: neither its size nor the machine is what it claims.
    pub fn figure(self, id: &str, value: f64, unit: &str, reference: &str) {
        if self.is_rehearsal {
            println!("rehearsed {id} {value:.3} {unit}  ({reference})");
        } else {
            figures::print(id, value, unit, reference);
        }
    }

    /// How often each contender runs, at least and at most; its middle result counts.
    pub fn rounds(self) -> RangeInclusive<usize> {
        if self.is_rehearsal { 1..=1 } else { 3..=7 }
    }

    /// A size, or a tenth of it.
    pub fn size(self, count: usize) -> usize {
        if self.is_rehearsal { (count / 10).max(1) } else { count }
    }
}
