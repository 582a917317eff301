//! Everything that a decision about machines is made from.

use cluster_model::ClusterState;
use jiff::Timestamp;
use placement::Policy;

use crate::caps::Buying;
use crate::catalogue::Catalogue;
use crate::claim::Claim;

/// Everything that a decision is made from, except what is remembered.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The cluster, as the planner sees it.
    pub state: &'a ClusterState,
    /// The planner's policy.
    pub policy: &'a Policy,
    /// What can be bought.
    pub catalogue: &'a Catalogue,
    /// What was bought.
    pub claims: &'a [Claim],
    /// Whether anything is bought, and how much at most.
    pub buying: &'a Buying,
    /// The time.
    pub now: Timestamp,
}
