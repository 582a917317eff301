//! A gang that waited far too long keeps what falls free for it.
//!
//! It comes first in its tier, so that with every plan it takes the same nodes again, and new ones in addition. No
//! node is drained for it: on traces a fifth of what falls free does so as whole nodes, and draining leaves GPUs idle
//! for days because of one long job (decision 0027). Nothing is kept for a gang that could not start if all others
//! were gone: it would keep the whole cluster idle, for nothing.

use std::collections::BTreeMap;

use cluster_model::{ClusterState, DomainId, Fork, GpuType, Node};

use crate::gang::{Group, Request, Shape};
use crate::quota;
use crate::search::{Searches, times_counted, would_take};

/// Whether keeping what falls free would ever let the gang start: nothing is wrong with it, none of it runs, its
/// queue has room for it, and the existing nodes are enough. Looks at every node.
pub(crate) fn would_help(state: &ClusterState, request: &Request) -> bool {
    let runs = state.gang(&request.key).is_some_and(|gang| gang.bound() > 0);
    if runs || request.queue.is_none() || !request.problems.is_empty() {
        return false;
    }
    request.gpu_types(state).iter().any(|gpu_type| {
        let mut groups = request.root.all();
        quota::exceeded(state, request, gpu_type.as_ref()).is_empty()
            && groups.all(|group| has_room_alone(state, request, group, gpu_type.as_ref()))
    })
}

/// Whether all members of the group would fit if the nodes were empty, where all of the gang must be.
fn has_room_alone(
    state: &ClusterState,
    request: &Request,
    group: &Group,
    gpu_type: Option<&GpuType>,
) -> bool {
    let mut room: BTreeMap<Option<DomainId>, i64> = BTreeMap::new();
    for (id, node) in state.nodes() {
        let Some(class) = state.class_of(id) else { continue };
        let is_asked = |object: &&Node| {
            is_asked(object, &group.shape, gpu_type) && would_take(state, state.class(class), &group.shape)
        };
        let Some(object) = node.object().filter(is_asked) else { continue };
        let domain = match request.root.topology.required {
            None => None,
            Some(level) => match state.domain_of(id, level) {
                None => continue,
                domain => domain,
            },
        };
        let others = group.shape.times_by_others(|name| object.other_allocatable.get(name));
        let times = times_counted(&group.shape.requests, &object.allocatable).min(others);
        let room = room.entry(domain).or_default();
        *room = room.saturating_add(times);
    }
    let members = i64::try_from(group.members.len()).unwrap_or(i64::MAX);
    room.values().any(|room| *room >= members)
}

/// What only the node itself says about whether members would go there; its class says the rest.
fn is_asked(node: &Node, shape: &Shape, gpu_type: Option<&GpuType>) -> bool {
    (!shape.uses_gpus() || gpu_type.is_none() || node.gpu_type.as_ref() == gpu_type) && shape.selects(node)
}

/// Takes room for as many members as fit, so that no other gang in this plan takes it. They are not started.
pub(super) fn gather(planned: &mut Fork<'_>, request: &Request, searches: &mut Searches) {
    let members = request.root.all().map(|group| group.members.len()).sum::<usize>();
    // The most members that fit, by bisection: `fits` do, `fails` do not.
    let (mut fits, mut fails) = (0, members);
    while fails > fits + 1 {
        let tried = fits + (fails - fits) / 2;
        let mut probe = planned.fork();
        if super::fits::fits(&mut probe, &request.with_members(tried), searches).is_some() {
            fits = tried;
        } else {
            fails = tried;
        }
    }
    let gathered =
        if fits > 0 { super::fits::fits(planned, &request.with_members(fits), searches) } else { None };
    let pods = gathered.iter().flatten().filter_map(|member| planned.pod_id(&member.pod));
    for pod in pods.collect::<Vec<_>>() {
        planned.postpone(pod);
    }
}
