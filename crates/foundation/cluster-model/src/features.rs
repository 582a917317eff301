//! Abilities of nodes that some pods need. There are few, so a few bits are enough.

use serde::{Deserialize, Serialize};

/// Abilities: of a node, those it has; of a pod, those its node must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Features(u8);

impl Features {
    /// The node can restart all containers of a pod when one ends.
    pub const RESTARTS_ALL_CONTAINERS: Self = Self(1);
    /// The node supports user namespaces for pods that use its network.
    pub const USERS_ON_HOST_NETWORK: Self = Self(2);

    /// Both together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of the others are among these.
    pub fn contain(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}
