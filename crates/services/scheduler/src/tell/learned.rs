//! Facts that the planning thread collects: gangs that arrive, and starts that were forecast. Bounded, and O(1)
//! for each change.

use std::sync::Arc;

use cluster_model::plan::Plan;
use cluster_model::{ClusterChange, ClusterState, GangKey};
use forecast::Arrivals;
use jiff::Timestamp;
use placement::Policy;
use tokio::time::Instant;

use super::desk::Desk;
use super::picture::Picture;

/// The planning thread's side of the desk.
pub struct Teller {
    desk: Arc<Desk>,
    arrivals: Arrivals,
    /// Gangs whose first pod was seen since the last plan.
    new: Vec<GangKey>,
    /// Whether a plan was made: gangs from before it arrived at other times.
    has_planned: bool,
}

impl Teller {
    /// A teller for this desk.
    pub fn new(desk: Arc<Desk>) -> Self {
        Self { desk, arrivals: Arrivals::default(), new: Vec::new(), has_planned: false }
    }

    /// Call it before a change is applied.
    pub fn changes(&mut self, state: &ClusterState, change: &ClusterChange) {
        if let ClusterChange::Pod(pod) = change
            && pod.ours
            && state.gang(&pod.gang).is_none()
        {
            self.new.push(pod.gang.clone());
        }
    }

    /// Call it after a plan was made, and before any of it is carried out.
    pub fn planned(&mut self, state: &ClusterState, policy: &Policy, plan: &Plan) {
        self.note_arrivals(state, plan.made_at);
        self.desk.outcomes().started(plan);
        if self.desk.wants_picture() {
            let started = Instant::now();
            self.desk.show(Picture {
                state: state.clone(),
                policy: policy.clone(),
                plan: plan.clone(),
                arrivals: self.arrivals.clone(),
                taken: Instant::now(),
            });
            self.desk.pictured(started.elapsed());
        }
    }

    fn note_arrivals(&mut self, state: &ClusterState, now: Timestamp) {
        let mut new = std::mem::take(&mut self.new);
        if std::mem::replace(&mut self.has_planned, true) {
            for gang in &new {
                self.arrivals.note(state, gang, now);
            }
            return;
        }
        // A new leader finds gangs of the last days. They arrived when their pods were created.
        let came = |gang: &GangKey| state.gang(gang).map(cluster_model::Gang::waiting_since);
        new.sort_by_key(|gang| (came(gang), gang.clone()));
        new.dedup();
        for gang in &new {
            self.arrivals.note(state, gang, came(gang).unwrap_or(now).min(now));
        }
    }
}
