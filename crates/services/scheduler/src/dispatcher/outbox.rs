//! What was decided goes to those who do it.

use cluster_apply::{BindRequest, Target};
use cluster_model::plan::Plan;
use tracing::{error, info};

use super::Planner;

impl Planner {
    /// Lets those start that the plan starts.
    pub(super) fn hand_over(&mut self, plan: &Plan) {
        let mut binds = Vec::new();
        for placement in &plan.placements {
            info!(gang = %placement.gang, queue = %placement.queue, members = placement.members.len(), "Placed gang.");
            if let Some(told) = self.told.remove(&placement.gang) {
                self.take_back(&told);
            }
            self.rooms.lands(placement);
            for member in &placement.members {
                // A condition must not be written any more once the pod may have a node.
                self.outputs.status.forget(&Target::Pod(member.pod.clone()));
                match self.state.assume_member(member) {
                    Ok(()) => binds.push(BindRequest { pod: member.pod.clone(), node: member.node.clone() }),
                    Err(error) => error!(%error, "The plan does not fit the state it was made from."),
                }
            }
        }
        if !binds.is_empty() {
            self.outputs.binder.bind(binds);
        }
    }
}
