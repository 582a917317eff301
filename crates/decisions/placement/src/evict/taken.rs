//! The gangs that are chosen to give way so far, and whether disruption budgets let one more leave.

use std::collections::{BTreeSet, HashMap};

use cluster_model::ResourceName;

use super::ground::{GangIndex, Ground, QueueIndex};

/// The gangs that give way in one attempt to make room.
#[derive(Clone, Default)]
pub(super) struct Taken {
    pub gangs: BTreeSet<GangIndex>,
    pub by_queue: HashMap<QueueIndex, i64>,
}

impl Taken {
    pub fn add(&mut self, ground: &Ground, resource: &ResourceName, index: GangIndex) {
        if self.gangs.insert(index) {
            let gang = &ground.gangs[index];
            for queue in &gang.chain {
                *self.by_queue.entry(*queue).or_default() += gang.held(resource);
            }
        }
    }
}

/// Whether the budgets allow all these gangs to leave.
pub(super) fn allow_all(ground: &Ground, gangs: &[GangIndex]) -> bool {
    let none = Taken::default();
    gangs.iter().all(|gang| allow(ground, &none, gangs, *gang))
}

/// Whether the budgets allow one more gang to leave, after those in `taken` and `chosen`.
pub(super) fn allow(ground: &Ground, taken: &Taken, chosen: &[GangIndex], victim: GangIndex) -> bool {
    ground.gangs[victim].budgets.iter().all(|(budget, pods)| {
        let others = taken.gangs.iter().chain(chosen.iter().filter(|index| !taken.gangs.contains(*index)));
        let others = others.filter(|index| **index != victim);
        let has = |index: &GangIndex| {
            let budgets = ground.gangs[*index].budgets.iter();
            budgets.filter(|(other, _)| other == budget).map(|(_, pods)| *pods).sum::<i64>()
        };
        others.map(has).sum::<i64>() + pods <= ground.allowed.left[*budget]
    })
}
