//! Numbers in the order of place: nodes of one domain follow each other, and lie between a first and a last number.
//!
//! Comparing two numbers is cheaper than comparing two paths and names, and a domain of any level is one range. A
//! number changes only if a gap is used up. Then the smallest sparse range around it is renumbered, which costs
//! O(log² n) per new node on average, in any order of arrival.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::names::NodeName;
use crate::nodes::NodeId;

/// The distance between two numbers that are given at an end.
const STEP: u64 = 1 << 32;

/// Where a node is in the order: its path through the topology, then its name.
pub(crate) type PlaceInOrder = (Vec<Arc<str>>, NodeName);

#[derive(Clone, Debug, Default)]
pub(crate) struct Ranks {
    by_place: BTreeMap<PlaceInOrder, NodeId>,
    by_rank: BTreeMap<u64, NodeId>,
    of: HashMap<NodeId, u64>,
}

impl Ranks {
    /// Numbers a node. Returns the nodes whose numbers change by it, with their old and new number.
    pub fn insert(&mut self, place: PlaceInOrder, node: NodeId) -> (u64, Vec<(NodeId, u64, u64)>) {
        let rank = |it: Option<(&PlaceInOrder, &NodeId)>| it.map(|(_, node)| self.of[node]);
        let before = rank(self.by_place.range(..&place).next_back());
        let after = rank(self.by_place.range(&place..).next());
        self.by_place.insert(place, node);
        let mut moved = Vec::new();
        let rank = match (before, after) {
            (None, None) => Some(1 << 63),
            (Some(before), None) => before.checked_add(STEP),
            (None, Some(after)) => after.checked_sub(STEP),
            (Some(before), Some(after)) => between(before, after),
        };
        let rank = rank.unwrap_or_else(|| {
            let around = before.or(after).unwrap_or(0);
            moved = self.make_room(around);
            let now = |old: Option<u64>| {
                let new = moved.iter().find(|(_, before, _)| Some(*before) == old).map(|(_, _, new)| *new);
                new.or(old)
            };
            let (before, after) = (now(before).unwrap_or(0), now(after).unwrap_or(u64::MAX));
            between(before, after).expect("a range that was numbered anew has gaps")
        });
        self.by_rank.insert(rank, node);
        self.of.insert(node, rank);
        (rank, moved)
    }

    pub fn remove(&mut self, place: &PlaceInOrder) {
        if let Some(node) = self.by_place.remove(place)
            && let Some(rank) = self.of.remove(&node)
        {
            self.by_rank.remove(&rank);
        }
    }

    /// Renumbers the smallest range around a number that is sparse enough: each range twice as large may have two
    /// thirds of the density of the one before, so that it takes long until it is full again.
    fn make_room(&mut self, around: u64) -> Vec<(NodeId, u64, u64)> {
        let mut allowed = 1u128 << 32;
        for bits in 1..64u32 {
            allowed = allowed * 4 / 3;
            let first = around >> bits << bits;
            let last = first + ((1u64 << bits) - 1);
            let nodes: Vec<(u64, NodeId)> =
                self.by_rank.range(first..=last).map(|(rank, node)| (*rank, *node)).collect();
            let used = nodes.len() as u64;
            let step = (1u64 << bits) / (used + 1);
            if u128::from(used) << 32 <= allowed && step >= 4 {
                return self.number(&nodes, first, step);
            }
        }
        unreachable!("fewer than 2^32 nodes are never dense in 2^63 numbers")
    }

    fn number(&mut self, nodes: &[(u64, NodeId)], first: u64, step: u64) -> Vec<(NodeId, u64, u64)> {
        for (rank, _) in nodes {
            self.by_rank.remove(rank);
        }
        let mut moved = Vec::new();
        let mut rank = first;
        for (old, node) in nodes {
            rank += step;
            self.by_rank.insert(rank, *node);
            self.of.insert(*node, rank);
            moved.push((*node, *old, rank));
        }
        moved
    }
}

fn between(before: u64, after: u64) -> Option<u64> {
    (after - before >= 2).then(|| before + (after - before) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: impl Iterator<Item = u32>) {
        let mut ranks = Ranks::default();
        let mut known: BTreeMap<NodeId, u64> = BTreeMap::new();
        let mut changes = 0;
        for (number, name) in (0u32..).zip(names) {
            let place = (Vec::new(), format!("{name:06}").into());
            let (rank, moved) = ranks.insert(place, NodeId(number));
            changes += moved.len();
            for (node, old, new) in moved {
                assert_eq!(known.insert(node, new), Some(old));
            }
            known.insert(NodeId(number), rank);
        }
        let in_order: Vec<u64> = ranks.by_place.values().map(|node| known[node]).collect();
        assert!(in_order.is_sorted_by(|one, next| one < next), "numbers are in the order of places");
        assert!(changes < 40 * known.len(), "{changes} changes for {} nodes", known.len());
    }

    #[test]
    fn numbers_follow_the_order_whatever_the_order_of_arrival() {
        check(0..5000);
        check((0..5000).rev());
        // Always between the two ends: the gap is halved each time.
        check([0, 100_000].into_iter().chain(1..5000));
        check([0, 100_000].into_iter().chain((1..5000).rev()));
        check((0..5000u32).map(|number| number.wrapping_mul(2_654_435_761) % 1_000_003));
    }
}
