//! The ledger only grows. A wrong line is reversed, and the right line added.

use std::cmp::Ordering;

use crate::account::Line;

/// One entry of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Posting {
    /// The line counts.
    Charge(Line),
    /// An earlier charge of exactly this line does not count any more.
    Reverse(Line),
}

/// What must be added so that `net` becomes `closed`: nothing if they are equal. Reversals first, each kind in the
/// order of lines. `net` holds the lines that are charged and not reversed; both may hold a line several times.
pub fn post(net: &[Line], closed: &[Line]) -> Vec<Posting> {
    let (net, closed) = (sorted(net), sorted(closed));
    let (mut reversals, mut charges) = (Vec::new(), Vec::new());
    let (mut old, mut new) = (net.iter().peekable(), closed.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some(old), Some(new)) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        // Equal lines cancel each other one by one, so that this is right for multisets.
        let is = if order.is_le() { old.next() } else { None };
        let ought = if order.is_ge() { new.next() } else { None };
        match (is, ought) {
            (Some(line), None) => reversals.push(Posting::Reverse((*line).clone())),
            (None, Some(line)) => charges.push(Posting::Charge((*line).clone())),
            _ => {}
        }
    }
    reversals.append(&mut charges);
    reversals
}

fn sorted(lines: &[Line]) -> Vec<&Line> {
    let mut sorted: Vec<_> = lines.iter().collect();
    sorted.sort_unstable();
    sorted
}
