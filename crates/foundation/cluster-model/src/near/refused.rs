//! Why other pods refuse a node, and which pods a pod is kept apart from.

use super::rule::NearRule;
use super::tally::TallyId;

/// A rule that refused, and by which count. Valid until the next change is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NearRefusal {
    /// The rule.
    pub rule: NearRule,
    pub(super) tally: TallyId,
}

/// What a pod is kept apart from. Pods with the same value are refused the same nodes, and keep others off the same
/// nodes, unless one of them wants others near or is spread. Valid until the next change is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Apart {
    pub(super) avoids: Vec<TallyId>,
    pub(super) avoided_by: Vec<TallyId>,
    /// Tallies of avoided pods that count it. Mostly the pods that avoid it are the same, but namespaces that are not
    /// known are treated differently from either side.
    pub(super) counted_in: Vec<TallyId>,
}
