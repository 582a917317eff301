//! Which members of an elastic gang start: those that must, and as many more as may.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_model::plan::WaitReason;
use cluster_model::{Gang, Pod, PodId, Terms};

/// A choice of members.
pub(crate) struct Members<'a> {
    /// Those that start, by index; none if the gang has all that it may have.
    pub chosen: Vec<(PodId, &'a Pod)>,
    /// How many of them the gang could start without.
    pub optional: usize,
    /// Why none may be chosen, whatever the nodes have.
    pub problem: Option<WaitReason>,
}

/// Chooses among the members without a node. Those that must start together come first: as many of each group as the
/// group's minimum says, then by index up to the gang's size; then others by index, at most `optional_max` of them and
/// not more than the gang may have. A gang without a maximum has no optional members.
pub(crate) fn members<'a>(
    gang: &Gang,
    lead: &Pod,
    pending: Vec<(PodId, &'a Pod)>,
    optional_max: usize,
) -> Members<'a> {
    let Some(members_max) = lead.terms.members_max else {
        return Members { chosen: pending, optional: 0, problem: None };
    };
    let have = gang.bound() as usize;
    let room = (members_max as usize).saturating_sub(have);
    let size = lead.gang_size.unwrap_or(1) as usize;
    // Once it has started, groups are complete, and every further member counts alone.
    let of_groups = if have > 0 { vec![false; pending.len()] } else { mandatory(&lead.terms, &pending) };
    let must = size.saturating_sub(have).max(of_groups.iter().filter(|it| **it).count());
    let none = |problem| Members { chosen: Vec::new(), optional: 0, problem: Some(problem) };
    if must > room {
        return none(WaitReason::TermsContradict { members_min: count(have + must), members_max });
    }
    if room == 0 {
        return none(WaitReason::AtMembersMax { members_max });
    }
    let take = room.min(pending.len()).min(must.saturating_add(optional_max)).max(1);
    let mut order: Vec<usize> = (0..pending.len()).collect();
    order.sort_by_key(|index| !of_groups[*index]);
    order.truncate(take);
    order.sort_unstable();
    let chosen: Vec<_> = order.into_iter().map(|index| pending[index]).collect();
    let optional = chosen.len().saturating_sub(must.max(1));
    Members { chosen, optional, problem: None }
}

/// Which members are needed for the minimum of their group, or of a group around it.
fn mandatory(terms: &Terms, pending: &[(PodId, &Pod)]) -> Vec<bool> {
    let mut missing: BTreeMap<&Arc<str>, u32> =
        terms.groups.iter().map(|(name, group)| (name, group.members_min.unwrap_or(u32::MAX))).collect();
    let mut is_needed = |(_, pod): &(PodId, &Pod)| {
        let mut needed = false;
        let mut around = terms.place_of(pod.group.as_ref());
        // Bounded: `place_of` follows parents that end at the gang as a whole.
        while let Some(name) = around {
            if let Some(missing) = missing.get_mut(name) {
                needed |= *missing > 0;
                *missing = missing.saturating_sub(1);
            }
            around = terms.groups.get(name).and_then(|group| group.parent.as_ref());
        }
        needed
    };
    pending.iter().map(&mut is_needed).collect()
}

fn count(members: usize) -> u32 {
    u32::try_from(members).unwrap_or(u32::MAX)
}
