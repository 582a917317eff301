//! The interface through which machines are bought.

use std::sync::Arc;

use capacity::catalogue::Catalogue;
use capacity::claim::{Claim, Launch};
use capacity::{Decision, View};
use cluster_model::NodeName;
use serde_json::Value as Json;

use super::guard::Bound;

/// Buys machines. Calls return at once; the claims show their outcome.
pub trait CapacityBackend: Send + Sync {
    /// All our claims; `None` if they are not known.
    fn claims(&self) -> Option<Vec<Claim>>;

    /// More gangs wait than before: a decision is due now, not only at its own pace.
    fn more_wait(&self);

    /// Orders all machines of a launch, unless that would be more than may be bought.
    fn order(&self, order: &Order);

    /// Gives a machine back.
    fn give_back(&self, claim: &Arc<str>);

    /// Changes a node, by a JSON patch.
    fn patch_node(&self, node: &NodeName, patch: Json);
}

/// A launch to order.
#[derive(Clone, Debug)]
pub struct Order {
    /// The launch.
    pub launch: Launch,
    /// What it is made from.
    pub catalogue: Arc<Catalogue>,
    /// The caps of its queue and of those above.
    pub queue_bounds: Vec<Bound>,
}

/// A decision, with the catalogue that it was made from.
#[derive(Clone, Debug)]
pub struct Decided {
    /// What to do.
    pub decision: Decision,
    /// The catalogue at that time.
    pub catalogue: Arc<Catalogue>,
}

/// Makes a decision; a function of its own, so that a thread can call it.
pub(super) fn decide(view: &View<'_>, memory: &mut capacity::memory::Memory) -> Decision {
    capacity::decide(view, memory)
}
