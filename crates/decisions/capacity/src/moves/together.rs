//! Gangs for which there is room on other machines that stay in any case: their own can go.

use std::collections::{BTreeMap, BTreeSet};

use api_types::names::NODE_POOL_LABEL;
use cluster_model::plan::GangPlacement;
use cluster_model::{GangKey, NodeName};

use super::alternative::{Alternative, in_words};
use super::candidate::Candidate;
use super::movers::{gangs_on, seconds_left};
use super::worth::MoveStakes;
use crate::claim::Claim;
use crate::launches::RESTORE_SECONDS;
use crate::view::View;

/// What is saved if all of them go where the planner would put them. It lasts for as long as they go on, and the
/// machines that they go to would have stayed in any case.
pub(super) fn offer(
    view: &View<'_>,
    candidate: &Candidate<'_>,
    bought: &BTreeMap<&NodeName, &Claim>,
    placements: &[GangPlacement],
) -> Option<Alternative> {
    let find =
        |gang: &GangKey| placements.iter().find(|it| it.gang == *gang).map_or(0, |it| it.members.len());
    if candidate.movers.iter().any(|mover| find(mover.gang) < mover.pods.len()) {
        return None;
    }
    let goes_on = candidate.movers.iter().map(|mover| mover.seconds_left).max()?;
    let nodes: BTreeSet<&NodeName> =
        placements.iter().flat_map(|it| &it.members).map(|member| &member.node).collect();
    let stay = nodes.iter().filter(|node| bought.contains_key(*node) || is_of_pool(view, node));
    let stays = stay.map(|node| stays_for(view, node)).min().unwrap_or(i64::MAX);
    let stakes = MoveStakes {
        old_micros: candidate.old_micros,
        new_micros: 0,
        seconds: goes_on.min(stays),
        changeover_seconds: i64::from(RESTORE_SECONDS),
        changeover_micros: candidate.used_micros,
        lost_seconds: candidate.lost_seconds(),
        lost_micros: candidate.used_micros,
    };
    let words = format!("there is room on other machines, and {} can go", in_words(view, &candidate.leaves));
    Some(Alternative { stakes, words })
}

/// Whether a pool of Karpenter's bought the node: it goes when it is empty, as ours do. Other pods may keep it for
/// longer, which is not relied on.
fn is_of_pool(view: &View<'_>, node: &NodeName) -> bool {
    view.state.node_object(node).is_some_and(|node| node.labels.contains_key(NODE_POOL_LABEL))
}

/// How long a machine stays if nothing moves: until the last gang on it is expected to end. An empty machine is about
/// to go, or is a spare.
fn stays_for(view: &View<'_>, node: &NodeName) -> i64 {
    let gangs = gangs_on(view.state, node).into_iter().filter_map(|gang| view.state.gang(gang));
    gangs.map(|gang| seconds_left(view.state, gang, view.now)).max().unwrap_or(0)
}
