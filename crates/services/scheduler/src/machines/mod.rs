//! Machines are bought for gangs that wait, and given back: see `capacity`, which decides.
//!
//! ```text
//!   MachineTypes, NodeClaims ──watch──┐
//!   the desk's picture of the cluster ┴─► capacity::decide (a thread of its own) ─► the planner's loop
//!                                                                                     │ closes what goes, in its state
//!                                                                                     ▼
//!                                                              CapacityBackend: orders, gives back, opens
//! ```
//!
//! Decisions pass through the planner's loop, so that nobody is placed on a machine that is about to go. Without a backend
//! that answers, nothing is bought, and nothing else suffers.

mod buyer;
mod coming;
pub mod karpenter;
mod karpenter_backend;
mod seen;
#[cfg(test)]
pub mod testing;

use std::sync::Arc;

use capacity::catalogue::Catalogue;
use capacity::claim::{Claim, Launch};
use capacity::{Decision, View};
use cluster_model::NodeName;
use serde_json::Value as Json;

pub use buyer::Buyer;
pub use karpenter_backend::Karpenter;

/// Who buys machines. Calls return at once; what became of them is seen in the claims.
pub trait CapacityBackend: Send + Sync {
    /// All claims of ours; `None` if that is not known.
    fn claims(&self) -> Option<Vec<Claim>>;

    /// More gangs wait than before: a decision is due now, and not at its own pace.
    fn more_wait(&self);

    /// Orders all machines of a launch.
    fn order(&self, launch: &Launch, catalogue: &Catalogue);

    /// Gives a machine back.
    fn give_back(&self, claim: &Arc<str>);

    /// Changes a node, by a JSON patch.
    fn patch_node(&self, node: &NodeName, patch: Json);
}

/// A decision, with the catalogue that it was made from.
#[derive(Clone, Debug)]
pub struct Decided {
    /// What to do.
    pub decision: Decision,
    /// What could be bought then.
    pub catalogue: Arc<Catalogue>,
}

/// Decides; apart, so that it can be called from a thread.
fn decide(view: &View<'_>, memory: &mut capacity::memory::Memory) -> Decision {
    capacity::decide(view, memory)
}
