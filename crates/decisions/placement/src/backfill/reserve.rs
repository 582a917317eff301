//! When a blocked gang starts at the latest, as far as ends are certain.

use cluster_model::plan::MemberPlacement;
use cluster_model::{ClusterState, Fork, Gang, GangKey, PodId};
use jiff::{SignedDuration, Timestamp};

use crate::gang::Request;
use crate::search::Searches;

/// Past its limit a gang ends within its grace, which mostly is half a minute. A gang that is still there after this
/// long is on a node that reports nothing, or is held up by a finalizer: its end is unknown.
const OVERDUE_MAX: SignedDuration = SignedDuration::from_mins(5);

/// The members of gangs that run and have a time limit, by its end, then by name.
pub(super) struct Ends {
    gangs: Vec<(Timestamp, Vec<PodId>)>,
}

impl Ends {
    pub fn read(state: &ClusterState, now: Timestamp) -> Self {
        let members = |key: &GangKey| -> Vec<PodId> {
            let members = state.gang(key).into_iter().flat_map(Gang::members);
            members.filter(|member| state.pod(*member).at().is_some()).collect()
        };
        let is_certain =
            |(end, _): &(Timestamp, &GangKey)| end.saturating_add(OVERDUE_MAX).is_ok_and(|it| it > now);
        // A gang that should have ended by now is about to end: it counts as the very next. A gang that should have
        // ended long ago would keep nodes free for a start that does not come.
        let ends = state.certain_ends().filter(is_certain);
        Self { gangs: ends.map(|(end, key)| (end.max(now), members(key))).collect() }
    }
}

/// The first moment at which the gang fits when gangs end at their limits, found by bisection over the ends, and where.
pub(super) fn reserve(
    planned: &mut Fork<'_>,
    request: &Request,
    ends: &Ends,
    searches: &mut Searches,
) -> Option<(Timestamp, Vec<MemberPlacement>)> {
    // A blocked gang stays blocked if no end is known.
    if ends.gangs.is_empty() || !fits_after(planned, request, ends, ends.gangs.len(), searches) {
        return None;
    }
    let (mut fails, mut fits) = (0, ends.gangs.len());
    while fits > fails + 1 {
        let tried = fails + (fits - fails) / 2;
        if fits_after(planned, request, ends, tried, searches) {
            fits = tried;
        } else {
            fails = tried;
        }
    }
    let (start, _) = ends.gangs.get(fits.checked_sub(1)?)?;
    let mut later = after(planned, ends, fits);
    Some((*start, super::fits::fits(&mut later, request, searches)?))
}

fn fits_after(
    planned: &mut Fork<'_>,
    request: &Request,
    ends: &Ends,
    ended: usize,
    searches: &mut Searches,
) -> bool {
    let mut later = after(planned, ends, ended);
    super::fits::fits(&mut later, request, searches).is_some()
}

/// The cluster after this many ends, the first ones first.
fn after<'a>(planned: &'a mut Fork<'_>, ends: &Ends, ended: usize) -> Fork<'a> {
    let mut later = planned.fork();
    for pod in ends.gangs.iter().take(ended).flat_map(|(_, members)| members) {
        // It may have given way already in this plan.
        if later.pod(*pod).at().is_some() {
            later.evict(*pod);
        }
    }
    later
}
