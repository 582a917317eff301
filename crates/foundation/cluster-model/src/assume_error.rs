//! Why a pod cannot be assumed to be on a node.

use crate::names::{NodeName, PodKey};

/// Why a pod cannot be assumed to be on a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssumeError {
    /// The pod is gone, or another pod has its name.
    #[error("assuming pod {0}: it is not known")]
    UnknownPod(PodKey),
    /// The node is gone.
    #[error("assuming pod {0} on node {1}: the node is not known")]
    UnknownNode(PodKey, NodeName),
    /// The pod has a node, bound or assumed, or is being deleted.
    #[error("assuming pod {0}: it does not wait for a node")]
    NotPending(PodKey),
}
