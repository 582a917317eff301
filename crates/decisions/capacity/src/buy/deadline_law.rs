//! The law of deadlines: whatever spot does, a gang with a deadline ends in time as long as on-demand machines come
//! in their boot time. All of [`crate::decide`] is played through, with claims, nodes and attempts, in a market that
//! is against the gang.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::machine_type::CapacityType;
use cluster_model::{ClusterChange, ClusterState, EvictionTerms, Pod, Terms};
use placement::Policy;
use proptest::prelude::*;
use seeded_random::Random;

use crate::catalogue::Catalogue;
use crate::claim::Claim;
use crate::memory::Memory;
use crate::testing::{at, boot, catalogue, claims, gang, members, open, spot_machine, state};
use crate::{decide, reserve};

const START: i64 = 100_000;
/// How long restoring takes in this world, and on-demand machines to boot: a little less than is assumed, because of
/// the time between looks.
const RESTORES: i64 = 100;
const BOOTS: i64 = 45;
/// With less time to spare, on-demand machines are late already: their time to boot and to restore.
const LAXITY_MIN: i64 = 60 + 120;

struct World {
    now: i64,
    deadline: i64,
    /// Work that is left.
    work: i64,
    attempt: u32,
    state: ClusterState,
    claims: Vec<Claim>,
    /// When a claim is ready or vanishes.
    fates: BTreeMap<Arc<str>, (Option<i64>, Option<i64>)>,
    memory: Memory,
    catalogue: Catalogue,
    random: Random,
    /// Chances in a hundred that a launch of spot fails, and that running spot is taken back.
    fails: u64,
    taken_back: u64,
}

impl World {
    fn new(seed: u64, work: i64, laxity: i64, fails: u64, taken_back: u64) -> Self {
        let mut world = Self {
            now: START,
            deadline: START + work + laxity,
            work,
            attempt: 0,
            state: state([]),
            claims: Vec::new(),
            fates: BTreeMap::new(),
            memory: Memory::default(),
            catalogue: catalogue([spot_machine("h100")]),
            random: Random::new(seed),
            fails,
            taken_back,
        };
        world.begin();
        world
    }

    /// The next attempt waits.
    fn begin(&mut self) {
        self.attempt += 1;
        let terms = Terms {
            takes_spot: true,
            buys_spot: true,
            time_limit_seconds: Some(u32::try_from(self.work).unwrap()),
            deadline: Some(at(self.deadline)),
            eviction: EvictionTerms { checkpoints: true, never: false },
            ..Terms::default()
        };
        for pod in self.pods() {
            let mut pod = Pod { terms: terms.clone().into(), ..pod };
            reserve::tolerate(&mut pod, &reserve::mark(&gang(&self.name())));
            self.state.apply(ClusterChange::Pod(pod));
        }
    }

    fn name(&self) -> String {
        format!("train-{}", self.attempt)
    }

    fn pods(&self) -> Vec<Pod> {
        members(&self.name(), 2, 8)
    }

    /// Lives until the work is done. Returns when, and how long it took on spot.
    fn live(&mut self) -> (i64, i64) {
        let mut on_spot = 0;
        for _ in 0..20_000 {
            self.decide();
            if let Some(is_spot) = self.start() {
                // The decision that opens its machines, and sees them in use.
                self.decide();
                let works_from = self.now + RESTORES;
                let lasts =
                    i64::try_from(self.random.below(u64::try_from(self.work + RESTORES).unwrap())).unwrap();
                if !is_spot || self.random.below(100) >= self.taken_back {
                    let end = works_from + self.work;
                    return (end, on_spot + if is_spot { self.work } else { 0 });
                }
                self.now += lasts;
                on_spot += (lasts - RESTORES).max(0);
                self.take_back((lasts - RESTORES).max(0));
                continue;
            }
            self.wait();
        }
        panic!("it never ends: {} s of work left at {}", self.work, self.now);
    }

    fn decide(&mut self) {
        let policy = Policy::default();
        let view = crate::testing::view(&self.state, &policy, &self.catalogue, &self.claims, at(self.now));
        let decision = decide(&view, &mut self.memory);
        for release in &decision.releases {
            self.remove(&release.claim);
        }
        let opened: Vec<Claim> = self
            .claims
            .iter()
            .filter(|claim| claim.node.as_ref().is_some_and(|node| decision.opens.contains(node)))
            .cloned()
            .collect();
        open(&mut self.state, &self.catalogue, &opened);
        for launch in &decision.launches {
            let ordered = claims(launch);
            let fails = self.random.below(100) < self.fails;
            let unlucky = usize::try_from(self.random.below(ordered.len() as u64)).unwrap();
            for (index, claim) in ordered.into_iter().enumerate() {
                let is_spot = claim.offer.place.capacity_type == CapacityType::Spot;
                let after = |random: &mut Random, most: u64| 1 + i64::try_from(random.below(most)).unwrap();
                let fate = match (is_spot, fails && index == unlucky) {
                    (false, _) => (Some(self.now + BOOTS), None),
                    (true, false) => (Some(self.now + after(&mut self.random, 180)), None),
                    // It vanishes at any time, or never reports anything.
                    (true, true) => (None, Some(self.now + after(&mut self.random, 600))),
                };
                self.fates.insert(claim.name.clone(), fate);
                self.claims.push(claim);
            }
        }
    }

    fn wait(&mut self) {
        let pace = if self.claims.is_empty() { 60 } else { 5 };
        self.now += 1 + i64::try_from(self.random.below(pace)).unwrap();
        let mut gone = Vec::new();
        for claim in &mut self.claims {
            let (ready, vanishes) = self.fates[&claim.name];
            if vanishes.is_some_and(|at| at <= self.now) {
                gone.push(claim.name.clone());
            } else if !claim.ready && ready.is_some_and(|at| at <= self.now) {
                boot(&mut self.state, &self.catalogue, claim);
            }
        }
        for name in &gone {
            self.remove(name);
        }
    }

    fn remove(&mut self, name: &Arc<str>) {
        self.claims.retain(|claim| claim.name != *name);
        self.state.apply(ClusterChange::NodeGone((&**name).into()));
    }

    /// Puts the members on machines if all are ready: whether those are spot.
    fn start(&mut self) -> Option<bool> {
        let mark = reserve::mark(&gang(&self.name()));
        let mine: Vec<&Claim> = self
            .claims
            .iter()
            .filter(|claim| claim.ready && claim.launch.mark().as_ref() == Some(&mark))
            .collect();
        if mine.len() < 2 {
            return None;
        }
        let is_spot = mine.iter().any(|claim| claim.offer.place.capacity_type == CapacityType::Spot);
        let nodes: Vec<_> = mine.iter().map(|claim| claim.node.clone()).collect();
        for (pod, node) in self.pods().into_iter().zip(nodes) {
            self.state.apply(ClusterChange::Pod(Pod { node, started: Some(at(self.now)), ..pod }));
        }
        Some(is_spot)
    }

    /// Its machines are gone, with some of the work that it had done.
    fn take_back(&mut self, done: i64) {
        let lost = done.min(600);
        self.work -= done - lost;
        for pod in self.pods() {
            self.state.apply(ClusterChange::PodGone(pod.key));
        }
        let names: Vec<Arc<str>> = self.claims.iter().map(|claim| claim.name.clone()).collect();
        for name in &names {
            self.remove(name);
        }
        self.begin();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn no_deadline_is_missed_while_machines_on_demand_can_be_had(
        seed in any::<u64>(),
        work in 600_i64..6_000,
        // Mostly near the guard, where it matters.
        laxity in prop_oneof![3 => 0_i64..1_500, 1 => 0_i64..5_000],
        fails in 0_u64..=100,
        taken_back in 0_u64..=100,
    ) {
        let mut world = World::new(seed, work, LAXITY_MIN + laxity, fails, taken_back);
        let (end, _) = world.live();
        prop_assert!(end <= world.deadline, "{} s late, after {} attempts", end - world.deadline, world.attempt);
    }
}

#[test]
fn with_time_to_spare_most_of_the_work_is_done_on_spot() {
    let (mut on_spot, mut all) = (0, 0);
    for seed in 0..20 {
        let mut world = World::new(seed, 10_000, 10_000, 30, 50);
        let (_, spot) = world.live();
        on_spot += spot;
        all += 10_000;
    }
    assert!(on_spot * 10 > all * 8, "{on_spot} of {all} s");
}
