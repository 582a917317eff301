//! Numbers by which the parts of the state name what others hold.

/// A node's number. It is valid until the next change is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// A gang's number inside the model.
pub(crate) type GangSlot = u32;
