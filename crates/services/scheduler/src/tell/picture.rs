//! The cluster as one plan saw it.

use cluster_model::plan::Plan;
use cluster_model::{ClusterState, SNAPSHOT_FORMAT, Snapshot};
use forecast::Arrivals;
use jiff::Timestamp;
use placement::Policy;
use tokio::time::Instant;

/// A copy of the state that a plan was made from, and the plan. The planner makes the same plan from it again.
pub struct Picture {
    /// Before anything of the plan was carried out.
    pub state: ClusterState,
    /// The policy that the plan was made with.
    pub policy: Policy,
    /// The plan.
    pub plan: Plan,
    /// Arrivals of the last days.
    pub arrivals: Arrivals,
    /// When it was taken.
    pub taken: Instant,
}

impl Picture {
    /// The time the plan was made for.
    pub fn made_at(&self) -> Timestamp {
        self.plan.made_at
    }

    /// Writes all of it but the expected arrivals, as JSON: the planner makes the same plan from it elsewhere.
    pub fn write(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&Snapshot {
            format: SNAPSHOT_FORMAT.to_owned(),
            written_by: concat!("warpyard-scheduler ", env!("CARGO_PKG_VERSION")).to_owned(),
            policy: self.policy.clone(),
            made_at: self.made_at(),
            state: self.state.save(),
            plan: &self.plan,
        })
    }
}
