//! A node's lives: another node of the same name is another life. There is one node of a name at a time, so a life
//! ends at the latest when the next one begins, even if its end was not seen.
//!
//! ```text
//!   node, seen           ├────────────┤ provisional end: it was surely there until then
//!   pod, certain end            ├──────────────────┤
//!   life                 ├─────────────────────────┤ it was there as long as a pod surely used it
//! ```

use crate::record::{End, NodeRecord, PodRecord};
use crate::time::Moment;

/// From the creation of a node until it was gone, if it is gone.
pub(crate) struct Life<'a> {
    pub(crate) node: &'a NodeRecord,
    pub(crate) from: Moment,
    pub(crate) end: Option<Moment>,
}

impl Life<'_> {
    /// The part of `from` until `end` that is within this life.
    pub(crate) fn part_of(&self, from: Moment, end: Option<Moment>) -> Option<(Moment, Option<Moment>)> {
        let (from, end) = (from.max(self.from), self.end.into_iter().chain(end).min());
        end.is_none_or(|end| from < end).then_some((from, end))
    }
}

/// The lives of the nodes of this name, in order; no two overlap. `pods` are those on nodes of this name.
pub(crate) fn lives<'a>(name: &str, nodes: &'a [NodeRecord], pods: &[&PodRecord]) -> Vec<Life<'a>> {
    let mut lives: Vec<_> = nodes
        .iter()
        .filter(|node| node.name == name)
        .map(|node| Life { node, from: node.created_at, end: node.ended.map(End::at) })
        .collect();
    // Two in the same second: one that has ended was before one that has not.
    lives.sort_by_key(|life| (life.from, life.end.is_none(), life.end, life.node.uid.as_str()));
    for index in 0..lives.len() {
        let next_begins = lives.get(index + 1).map(|next| next.from);
        let life = &mut lives[index];
        if matches!(life.node.ended, Some(End::Provisional(_))) {
            life.end = life.end.max(last_certain_use(life.from, next_begins, pods));
        }
        life.end = life.end.into_iter().chain(next_begins).min();
    }
    lives
}

/// When the last of those pods ended that surely used a node after `from`, before the next node began.
fn last_certain_use(from: Moment, next_begins: Option<Moment>, pods: &[&PodRecord]) -> Option<Moment> {
    let certain_end = |pod: &&PodRecord| match pod.ended {
        Some(End::Certain(end))
            if from.max(pod.scheduled_at) < end && next_begins.is_none_or(|next| pod.scheduled_at < next) =>
        {
            Some(end)
        }
        _ => None,
    };
    pods.iter().filter_map(certain_end).max()
}
