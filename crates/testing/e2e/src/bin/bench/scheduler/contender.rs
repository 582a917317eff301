//! The contenders of a comparison.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Placements decided beforehand, eight pods to a node.
    Bare,
    /// The same behind the fence, like ours.
    FencedBare,
    /// Upstream's, with raised limits.
    KubeScheduler,
    Ours,
}
