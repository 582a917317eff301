//! Many gangs that move, so that others find nodes in one piece.

use std::collections::BTreeSet;

use cluster_model::ClusterState;
use placement::{ConsolidationPolicy, Plan, Policy};
use plan_check::check_plan;

use crate::build::{add, cluster, gang, node};
use crate::evict::{at, planned_at, running, saving, with_terms};

const NODES: usize = 50;
const NOW: i64 = 100;

/// Nodes of eight GPUs, each with three gangs of one GPU that save their state; and gangs of ten members of six GPUs that
/// wait, as many as all that is free could hold.
fn in_pieces() -> ClusterState {
    let mut state = cluster((0..NODES).map(|index| node(&format!("node-{index:02}"), "H100", 8)));
    for index in 0..NODES {
        for third in ["a", "b", "c"] {
            let small = gang(&format!("small-{index:02}{third}"), 1, 1);
            add(&mut state, with_terms(running(small, &[&format!("node-{index:02}")], 0), &saving()));
        }
    }
    for index in 0..NODES * 5 / 60 {
        add(&mut state, gang(&format!("large-{index}"), 10, 6));
    }
    state
}

fn planned(moves_max: u32) -> Plan {
    let consolidation = ConsolidationPolicy { moves_max, after_seconds: 0 };
    let policy = Policy { consolidation, ..Policy::default() };
    let mut state = in_pieces();
    let plan = planned_at(&mut state, &policy, NOW);
    assert_eq!(check_plan(&state, &plan, &policy), []);
    assert!(plan.holds.iter().all(|hold| hold.expires > at(NOW)));
    plan
}

#[test]
fn one_gang_of_each_node_moves_for_gangs_that_need_most_of_a_node_for_each_member() {
    let plan = planned(u32::MAX);
    let held: BTreeSet<&str> = plan.holds.iter().map(|hold| &*hold.gang.name).collect();
    let large = held.iter().filter(|name| name.starts_with("large")).count();
    assert_eq!((large, plan.evictions.len(), held.len()), (4, 40, 44), "nobody moves who need not");
}

#[test]
fn nobody_moves_where_more_would_have_to_than_the_policy_lets() {
    assert_eq!(planned(9).evictions, []);
    assert_eq!(planned(10).evictions.len(), 40, "ten for each");
}
