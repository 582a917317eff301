use std::collections::BTreeMap;

use api_types::machine_type::CapacityType;
use cluster_model::{
    Amounts, ClusterChange, ClusterState, HostPort, HostPorts, Level, Node, Pod, Queue, Terms, TopologyTerms,
};
use placement::Policy;

use super::{Bought, buy, nothing};
use crate::catalogue::{Catalogue, MICROS, Offer};
use crate::launches::UnderWay;
use crate::memory::Memory;
use crate::testing::{at, catalogue, gang, launch, machine, members, offer_key, place, state};

fn buys(state: &ClusterState, catalogue: &Catalogue, memory: &Memory) -> Bought {
    buys_beside(state, catalogue, memory, &BTreeMap::new())
}

fn buys_beside(
    state: &ClusterState,
    catalogue: &Catalogue,
    memory: &Memory,
    under_way: &BTreeMap<cluster_model::GangKey, UnderWay>,
) -> Bought {
    let policy = Policy::default();
    let view = crate::testing::view(state, &policy, catalogue, &[], at(1000));
    buy(&view, under_way, memory)
}

/// What is bought and for which gang, and what is refused, in words.
fn words(bought: &Bought) -> Vec<String> {
    let launches = bought.launches.iter().map(|launch| format!("{}: {}", launch.key.purpose, launch.why));
    let refused = bought.refused.iter().map(|refused| format!("{} refused: {}", refused.gang, refused.why));
    launches.chain(refused).collect()
}

fn with_terms(pods: Vec<Pod>, terms: &Terms) -> Vec<Pod> {
    pods.into_iter().map(|pod| Pod { terms: terms.clone().into(), ..pod }).collect()
}

#[test]
fn a_gang_without_room_gets_the_cheapest_machines_for_all_of_it() {
    let bought = buys(&state(members("train", 3, 8)), &catalogue([machine("h100")]), &Memory::default());
    assert_eq!(
        words(&bought),
        ["gang team/train: 3 × on-demand h100 in a at 30.00 an hour for 3 members of 8 GPUs"]
    );
    assert_eq!(bought.launches[0].machines.len(), 3);
    assert_eq!(bought.launches[0].price_micros, 30 * MICROS);
    assert_eq!(bought.launches[0].ready_by, at(1060));
}

#[test]
fn members_share_machines_and_what_is_there_is_used_first() {
    let catalogue = catalogue([machine("h100")]);
    let bought = buys(&state(members("train", 4, 4)), &catalogue, &Memory::default());
    assert_eq!(bought.launches[0].machines.len(), 2);
    let mut state = state(members("train", 4, 4));
    let mut there = machine("h100").node(&place("a", CapacityType::OnDemand), "there", "");
    there.taints.retain(|taint| &*taint.key != api_types::names::FOR_GANG_TAINT);
    state.apply(ClusterChange::Node(there));
    let bought = buys(&state, &catalogue, &Memory::default());
    assert_eq!(bought.launches[0].machines.len(), 1, "two members fit on the one that is there");
}

#[test]
fn nothing_is_bought_for_who_waits_for_its_quota_nor_for_one_pod() {
    let mut full = state(members("train", 3, 8));
    let quota = Amounts { gpus: [("H100".into(), 16)].into(), ..Amounts::default() };
    let queue = Queue { quota: Some(quota), namespaces: ["team".into()].into(), ..Queue::new("queue") };
    full.apply(ClusterChange::Queue(queue));
    let catalogue = catalogue([machine("h100")]);
    assert_eq!(buys(&full, &catalogue, &Memory::default()), Bought::default());
    let single = state(members("single", 1, 8));
    let bought = buys(&single, &catalogue, &Memory::default());
    assert!(bought.launches.is_empty() && bought.refused.is_empty());
    assert_eq!(bought.from_pools, [gang("single")].into(), "that is a pool's affair");
}

#[test]
fn pools_buy_for_no_more_gangs_of_one_than_their_quota_admits() {
    let pods = (0..5).flat_map(|index| members(&format!("single-{index}"), 1, 4));
    let mut state = state(pods);
    let quota = Amounts { gpus: [("H100".into(), 12)].into(), ..Amounts::default() };
    let queue = Queue { quota: Some(quota), namespaces: ["team".into()].into(), ..Queue::new("queue") };
    state.apply(ClusterChange::Queue(queue));
    let bought = buys(&state, &catalogue([machine("h100")]), &Memory::default());
    assert_eq!(bought.from_pools.len(), 3);
    let mut other = machine("l4");
    other.gpu_type = Some("L4".into());
    assert!(buys(&state, &catalogue([other]), &Memory::default()).from_pools.is_empty(), "none would do");
}

#[test]
fn a_queue_that_may_take_back_its_own_later_gets_machines_now() {
    let mut state = state(members("train", 2, 8));
    let quota = Amounts { gpus: [("H100".into(), 16)].into(), ..Amounts::default() };
    let queue = Queue { quota: Some(quota), namespaces: ["team".into()].into(), ..Queue::new("queue") };
    state.apply(ClusterChange::Queue(queue));
    let mut policy = Policy::installed();
    policy.eviction.reclaim = true;
    let catalogue = catalogue([machine("h100")]);
    let view = crate::testing::view(&state, &policy, &catalogue, &[], at(10));
    let plan = placement::plan(&mut state.clone(), &policy, at(10));
    assert!(plan.waiting[0].reasons.len() > 1, "{plan:?}");
    assert_eq!(buy(&view, &BTreeMap::new(), &Memory::default()).launches.len(), 1);
}

#[test]
fn of_two_gangs_of_which_the_quota_admits_one_the_first_gets_machines() {
    let mut pods = members("first", 2, 8);
    pods.extend(members("second", 2, 8));
    let mut state = state(pods);
    let quota = Amounts { gpus: [("H100".into(), 16)].into(), ..Amounts::default() };
    let queue = Queue { quota: Some(quota), namespaces: ["team".into()].into(), ..Queue::new("queue") };
    state.apply(ClusterChange::Queue(queue));
    let bought = buys(&state, &catalogue([machine("h100")]), &Memory::default());
    let launches: Vec<String> = bought.launches.iter().map(|launch| launch.key.purpose.to_string()).collect();
    assert_eq!(launches, ["gang team/first"]);
    assert_eq!(bought.refused.len(), 1, "{bought:?}");
    assert!(bought.refused[0].why.contains("it would still wait"), "{bought:?}");
}

#[test]
fn an_offer_that_failed_is_left_alone_and_without_another_one_that_is_said() {
    let (state, mut memory) = (state(members("train", 2, 8)), Memory::default());
    let catalogue = catalogue([machine("h100")]);
    memory.failed(&offer_key("h100", "a"), "on-demand h100 in a was not available", at(999));
    let bought = buys(&state, &catalogue, &memory);
    assert_eq!(
        words(&bought),
        ["gang team/train: 2 × on-demand h100 in b at 22.00 an hour for 2 members of 8 GPUs"]
    );
    memory.failed(&offer_key("h100", "b"), "on-demand h100 in b was not available", at(999));
    let refused = words(&buys(&state, &catalogue, &memory));
    let all = "team/train refused: on-demand h100 in a was not available; on-demand h100 in b was not available; \
               tried again soon";
    assert_eq!(refused, [all]);
}

#[test]
fn stock_is_counted_over_all_gangs() {
    let mut pods = members("first", 2, 8);
    pods.extend(members("second", 2, 8));
    let mut scarce = machine("h100");
    scarce.offers[0].most = Some(3);
    let bought = buys(&state(pods), &catalogue([scarce]), &Memory::default());
    let zones: Vec<Vec<String>> = bought
        .launches
        .iter()
        .map(|launch| launch.machines.iter().map(|(offer, _)| offer.place.zone.to_string()).collect())
        .collect();
    assert_eq!(zones, [["a", "a"], ["a", "b"]]);
}

#[test]
fn members_that_must_be_together_get_machines_in_one_zone() {
    let mut scarce = machine("h100");
    scarce.offers[0].most = Some(1);
    let topology = TopologyTerms { required: Some(Level(0)), ..TopologyTerms::default() };
    let pods = with_terms(members("train", 2, 8), &Terms { topology, ..Terms::default() });
    let bought = buys(&state(pods), &catalogue([scarce]), &Memory::default());
    assert_eq!(
        words(&bought),
        ["gang team/train: 2 × on-demand h100 in b at 22.00 an hour for 2 members of 8 GPUs"]
    );
}

#[test]
fn spot_machines_are_bought_only_for_who_asks_for_them() {
    let mut cheap = machine("h100");
    let spot = Offer { place: place("c", CapacityType::Spot), price_micros: 3 * MICROS, most: None };
    cheap.offers.push(spot);
    let catalogue = catalogue([cheap]);
    let price = |takes_spot, buys_spot| {
        let terms = Terms { takes_spot, buys_spot, ..Terms::default() };
        let bought = buys(&state(with_terms(members("train", 2, 8), &terms)), &catalogue, &Memory::default());
        bought.launches[0].price_micros / MICROS
    };
    assert_eq!(price(true, true), 6);
    assert_eq!(price(true, false), 20);
    assert_eq!(price(false, false), 20);
}

#[test]
fn a_gang_whose_machines_are_on_their_way_gets_no_others_and_counts_for_its_queue() {
    let mut pods = members("first", 2, 8);
    pods.extend(members("second", 2, 8));
    let mut state = state(pods);
    let quota = Amounts { gpus: [("H100".into(), 16)].into(), ..Amounts::default() };
    let queue = Queue { quota: Some(quota), namespaces: ["team".into()].into(), ..Queue::new("queue") };
    state.apply(ClusterChange::Queue(queue));
    let under_way = launch("first", 990, 2).under_way(at(990)).into_iter().collect();
    let bought = buys_beside(&state, &catalogue([machine("h100")]), &Memory::default(), &under_way);
    assert!(bought.launches.is_empty(), "{bought:?}");
    assert!(under_way.contains_key(&gang("first")));
}

fn ports() -> HostPorts {
    [HostPort::new(80, "", "")].into_iter().collect()
}

#[test]
fn room_that_only_seems_to_be_there_keeps_nobody_from_machines() {
    let mut state = state(members("train", 2, 8));
    // The planner knows of ports, and the mix does not.
    for name in ["one", "two"] {
        let mut there = machine("h100").node(&place("a", CapacityType::OnDemand), name, "");
        there.taints.retain(|taint| &*taint.key != api_types::names::FOR_GANG_TAINT);
        state.apply(ClusterChange::Node(there));
    }
    let pods: Vec<Pod> =
        members("train", 2, 8).into_iter().map(|pod| Pod { host_ports: ports(), ..pod }).collect();
    for pod in &pods {
        state.apply(ClusterChange::Pod(pod.clone()));
    }
    for name in ["one", "two"] {
        let key = cluster_model::PodKey::new("other", name, name);
        let mut other = Pod::new(key, cluster_model::GangKey::new("other", name));
        (other.node, other.ours, other.host_ports) = (Some(name.into()), false, ports());
        state.apply(ClusterChange::Pod(other));
    }
    let bought = buys(&state, &catalogue([machine("h100")]), &Memory::default());
    assert_eq!(bought.launches.len(), 1, "{bought:?}");
}

#[test]
fn machines_of_another_gang_are_no_room() {
    let mut state = state(members("train", 2, 8));
    let theirs = |name: &str| -> Node {
        machine("h100").node(&place("a", CapacityType::OnDemand), name, "0123456789abcdef")
    };
    state.apply(ClusterChange::Node(theirs("one")));
    state.apply(ClusterChange::Node(theirs("two")));
    let bought = buys(&state, &catalogue([machine("h100")]), &Memory::default());
    assert_eq!(bought.launches.len(), 1, "{bought:?}");
}

#[test]
fn while_orders_are_not_taken_up_nothing_is_ordered_and_who_waits_is_told() {
    let (state, catalogue) = (state(members("train", 3, 8)), catalogue([machine("h100")]));
    let mut memory = Memory::default();
    memory.not_taken_up(at(999));
    let expected =
        "team/train refused: the last order was not taken up: does Karpenter run? It is tried again soon";
    assert_eq!(words(&buys(&state, &catalogue, &memory)), [expected]);
    let mut long_ago = Memory::default();
    long_ago.not_taken_up(at(900));
    assert_eq!(buys(&state, &catalogue, &long_ago).launches.len(), 1);
}

#[test]
fn where_nothing_can_be_bought_those_who_would_be_bought_for_are_told() {
    let pods = members("train", 2, 8).into_iter().chain(members("single", 1, 8));
    let (state, catalogue, policy) = (state(pods), catalogue([machine("h100")]), Policy::default());
    let view = crate::testing::view(&state, &policy, &catalogue, &[], at(1000));
    let refused = nothing(&view, "why");
    assert_eq!(refused.len(), 1, "pools buy for gangs of one: {refused:?}");
    assert_eq!((&refused[0].gang, refused[0].why.as_str()), (&gang("train"), "why"));
}

#[test]
fn gangs_for_whom_nothing_is_bought_keep_nobody_behind_them_waiting() {
    let poor = Terms { max_price_micros: Some(1), ..Terms::default() };
    let before = (0..70).flat_map(|index| with_terms(members(&format!("a{index:02}"), 2, 8), &poor));
    let state = state(before.chain(members("train", 2, 8)));
    let bought = buys(&state, &catalogue([machine("h100")]), &Memory::default());
    assert_eq!(bought.refused.len(), 70);
    assert_eq!(bought.launches.len(), 1);
}
