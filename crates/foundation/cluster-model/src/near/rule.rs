//! Rules about pods that are near.

use serde::{Deserialize, Serialize};

/// The rule by which other pods refuse a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NearRule {
    /// The node lacks the label that defines nearness.
    LacksLabel,
    /// No pod is near that must be.
    NobodyNear,
    /// A pod is near that must not be.
    StrangerNear,
    /// A pod is near that keeps this one away.
    KeptAway,
    /// The node's domain has too many already.
    Uneven,
}
