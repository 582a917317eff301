use std::sync::Arc;

use api_types::machine_type::CapacityType;
use api_types::names::NODE_POOL_LABEL;
use cluster_model::{
    Budget, BudgetCounts, BudgetKey, ClusterChange, ClusterState, EvictionTerms, Node, Pod, Selector, Terms,
};
use jiff::Timestamp;
use placement::Policy;

use super::movers::candidates;
use super::{Moving, moves};
use crate::catalogue::{Catalogue, MICROS, Offer, OfferKey};
use crate::claim::Claim;
use crate::memory::Memory;
use crate::testing::{
    at, boot, catalogue, claims, gang, launch, machine, members, names, open, place, state,
};
use crate::view::View;

const STARTED: i64 = 1_100;
/// Long after the start, so that all gangs have settled: a boot of 60 s makes that three minutes.
const NOW: i64 = 2_000;

/// A cluster in which everything was bought, and what is remembered.
struct World {
    state: ClusterState,
    catalogue: Catalogue,
    claims: Vec<Claim>,
    memory: Memory,
}

impl World {
    fn new(offers: &[Offer]) -> Self {
        let mut h100 = machine("h100");
        h100.offers.extend(offers.iter().cloned());
        let catalogue = catalogue([h100]);
        Self { state: state([]), catalogue, claims: Vec::new(), memory: Memory::default() }
    }

    /// Machines in zone a at 10 an hour, open to all gangs; their nodes have the claims' names.
    fn buy(&mut self, name: &str, count: usize) -> Vec<Arc<str>> {
        let mut bought = claims(&launch(name, 1_000, count));
        for claim in &mut bought {
            boot(&mut self.state, &self.catalogue, claim);
        }
        open(&mut self.state, &self.catalogue, &bought);
        let names = bought.iter().map(|claim| claim.name.clone()).collect();
        self.claims.extend(bought);
        names
    }

    /// Pods that run, each on its node.
    fn run(&mut self, pods: Vec<Pod>, nodes: &[Arc<str>]) {
        for (index, pod) in pods.into_iter().enumerate() {
            let node = Some((&*nodes[index % nodes.len()]).into());
            self.state.apply(ClusterChange::Pod(Pod { node, started: Some(at(STARTED)), ..pod }));
        }
    }

    fn end(&mut self, name: &str, count: u32) {
        for pod in members(name, count, 8) {
            self.state.apply(ClusterChange::PodGone(pod.key));
        }
    }

    fn view<'a>(&'a self, policy: &'a Policy, second: i64) -> View<'a> {
        let Self { state, catalogue, claims, .. } = self;
        crate::testing::view(state, policy, catalogue, claims, at(second))
    }

    fn look(&mut self, second: i64) -> Moving {
        let (policy, mut memory) = (Policy::default(), std::mem::take(&mut self.memory));
        let moving = moves(&self.view(&policy, second), true, &mut memory);
        self.memory = memory;
        moving
    }

    /// Which gangs move, and why.
    fn words(&mut self, second: i64) -> Vec<String> {
        let moves = self.look(second).moves;
        moves.iter().map(|it| format!("{}: {}", it.gangs[0], it.why)).collect()
    }
}

fn spot(price: i64) -> Offer {
    Offer { place: place("c", CapacityType::Spot), price_micros: price * MICROS, most: None }
}

fn spot_key() -> OfferKey {
    OfferKey { machine: "h100".into(), place: place("c", CapacityType::Spot) }
}

fn saving() -> Terms {
    let eviction = EvictionTerms { never: false, checkpoints: true };
    Terms { eviction, takes_spot: true, buys_spot: true, ..Terms::default() }
}

fn with(pods: Vec<Pod>, terms: &Terms) -> Vec<Pod> {
    let saved = Some(at(NOW - 60));
    let of_run = |pod: Pod| Pod {
        terms: terms.clone().into(),
        run: Some("run".into()),
        checkpointed: saved,
        grace_seconds: 30,
        ..pod
    };
    pods.into_iter().map(of_run).collect()
}

/// A gang of two on two on-demand machines, with these terms, while spot costs this much.
fn on_demand(terms: &Terms, price: i64) -> World {
    let mut world = World::new(&[spot(price)]);
    let nodes = world.buy("train", 2);
    world.run(with(members("train", 2, 8), terms), &nodes);
    world
}

#[test]
fn a_run_goes_back_to_spot_that_is_there_with_reasons_and_cost() {
    let mut world = on_demand(&saving(), 3);
    let found = world.look(NOW).moves;
    // 14 an hour for as long as gangs usually run, less the 15 minutes that it has; 3 minutes at 6 and 90 s at 20.
    assert_eq!(
        found[0].why,
        "2 × spot h100 in c at 6.00 an hour for 2 members of 8 GPUs; on demand is 20.00; expected 6.20 an hour with what it may \
         lose, instead of 2 × on-demand h100 in a at 20.00 an hour; saves 54.25 in 232 minutes, and moving costs 0.80"
    );
    assert_eq!(found[0].gangs, [gang("train")]);
    assert_eq!(found[0].leaves.len(), 2);
    assert_eq!((found[0].worth.gain_micros, found[0].worth.cost_micros), (54_250_000, 800_000));
    assert!(world.look(NOW + 60).moves.is_empty(), "one move at a time");
}

#[test]
fn nobody_moves_who_cannot_save_or_come_back_or_is_protected_or_does_not_take_spot() {
    let saves = saving();
    let never = EvictionTerms { never: true, checkpoints: true };
    let cannot = [
        Terms { eviction: EvictionTerms::default(), ..saves.clone() },
        Terms { eviction: never, ..saves.clone() },
        Terms { buys_spot: false, ..saves.clone() },
    ];
    for terms in cannot {
        assert_eq!(on_demand(&terms, 3).words(NOW), [""; 0], "{terms:?}");
    }
    let mut stays = on_demand(&saves, 3);
    let pods: Vec<Pod> = with(members("train", 2, 8), &saves);
    let nodes: Vec<Arc<str>> = stays.claims.iter().map(|claim| claim.name.clone()).collect();
    stays.run(pods.into_iter().map(|pod| Pod { comes_back: false, ..pod }).collect(), &nodes);
    assert_eq!(stays.words(NOW), [""; 0], "nobody would make it anew");
    let mut budget = on_demand(&saves, 3);
    budget.state.apply(ClusterChange::Budget(Budget {
        key: BudgetKey { namespace: "team".into(), name: "one".into() },
        selector: Some(Selector::default()),
        allowed: 1,
        counts: BudgetCounts::default(),
        told: 0,
    }));
    assert_eq!(budget.words(NOW), [""; 0], "one may go, and it has two members");
}

#[test]
fn who_has_only_just_started_stays() {
    assert_eq!(on_demand(&saving(), 3).words(STARTED + 179), [""; 0]);
    assert_eq!(on_demand(&saving(), 3).words(STARTED + 180).len(), 1);
}

#[test]
fn spot_that_was_refused_must_stand_for_as_long_as_a_launch_may_take() {
    let mut world = on_demand(&saving(), 3);
    world.memory.failed(&spot_key(), "dry", at(NOW - 100));
    assert_eq!(world.words(NOW), [""; 0], "it is tried again by who waits, and not by who runs");
    assert_eq!(world.words(NOW + 79), [""; 0]);
    assert_eq!(world.words(NOW + 94).len(), 1);
}

#[test]
fn spot_is_not_relied_on_for_longer_than_four_hours() {
    let (mut world, later) = (on_demand(&saving(), 3), STARTED + 18_000);
    let nodes: Vec<Arc<str>> = world.claims.iter().map(|claim| claim.name.clone()).collect();
    let pods = with(members("train", 2, 8), &saving());
    let just_saved = |pod: Pod| Pod { checkpointed: Some(at(later)), ..pod };
    world.run(pods.into_iter().map(just_saved).collect(), &nodes);
    let why = world.words(later);
    assert!(why[0].contains("saves 56.00 in 240 minutes"), "it may well go on for five: {why:?}");
}

#[test]
fn a_move_that_does_not_pay_twice_over_is_not_made() {
    // Spot saves 0.02 of 20 an hour; with a limit, there is little time to save anything in.
    let mut dear = World::new(&[Offer { price_micros: 9_990_000, ..spot(10) }]);
    let nodes = dear.buy("train", 2);
    dear.run(with(members("train", 2, 8), &saving()), &nodes);
    assert_eq!(dear.words(NOW), [""; 0]);
    let limit = |seconds: i64| Terms { time_limit_seconds: u32::try_from(seconds).ok(), ..saving() };
    // 1.60 are more than 14 an hour in 411 s.
    assert_eq!(on_demand(&limit(NOW - STARTED + 411), 3).words(NOW), [""; 0]);
    assert_eq!(on_demand(&limit(NOW - STARTED + 412), 3).words(NOW).len(), 1);
    let mut unsaved = on_demand(&saving(), 3);
    let pods = with(members("train", 2, 8), &saving());
    unsaved.run(pods.into_iter().map(|pod| Pod { checkpointed: None, ..pod }).collect(), &nodes);
    let why = unsaved.words(NOW);
    assert!(why[0].ends_with("moving costs 5.46"), "all since the start counts as lost: {why:?}");
}

#[test]
fn nobody_moves_towards_a_deadline_that_would_come_too_near() {
    let limit = 3600;
    // What is left of the limit, 180 s of changeover and 90 s of loss; and the same again with a tick of 60 s as the guard.
    let needed = (limit - (NOW - STARTED)) + 2 * (180 + 90) + 60;
    let by = |deadline: i64| Terms {
        deadline: Some(at(deadline)),
        time_limit_seconds: u32::try_from(limit).ok(),
        ..saving()
    };
    let keeps = |deadline: i64| {
        let (world, policy) = (on_demand(&by(deadline), 3), Policy::default());
        let view = world.view(&policy, NOW);
        let (_, found) = candidates(&view, &world.memory);
        found[0].movers[0].keeps_deadline(180, at(NOW))
    };
    assert!(!keeps(NOW + needed - 1) && keeps(NOW + needed));
    // `buy` looks further ahead: a launch of spot that fails takes its time, and work since a save may be lost.
    assert_eq!(on_demand(&by(NOW + needed), 3).words(NOW), [""; 0]);
    assert_eq!(on_demand(&by(NOW + 3 * needed), 3).words(NOW).len(), 1);
    let unknown = Terms { time_limit_seconds: None, ..by(NOW + 100_000) };
    assert_eq!(on_demand(&unknown, 3).words(NOW), [""; 0], "nobody knows how much is left to do");
}

#[test]
fn prices_that_swing_to_and_fro_move_a_run_ever_less_often() {
    let mut world = on_demand(&saving(), 3);
    let mut moved_at = Vec::new();
    // For a day: wherever it is, the other is far cheaper, and it has always just saved.
    for second in (NOW..NOW + 24 * 3600).step_by(20) {
        let saved = |pod: Pod| Pod { checkpointed: Some(at(second)), ..pod };
        let nodes: Vec<Arc<str>> = world.claims.iter().map(|claim| claim.name.clone()).collect();
        let pods = with(members("train", 2, 8), &saving());
        world.run(pods.into_iter().map(saved).collect(), &nodes);
        if !world.look(second).moves.is_empty() {
            moved_at.push(second - NOW);
        }
    }
    let waits: Vec<i64> = moved_at.windows(2).map(|pair| (pair[1] - pair[0]) / 60).collect();
    assert_eq!(waits, [30, 60, 120, 240, 480, 480], "{moved_at:?}");
}

#[test]
fn who_waits_in_the_same_queue_keeps_others_where_they_are() {
    let mut world = on_demand(&saving(), 3);
    for pod in members("waits", 1, 16) {
        world.state.apply(ClusterChange::Pod(pod));
    }
    assert_eq!(world.words(NOW), [""; 0]);
    let policy = Policy::default();
    let mut world = on_demand(&saving(), 3);
    let view = crate::testing::view(&world.state, &policy, &world.catalogue, &world.claims, at(NOW));
    assert!(moves(&view, false, &mut world.memory).moves.is_empty(), "machines are on their way");
}

#[test]
fn a_gang_that_was_spread_over_machines_goes_to_fewer() {
    let mut world = World::new(&[]);
    let nodes = world.buy("train", 2);
    world.run(with(members("train", 2, 4), &saving()), &nodes);
    let why = world.words(NOW);
    assert_eq!(
        why,
        [
            "team/train: 1 × on-demand h100 in a at 10.00 an hour for 2 members of 4 GPUs; not spot: none is offered, instead of \
          2 × on-demand h100 in a at 20.00 an hour; saves 38.75 in 232 minutes, and moving costs 1.00"
        ]
    );
    let mut alone = World::new(&[]);
    let nodes = alone.buy("train", 2);
    alone.run(with(members("train", 2, 8), &saving()), &nodes);
    assert_eq!(alone.words(NOW), [""; 0], "the same machines again are no gain");
}

/// Two runs of one member each, on half a machine of their own.
fn halves(first: &Terms, second: &Terms) -> World {
    let mut world = World::new(&[]);
    let nodes = world.buy("bought", 2);
    let named = |name: &str, terms: &Terms| -> Vec<Pod> {
        let pods = with(members(name, 1, 4), terms).into_iter();
        pods.map(|pod| Pod { run: Some(name.into()), ..pod }).collect()
    };
    world.run(named("first", first), &nodes[..1]);
    world.run(named("second", second), &nodes[1..]);
    world
}

#[test]
fn two_half_empty_machines_become_one_and_the_other_goes_when_it_is_empty() {
    let mut world = halves(&saving(), &saving());
    let found = world.look(NOW);
    assert_eq!(
        found.moves[0].why,
        "there is room on other machines, and 1 × on-demand h100 in a at 10.00 an hour can go; saves 45.00 in 270 minutes, \
         and moving costs 0.58"
    );
    assert_eq!(found.moves[0].gangs, [gang("first")]);
    let left = world.claims[0].name.to_string();
    assert!(found.releases.is_empty(), "it is not empty yet");
    world.end("first", 1);
    let found = world.look(NOW + 20);
    assert_eq!((names(&found.releases), found.moves.len()), (vec![left], 0));
    // Its next attempt is where the other one is, and the machine is gone.
    let stays = world.claims.remove(1).name;
    world.claims.clear();
    let next: Vec<Pod> = with(members("first-2", 1, 4), &saving());
    world.run(next.into_iter().map(|pod| Pod { run: Some("first".into()), ..pod }).collect(), &[stays]);
    assert_eq!(world.look(NOW + 40), Moving::default());
    assert!(!world.memory.moves.leaves(&"any".into()));
}

#[test]
fn a_machine_is_emptied_only_if_all_on_it_can_go_and_the_room_elsewhere_lasts() {
    let stays = Terms { eviction: EvictionTerms::default(), ..saving() };
    assert_eq!(halves(&stays, &stays).words(NOW), [""; 0], "nobody saves");
    let mut one = halves(&stays, &saving());
    assert_eq!(one.look(NOW).moves[0].gangs, [gang("second")], "only the second saves");
    // The other machine would be gone in 400 s: 1.16 are more than twice what could be saved until then.
    let ends = |seconds: i64| Terms {
        time_limit_seconds: u32::try_from(NOW - STARTED + seconds).ok(),
        ..stays.clone()
    };
    assert_eq!(halves(&ends(400), &saving()).words(NOW), [""; 0]);
    assert_eq!(halves(&ends(430), &saving()).words(NOW).len(), 1);
    let of_pool = |seconds: i64| {
        let mut world = halves(&ends(seconds), &saving());
        let other = world.claims.remove(0).name;
        let mut node = world.state.node_object(&(&*other).into()).expect("it is there").clone();
        node.labels.insert(NODE_POOL_LABEL.into(), "any".into());
        world.state.apply(ClusterChange::Node(node));
        world.words(NOW).len()
    };
    assert_eq!([of_pool(400), of_pool(430)], [0, 1], "a pool's machines go when they are empty, too");
    let mut full = halves(&saving(), &saving());
    let nodes: Vec<Arc<str>> = full.claims.iter().map(|claim| claim.name.clone()).collect();
    full.run(with(members("third", 2, 4), &saving()), &nodes);
    assert_eq!(full.words(NOW), [""; 0], "there is no room");
}

#[test]
fn nobody_moves_onto_a_machine_that_is_about_to_go() {
    let mut world = halves(&saving(), &saving());
    world.end("second", 1);
    assert_eq!(world.words(NOW), [""; 0]);
}

#[test]
fn a_machine_that_is_left_is_nobodys_spare() {
    let mut world = halves(&saving(), &saving());
    assert_eq!(world.look(NOW).moves.len(), 1);
    world.end("first", 1);
    world.catalogue.get_mut("h100").unwrap().spares = 1;
    world.buy("spare", 1);
    let (policy, now): (_, Timestamp) = (Policy::default(), at(NOW + 1));
    let view = crate::testing::view(&world.state, &policy, &world.catalogue, &world.claims, now);
    let decision = crate::decide(&view, &mut world.memory);
    assert_eq!(names(&decision.releases), [world.claims[0].name.to_string()]);
    assert!(decision.launches.is_empty(), "the other one is the spare");
}

#[test]
fn a_machine_that_is_closed_is_nobodys_spare_and_is_replaced_when_it_has_gone() {
    let mut world = World::new(&[]);
    world.catalogue.get_mut("h100").unwrap().spares = 1;
    let machines = world.buy("spares", 2);
    let node = world.state.node_object(&(&*machines[0]).into()).expect("it is there").clone();
    let policy = Policy::default();
    for takes_pods in [true, false] {
        world.state.apply(ClusterChange::Node(Node { schedulable: takes_pods, ..node.clone() }));
        let mut memory = Memory::default();
        crate::decide(&world.view(&policy, NOW), &mut memory);
        let decision = crate::decide(&world.view(&policy, NOW + 3_600), &mut memory);
        assert_eq!(names(&decision.releases), [machines[usize::from(takes_pods)].to_string()]);
        assert!(decision.launches.is_empty());
    }
    world.claims.remove(1);
    let launches = crate::decide(&world.view(&policy, NOW), &mut Memory::default()).launches;
    assert!(launches.is_empty(), "the last one is still there");
    world.claims.clear();
    let launches = crate::decide(&world.view(&policy, NOW), &mut Memory::default()).launches;
    assert_eq!(launches.len(), 1);
}
