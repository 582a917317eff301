//! The end of an object that vanished unseen.

use costing::{End, Moment};

/// The provisional end of an object that is gone and did not show its end: never before its beginning.
pub(super) fn unseen_end(at: Moment, began: Moment) -> End {
    End::Provisional(at.max(began))
}
