//! What would start a gang now: the smallest single change of each kind, each verified by planning with it.
//!
//! ```text
//!   clone ─► the gang's pods go and come back, changed, as new ─► plan ─► the gang starts: offered
//! ```
//!
//! A changed gang counts as one that is submitted now: it loses its place in line, and would start all the same. A
//! change is not offered if others would first have to give way.

mod apply;
mod change;

pub use change::{RequestChange, Topology};

use apply::waiting_pods;
use cluster_model::{ClusterState, GangKey, Level, Pod};
use jiff::Timestamp;
use placement::{Policy, plan};

/// Plans that are made for one gang: two bisections of 32 bits and the lists below, and some more.
const PLANS_MAX: u32 = 128;
/// GPU types, and queues, that are tried, by name.
const TRIED_MAX: usize = 16;

/// The smallest changes, one by one, that would start the gang now, in the order of [`RequestChange`]. None for a gang that starts
/// as it is, that runs in part, or that is not there.
pub fn changes(state: &ClusterState, policy: &Policy, now: Timestamp, gang: &GangKey) -> Vec<RequestChange> {
    let mut trial = Trial { state, policy, now, gang, plans_left: PLANS_MAX };
    let pods = waiting_pods(state, gang);
    if pods.is_empty() || trial.starts(None) {
        return Vec::new();
    }
    let mut offered = Vec::new();
    let gpus = pods.iter().map(|pod| pod.requests.gpus).max().unwrap_or(0);
    offered.extend(trial.most(gpus - 1, |gpus| RequestChange::FewerGpus { gpus }));
    let fewest = apply::fewest_members(&pods);
    let with_members =
        |members| RequestChange::FewerMembers { members: u32::try_from(members).unwrap_or(u32::MAX) };
    offered.extend(trial.most(i64::from(fewest) - 1, with_members));
    offered.extend(trial.each(other_types(state, &pods)));
    offered.extend(trial.nearest(&wider(&pods)));
    offered.extend(trial.each(other_queues(state, &pods)));
    if !pods[0].terms.takes_spot && state.kinds().any(|(_, kind)| kind.spot) {
        offered.extend(trial.each(vec![RequestChange::Spot]));
    }
    offered
}

fn other_types(state: &ClusterState, pods: &[Pod]) -> Vec<RequestChange> {
    let Some(asked) = pods.iter().find(|pod| apply::uses_gpus(pod)).map(|pod| &pod.gpu_types) else {
        return Vec::new();
    };
    // A gang that names none takes any.
    let others = state.gpu_types().filter(|it| !asked.is_empty() && !asked.contains(it)).take(TRIED_MAX);
    others.map(|gpu_type| RequestChange::GpuType { gpu_type: gpu_type.clone() }).collect()
}

fn other_queues(state: &ClusterState, pods: &[Pod]) -> Vec<RequestChange> {
    let own = state.queue_of(&pods[0]).ok();
    let namespace = &pods[0].key.namespace;
    let others = state.queues().map(|(queue, _)| queue);
    let open = others.filter(|it| it.namespaces.contains(namespace) && Some(&it.name) != own);
    open.take(TRIED_MAX).map(|it| RequestChange::Queue { queue: it.name.clone() }).collect()
}

/// Further and further out, if any members must be together.
fn wider(pods: &[Pod]) -> Vec<RequestChange> {
    let Some(innermost) = apply::innermost(&pods[0].terms) else { return Vec::new() };
    let levels = (0..innermost.0).rev().map(|level| Topology::Domain(Level(level)));
    levels.chain([Topology::Anywhere]).map(|within| RequestChange::Topology { within }).collect()
}

/// Plans with one thing changed.
struct Trial<'a> {
    state: &'a ClusterState,
    policy: &'a Policy,
    now: Timestamp,
    gang: &'a GangKey,
    plans_left: u32,
}

impl Trial<'_> {
    /// The most, up to `most`, with which it starts, assuming that more never starts where less does not. That is
    /// nearly always so, and what is offered was planned.
    fn most(&mut self, most: i64, change: impl Fn(i64) -> RequestChange) -> Option<RequestChange> {
        if most < 1 || !self.starts(Some(&change(1))) {
            return None;
        }
        let (mut starts, mut too_many) = (1, most + 1);
        while too_many - starts > 1 {
            let middle = starts + (too_many - starts) / 2;
            if self.starts(Some(&change(middle))) {
                starts = middle;
            } else {
                too_many = middle;
            }
        }
        Some(change(starts))
    }

    /// The first with which it starts, if it does with the last.
    fn nearest(&mut self, changes: &[RequestChange]) -> Option<RequestChange> {
        if !self.starts(Some(changes.last()?)) {
            return None;
        }
        let (last, others) = changes.split_last()?;
        let first = others.iter().find(|change| self.starts(Some(change)));
        Some(first.unwrap_or(last).clone())
    }

    /// All with which it starts.
    fn each(&mut self, mut changes: Vec<RequestChange>) -> Vec<RequestChange> {
        changes.retain(|change| self.starts(Some(change)));
        changes
    }

    fn starts(&mut self, change: Option<&RequestChange>) -> bool {
        if self.plans_left == 0 {
            return false;
        }
        self.plans_left -= 1;
        let mut state = self.state.clone();
        state.advance(self.now);
        for step in change.map_or(Vec::new(), |change| change.steps(self.state, self.gang, self.now)) {
            state.apply(step);
        }
        let plan = plan(&mut state, self.policy, self.now);
        plan.placements.iter().any(|placement| placement.gang == *self.gang)
    }
}
