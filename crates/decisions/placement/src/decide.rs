//! The decision about one gang: quota, then nodes, then whether it would delay another gang.

use cluster_model::plan::{GangPlacement, WaitReason};
use cluster_model::{ClusterState, Fork, GpuType};

use crate::backfill::Reservations;
use crate::gang::Request;
use crate::order::Order;
use crate::quota;
use crate::search::Searches;

/// The most reasons that one gang gets. Only a gang that takes any of many GPU types could have more.
const REASONS_MAX: usize = 16;

/// The decision about one gang.
pub(crate) enum Verdict {
    /// It starts.
    Place(GangPlacement),
    /// It may start later as it is.
    Wait(Vec<WaitReason>),
    /// It cannot start as it is.
    Never(Vec<WaitReason>),
}

/// Decides about one gang after the other, on the state as it will be.
pub(crate) struct Deciding<'a> {
    pub searches: &'a mut Searches,
    pub reservations: &'a Reservations,
    pub order: &'a mut Order,
}

impl Deciding<'_> {
    /// Decides about a gang with all members it may have, else with as many as fit. What is placed is kept in
    /// `planned`.
    pub fn decide(&mut self, planned: &mut Fork<'_>, request: &Request) -> Verdict {
        let verdict = self.decide_whole(planned, request);
        if request.optional == 0 || !matches!(verdict, Verdict::Wait(_)) {
            return verdict;
        }
        let fewer = |planned: &ClusterState, optional| Request::read_with(planned, &request.key, optional);
        // The most optional members that fit, by bisection: `fits` do, `fails` do not.
        let (mut fits, mut fails) = (None, request.optional);
        while fails > fits.map_or(0, |fits| fits + 1) {
            let tried = fits.map_or(0, |fits| fits + (fails - fits) / 2);
            let mut probe = planned.fork();
            let smaller = fewer(&probe, tried);
            match self.decide_whole(&mut probe, &smaller) {
                Verdict::Place(_) => fits = Some(tried),
                Verdict::Wait(_) | Verdict::Never(_) => fails = tried,
            }
        }
        match fits {
            None => verdict,
            Some(optional) => {
                let smaller = fewer(planned, optional);
                self.decide_whole(planned, &smaller)
            }
        }
    }

    fn decide_whole(&mut self, planned: &mut Fork<'_>, request: &Request) -> Verdict {
        if !request.problems.is_empty() {
            return not_placed(request.problems.clone());
        }
        let gpu_types = self.searches.types_in_order(planned, request);
        if gpu_types.is_empty() {
            return not_placed(vec![WaitReason::NoSuchGpuType { gpu_type: None }]);
        }
        let (mut over_quota, mut no_capacity) = (Vec::new(), Vec::new());
        for gpu_type in gpu_types {
            let exceeded = quota::exceeded(planned, request, gpu_type.as_ref());
            let mut attempt = planned.fork();
            match self.try_type(&mut attempt, request, gpu_type.as_ref()) {
                Ok(placement) if exceeded.is_empty() => {
                    attempt.keep();
                    return Verdict::Place(placement);
                }
                // It would fit, but may not: that it fits is not a reason.
                Ok(_) => {}
                Err(reasons) => no_capacity.extend(reasons),
            }
            over_quota.extend(exceeded);
        }
        not_placed(over_quota.into_iter().chain(no_capacity).collect())
    }

    /// Tries the whole gang on one GPU type; on success its members are assumed in `attempt`.
    fn try_type(
        &mut self,
        attempt: &mut Fork<'_>,
        request: &Request,
        gpu_type: Option<&GpuType>,
    ) -> Result<GangPlacement, Vec<WaitReason>> {
        let members = self.searches.place(attempt, request, gpu_type)?;
        let queue = request.queue.clone().expect("a gang without a queue has a problem");
        let placement = GangPlacement { gang: request.key.clone(), queue, run: request.run.clone(), members };
        let delayed = self.reservations.delayed_by(request, &placement);
        match delayed.or_else(|| self.order.misses_deadline(attempt, request)) {
            Some(delayed) => Err(vec![delayed]),
            None => Ok(placement),
        }
    }
}

/// Reasons that never end come first, then those that no node could satisfy, then the others as they were found.
fn not_placed(mut reasons: Vec<WaitReason>) -> Verdict {
    reasons.sort_by_key(|reason| (!reason.is_never(), !reason.has_no_such_node()));
    let mut seen = std::collections::HashSet::new();
    reasons.retain(|reason| seen.insert(reason.clone()));
    reasons.truncate(REASONS_MAX);
    if reasons.first().is_some_and(WaitReason::is_never) {
        Verdict::Never(reasons)
    } else {
        Verdict::Wait(reasons)
    }
}
