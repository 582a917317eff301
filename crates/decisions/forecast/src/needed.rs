//! Which rules can matter in the futures of a state. The search for victims is most of the cost of planning, and it
//! is useless if no gang can be one.

use cluster_model::ClusterState;
use placement::Policy;

use crate::arrivals::Arrivals;

/// The policy without the rules that find no victims, whatever happens to the gangs that are there or may come.
pub(crate) fn needed(policy: &Policy, state: &ClusterState, arrivals: &Arrivals) -> Policy {
    // Nobody reads the reasons of a future.
    let mut policy = Policy { explain: false, ..policy.clone() };
    let there = state.pods().map(|(_, pod)| pod.pod());
    let mut pods = there.chain(arrivals.pods()).filter(|pod| pod.ours).peekable();
    let priority = pods.peek().map(|pod| pod.priority);
    let (mut one_priority, mut nobody_saves) = (true, true);
    for pod in pods {
        one_priority &= Some(pod.priority) == priority;
        nobody_saves &= !pod.terms.eviction.checkpoints;
    }
    if one_priority {
        policy.eviction.by_priority = false;
    }
    // A gang that does not save its state is neither moved nor outrun.
    if nobody_saves {
        policy.eviction.by_expected_work = false;
        policy.consolidation.moves_max = 0;
    }
    // Without quotas nothing can be reclaimed.
    if state.queues().all(|(queue, _)| queue.quota.is_none()) {
        policy.eviction.reclaim = false;
    }
    policy
}

#[cfg(test)]
mod tests {
    use cluster_model::{Amounts, ClusterChange, EvictionTerms, GangKey, Pod, PodKey, Queue, Terms};
    use jiff::Timestamp;

    use super::*;

    fn pod(name: &str) -> Pod {
        Pod::new(PodKey::new("team", name, name), GangKey::new("team", name))
    }

    fn saving(name: &str) -> Pod {
        let eviction = EvictionTerms { checkpoints: true, ..EvictionTerms::default() };
        Pod { terms: Terms { eviction, ..Terms::default() }.into(), ..pod(name) }
    }

    /// Whether priority, reclaim, expected work and moves are looked at, with these pods there and these to come.
    fn looked_at(there: Vec<Pod>, to_come: Vec<Pod>, queue: Queue) -> [bool; 4] {
        let mut policy = Policy::default();
        let on = &mut policy.eviction;
        (on.by_priority, on.reclaim, on.by_expected_work) = (true, true, true);
        policy.consolidation.moves_max = 3;
        let (mut state, mut arrivals) = (ClusterState::default(), Arrivals::default());
        state.apply(ClusterChange::Queue(queue));
        for pod in to_come {
            state.apply(ClusterChange::Pod(pod.clone()));
            arrivals.note(&state, &pod.gang, Timestamp::UNIX_EPOCH);
            state.apply(ClusterChange::PodGone(pod.key));
        }
        for pod in there {
            state.apply(ClusterChange::Pod(pod));
        }
        let Policy { eviction, consolidation, .. } = needed(&policy, &state, &arrivals);
        let moves = consolidation.moves_max > 0;
        [eviction.by_priority, eviction.reclaim, eviction.by_expected_work, moves]
    }

    #[test]
    fn a_rule_is_looked_at_if_anybody_there_or_to_come_could_be_its_victim() {
        let queue = || Queue::new("queue");
        let owner = || Queue { quota: Some(Amounts::default()), ..queue() };
        let urgent = |name| Pod { priority: 5, ..pod(name) };
        for (there, to_come, queue, expected) in [
            (vec![], vec![], queue(), [false, false, false, false]),
            (vec![pod("one"), pod("two")], vec![pod("three")], queue(), [false, false, false, false]),
            (vec![pod("one"), urgent("two")], vec![], queue(), [true, false, false, false]),
            (vec![pod("one")], vec![urgent("two")], queue(), [true, false, false, false]),
            (vec![pod("one")], vec![], owner(), [false, true, false, false]),
            (vec![saving("one")], vec![], queue(), [false, false, true, true]),
            (vec![pod("one")], vec![saving("two")], queue(), [false, false, true, true]),
        ] {
            let found = looked_at(there.clone(), to_come.clone(), queue);
            assert_eq!(found, expected, "{there:?} {to_come:?}");
        }
    }
}
