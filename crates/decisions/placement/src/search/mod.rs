//! Nodes for the members of one gang.
//!
//! ```text
//!   Searches::place ──► rooms     where in the topology: required, preferred, segments, groups within groups
//!                         └─► alike     nodes for members alike, within one domain
//!                               ├─► ranking   classes of nodes in order: score (packing, fragmentation), fit, mig
//!                               ├─► rules     node by node: labels, what other pods forbid, an even spread
//!                               └─► reasons   why there are none, with numbers
//! ```
//!
//! Nodes that differ only in name and place are one class, looked at once. A gang that found no room is not searched
//! for again in the same plan, and neither is one like it. The exceptions: something was given back since, or the
//! gang wants others near or an even spread with them, so that new pods may make room too.

mod alike;
mod beginnings;
mod fit;
mod for_gang;
mod fragmentation;
mod mig;
mod ranking;
mod rankings;
mod reasons;
mod rooms;
mod rules;
mod score;

use std::collections::HashMap;
use std::sync::Arc;

use cluster_model::plan::{MemberPlacement, WaitReason};
use cluster_model::{ClusterState, Fork, ForkMoment, GpuType, Place, Terms};

pub(crate) use self::fit::{times_counted, would_take};

use self::for_gang::{Running, Search};
use self::ranking::Ask;
use self::rankings::Rankings;

use self::rules::Rules;
pub(crate) use self::rules::neighbours_admit;
use crate::gang::{Members, Request};
use crate::{Packing, Policy};

/// Domains that are tried for one gang. Counts rule most of them out before, so more would hardly find more.
const TRIES_MAX: u32 = 256;

/// Searches of one plan.
#[derive(Debug)]
pub(crate) struct Searches {
    packing: Packing,
    cap_watts: Option<u64>,
    explains: bool,
    /// Gangs that found no room, when, and why, if reasons were wanted.
    failed: HashMap<Class, (ForkMoment, Option<Vec<WaitReason>>)>,
    rankings: Rankings,
    /// Whether the rankings were renewed for this plan.
    is_renewed: bool,
}

/// Gangs that find or miss the same nodes. Queue and priority do not matter for that. A gang with running members is
/// tied to their nodes, so it is not compared.
type Class = ((Members, Arc<Terms>), Option<GpuType>);

impl Searches {
    pub fn new(policy: &Policy) -> Self {
        Self {
            packing: policy.packing,
            cap_watts: policy.energy.cap_watts,
            explains: true,
            failed: HashMap::new(),
            rankings: Rankings::default(),
            is_renewed: false,
        }
    }

    /// The same, with what was remembered of the state since the last plan; see [`Self::remember`].
    pub fn resume(policy: &Policy, state: &mut ClusterState) -> Self {
        state.refresh_workload();
        let rankings = state.planner_memory().take::<Rankings>().unwrap_or_default();
        Self { rankings, ..Self::new(policy) }
    }

    /// Leaves with the state what is valid for the next plan.
    pub fn remember(self, state: &mut ClusterState) {
        state.planner_memory().put(self.rankings);
    }

    /// The GPU types that a gang may have, the most suitable first: by the score of its first members.
    pub fn types_in_order(&mut self, state: &ClusterState, request: &Request) -> Vec<Option<GpuType>> {
        let mut types = request.gpu_types(state);
        let first = request.root.all().find(|group| group.shape.uses_gpus());
        if let Some(group) = first.filter(|_| types.len() > 1) {
            self.renew(state);
            types.sort_by_cached_key(|gpu_type| {
                let ask = Ask { packing: self.packing, shape: group.shape.clone() };
                let best = self.rankings.best(state, gpu_type.as_ref(), &ask, |_| true);
                // Types without room come last; of equal ones the first by the name of its node, then of itself.
                let place = best.map(|best| (best.score, state.node(best.node).name().clone()));
                (place.is_none(), place, gpu_type.clone())
            });
        }
        types
    }

    /// A node for every member of the gang on one GPU type, assumed in `attempt`; or why not, and then `attempt` must
    /// be dropped.
    pub fn place(
        &mut self,
        attempt: &mut Fork<'_>,
        request: &Request,
        gpu_type: Option<&GpuType>,
    ) -> Result<Vec<MemberPlacement>, Vec<WaitReason>> {
        self.explains = true;
        self.find(attempt, request, gpu_type)
    }

    /// The same without reasons, for callers that try many ways and need one.
    pub fn try_place(
        &mut self,
        attempt: &mut Fork<'_>,
        request: &Request,
        gpu_type: Option<&GpuType>,
    ) -> Option<Vec<MemberPlacement>> {
        self.explains = false;
        self.find(attempt, request, gpu_type).ok()
    }

    fn find(
        &mut self,
        attempt: &mut Fork<'_>,
        request: &Request,
        gpu_type: Option<&GpuType>,
    ) -> Result<Vec<MemberPlacement>, Vec<WaitReason>> {
        let running = running(attempt, request);
        let is_comparable = running.is_empty() && !request.is_helped_by_others;
        if is_comparable && let Some(reasons) = self.failed_before(attempt, request, gpu_type) {
            return Err(reasons);
        }
        let moment = attempt.moment();
        self.renew(attempt);
        let found = self.place_below_cap(attempt, request, gpu_type, running);
        if let Err(reasons) = &found
            && is_comparable
        {
            let reasons = self.explains.then(|| reasons.clone());
            self.failed.insert((request.class(attempt), gpu_type.cloned()), (moment, reasons));
        }
        found
    }

    fn renew(&mut self, state: &ClusterState) {
        if !std::mem::replace(&mut self.is_renewed, true) {
            self.rankings.renew(state);
        }
    }

    /// If the choice of the packing draws too much power, the one that draws least is tried.
    fn place_below_cap(
        &mut self,
        attempt: &mut Fork<'_>,
        request: &Request,
        gpu_type: Option<&GpuType>,
        running: Vec<Running>,
    ) -> Result<Vec<MemberPlacement>, Vec<WaitReason>> {
        let Some(cap_watts) = self.cap_watts else {
            return self.search(attempt, request, gpu_type, self.packing, running);
        };
        let draws_watts = attempt.drawn_watts();
        let mut would_draw_watts = draws_watts;
        for packing in [self.packing, Packing::LeastPower] {
            let mut probe = attempt.fork();
            let members = self.search(&mut probe, request, gpu_type, packing, running.clone())?;
            would_draw_watts = probe.drawn_watts();
            if would_draw_watts <= cap_watts || would_draw_watts <= draws_watts {
                probe.keep();
                return Ok(members);
            }
        }
        Err(vec![WaitReason::PowerCapped { cap_watts, draws_watts, would_draw_watts }])
    }

    /// Members that want each other near are bound by where the first goes, which is chosen without the others in
    /// mind. If that leads nowhere, other places to begin are tried.
    fn search(
        &mut self,
        attempt: &mut Fork<'_>,
        request: &Request,
        gpu_type: Option<&GpuType>,
        packing: Packing,
        running: Vec<Running>,
    ) -> Result<Vec<MemberPlacement>, Vec<WaitReason>> {
        let rules = rules(attempt, request, gpu_type, &running);
        let Some(key) = beginnings::key(attempt, request).cloned() else {
            return self.search_by(attempt, request, gpu_type, packing, running, rules);
        };
        let mut probe = attempt.fork();
        let found = self.search_by(&mut probe, request, gpu_type, packing, running.clone(), rules.clone());
        if found.is_ok() {
            probe.keep();
            return found;
        }
        drop(probe);
        // The reasons are those of the first try.
        let explains = std::mem::replace(&mut self.explains, false);
        let values = beginnings::values(attempt, request, gpu_type, &key);
        let begun = values.iter().find_map(|value| {
            let mut probe = attempt.fork();
            let rules = rules.clone().within(&key, value);
            let members =
                self.search_by(&mut probe, request, gpu_type, packing, running.clone(), rules).ok()?;
            probe.keep();
            Some(members)
        });
        self.explains = explains;
        begun.map_or(found, Ok)
    }

    fn search_by(
        &mut self,
        attempt: &mut Fork<'_>,
        request: &Request,
        gpu_type: Option<&GpuType>,
        packing: Packing,
        running: Vec<Running>,
        rules: Rules,
    ) -> Result<Vec<MemberPlacement>, Vec<WaitReason>> {
        let mut search = Search {
            rankings: &mut self.rankings,
            request,
            gpu_type,
            packing,
            rules,
            running,
            members: Vec::with_capacity(request.root.len()),
            tries_left: TRIES_MAX,
            explains: self.explains,
        };
        let root = attempt.root();
        search.place_grouping(attempt, &request.root, root)?;
        if !search.rules.hold() {
            let members_asked = u32::try_from(request.root.len()).unwrap_or(u32::MAX);
            let skew_max = search.rules.skew_max().unwrap_or(0);
            return Err(vec![WaitReason::CannotSpread { members_asked, skew_max }]);
        }
        Ok(search.members)
    }

    /// The reasons that a gang of the same class got earlier in this plan, with the numbers of that moment, if all that
    /// happened since is that others took something.
    fn failed_before(
        &self,
        state: &ClusterState,
        request: &Request,
        gpu_type: Option<&GpuType>,
    ) -> Option<Vec<WaitReason>> {
        if self.failed.is_empty() {
            return None;
        }
        let (moment, reasons) = self.failed.get(&(request.class(state), gpu_type.cloned()))?;
        let reasons = if self.explains { reasons.clone()? } else { Vec::new() };
        state.only_took_since(moment).then_some(reasons)
    }
}

/// Whether the only member of a request may go to a node as things are, on GPUs of a type: what the search asks of each node
/// before it takes one.
#[cfg(feature = "testing")]
pub(crate) fn nodes_that_take<'a>(
    state: &'a ClusterState,
    request: &Request,
    gpu_type: Option<&'a GpuType>,
) -> impl Fn(cluster_model::NodeId) -> bool + use<'a> {
    let member = request.root.all().next().map(|group| (group.shape.clone(), group.members[0]));
    let rules = rules(state, request, gpu_type, &running(state, request));
    move |node| {
        let (Some((shape, member)), Some(class)) = (&member, state.class_of(node)) else { return false };
        let class = state.class(class);
        let of_type = gpu_type.filter(|_| shape.uses_gpus());
        ranking::is_of(class, of_type)
            && fit::times_taken(state, class, shape) > 0
            && (rules.is_void(state, *member) || rules.admits(state, node, *member))
    }
}

/// Members that have a node already.
fn running(state: &ClusterState, request: &Request) -> Vec<Running> {
    let Some(gang) = state.gang(&request.key).filter(|gang| gang.bound() > 0) else { return Vec::new() };
    let is_running = |place| matches!(place, Some(Place::Bound | Place::Assumed));
    let members = gang.members().map(|id| state.pod(id));
    let running = members.filter(|member| is_running(member.place()) && !member.pod().terminating);
    let read = |member: &cluster_model::PodState| {
        let group = request.terms.place_of(member.pod().group.as_ref()).cloned();
        Some(Running { group, index: member.pod().member_index.unwrap_or(0), node: member.at()? })
    };
    running.filter_map(read).collect()
}

fn rules(state: &ClusterState, request: &Request, gpu_type: Option<&GpuType>, running: &[Running]) -> Rules {
    match request.root.all().next() {
        Some(group) if request.terms.spread.is_some() => {
            let nodes = running.iter().map(|member| member.node);
            Rules::new(state, &request.terms, &group.shape, gpu_type, nodes)
        }
        _ => Rules::default(),
    }
}
