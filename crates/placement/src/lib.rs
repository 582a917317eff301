//! Which gangs start where now, and why the others wait: one pure function from state to [`Plan`].
//!
//! ```text
//!   waiting gangs, in order ──► read ──► quota ──► search ──► Place: kept in the plan's fork
//!                                │         │         │
//!                                └─────────┴─────────┴──────► Wait, Never: every reason, with numbers
//! ```
//!
//! The rules, in the order in which they are applied:
//! 1. Gangs that finish their start come first; then priority, then age, then name ([`ClusterState::waiting_gangs`]).
//! 2. A gang that is not all there, is gated, or asks for what we cannot honour is not placed (`gang.rs`).
//! 3. Its queue and every queue above must have room for what it still needs (`quota.rs`). A gang that finishes its
//!    start was granted that before, and is not asked again ([`Gang::finishes_its_start`](cluster_model::Gang)).
//! 4. All of its members get nodes, of one GPU type, or none does (`search.rs`).
//! 5. A gang that waits does not hold up the next.
//!
//! This crate never acts, and never reads a clock. The state is left as it was found.

mod gang;
mod quota;
mod search;

pub use cluster_model::plan::{
    GangPlacement, MemberPlacement, Plan, ReasonData, Refusals, WaitReason, WaitingGang,
};

use cluster_model::{ClusterState, Fork, GangKey, GpuType};
use jiff::Timestamp;

use crate::gang::Request;
use crate::search::Searches;

/// The most reasons that one gang gets. More of them come only from a gang that takes any of many GPU types.
const REASONS_MAX: usize = 16;

/// What an operator may choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Which of the nodes that would do is taken.
    pub packing: Packing,
}

/// Which of the nodes that would do is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// The one with the fewest free GPUs that still fits, so that whole nodes stay free; ties by name.
    #[default]
    BestFit,
}

/// What becomes of one gang.
enum Verdict {
    /// It starts.
    Place(GangPlacement),
    /// It may start later as it is.
    Wait(Vec<WaitReason>),
    /// It cannot start as it is.
    Never(Vec<WaitReason>),
}

/// Decides about every gang that waits. The same state gives the same plan.
pub fn plan(state: &mut ClusterState, policy: &Policy, now: Timestamp) -> Plan {
    let mut plan =
        Plan { generation: state.generation(), made_at: now, placements: Vec::new(), waiting: Vec::new() };
    let gangs: Vec<GangKey> = state.waiting_gangs().cloned().collect();
    let mut searches = Searches::new(policy);
    let mut planned = state.fork();
    for gang in gangs {
        let request = Request::read(&planned, &gang);
        match decide(&mut planned, &request, &mut searches) {
            Verdict::Place(placement) => plan.placements.push(placement),
            Verdict::Wait(reasons) | Verdict::Never(reasons) => {
                plan.waiting.push(WaitingGang {
                    gang,
                    run: request.run,
                    first_pod: request.first_pod,
                    reasons,
                });
            }
        }
    }
    plan
}

fn decide(planned: &mut Fork<'_>, request: &Request, searches: &mut Searches) -> Verdict {
    if !request.problems.is_empty() {
        return not_placed(request.problems.clone());
    }
    let gpu_types = request.gpu_types(planned);
    if gpu_types.is_empty() {
        return not_placed(vec![WaitReason::NoSuchGpuType { gpu_type: None }]);
    }
    let (mut over_quota, mut no_capacity) = (Vec::new(), Vec::new());
    for gpu_type in gpu_types {
        let exceeded = quota::exceeded(planned, request, gpu_type.as_ref());
        match try_type(planned, request, gpu_type.as_ref(), exceeded.is_empty(), searches) {
            Ok(Some(placement)) => return Verdict::Place(placement),
            Ok(None) => {}
            Err(reasons) => no_capacity.extend(reasons),
        }
        over_quota.extend(exceeded);
    }
    not_placed(over_quota.into_iter().chain(no_capacity).collect())
}

/// Tries the whole gang on one GPU type. With `granted` false it is only looked at whether it would fit.
fn try_type(
    planned: &mut Fork<'_>,
    request: &Request,
    gpu_type: Option<&GpuType>,
    granted: bool,
    searches: &mut Searches,
) -> Result<Option<GangPlacement>, Vec<WaitReason>> {
    if let Some(reasons) = searches.failed_before(request, gpu_type) {
        return Err(reasons);
    }
    let mut attempt = planned.fork();
    let mut members = Vec::new();
    for (index, group) in request.groups.iter().enumerate() {
        let nodes = searches.find(&attempt, request, group, gpu_type)?;
        if !granted && index + 1 == request.groups.len() {
            return Ok(None);
        }
        for (pod, node) in group.members.iter().zip(nodes) {
            attempt.assume(*pod, node);
            let (pod, node) = (attempt.pod(*pod).pod().key.clone(), attempt.node(node).name().clone());
            members.push(MemberPlacement { pod, node });
        }
    }
    attempt.keep();
    let queue = request.queue.clone().expect("a gang without a queue has a problem");
    Ok(Some(GangPlacement { gang: request.key.clone(), queue, run: request.run.clone(), members }))
}

/// What can never be comes first, then what no node could satisfy, then in the order in which it was found.
fn not_placed(mut reasons: Vec<WaitReason>) -> Verdict {
    let no_such_node = |it: &WaitReason| {
        matches!(it, WaitReason::NoSuchGpuType { .. } | WaitReason::TooLargeForAnyNode { .. })
    };
    reasons.sort_by_key(|reason| (!reason.is_never(), !no_such_node(reason)));
    let mut seen = std::collections::HashSet::new();
    reasons.retain(|reason| seen.insert(reason.clone()));
    reasons.truncate(REASONS_MAX);
    if reasons.first().is_some_and(WaitReason::is_never) {
        Verdict::Never(reasons)
    } else {
        Verdict::Wait(reasons)
    }
}
