//! Machine types that promise more than their machines have: memory, GPUs, what `DaemonSet`s leave, the time to boot.
//! However they lie, nobody orders one kind more than four times in an hour, a gang that an honest type suits runs, and no
//! cap is ever passed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::machine_type::{CapacityType, NodeClassReference};
use api_types::names::{GPU_NODE_TAINT, LAUNCH_LABEL};
use capacity::backoff::MachineKind;
use capacity::caps::{Buying, Cap};
use capacity::catalogue::{Catalogue, CatalogueMachine, Offer, OfferPlace};
use capacity::claim::{Claim, Launch};
use capacity::memory::Memory;
use capacity::{View, decide, reserve};
use cluster_model::{ClusterChange, ClusterState, GangKey, Pod, PodKey, Queue, Resources, Terms, Toleration};
use jiff::Timestamp;
use placement::Policy;
use seeded_random::Random;

const START: i64 = 1_000_000;
pub const HOURS: i64 = 10;
/// In any hour, for one gang and one kind of machine.
pub const ORDERS_PER_HOUR_MAX: usize = 4;
/// `cargo xtask bench safe buying` lives more.
pub const HISTORIES: u64 = 24;
const GIB: i64 = 1 << 30;

/// What machines of a type have, though the type promises eight GPUs, 1024 GiB and a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Truth {
    gpus: i64,
    memory_gib: i64,
    /// What a `DaemonSet` takes of it.
    daemon_gib: i64,
    boot_seconds: i64,
    /// Its GPUs are of another type, which no comparison of rooms shows.
    has_other_gpus: bool,
}

impl Truth {
    fn random(random: &mut Random) -> Self {
        let mut truth =
            Self { gpus: 8, memory_gib: 1_024, daemon_gib: 0, boot_seconds: 45, has_other_gpus: false };
        for _ in 0..random.below(3) {
            match random.below(5) {
                0 => truth.gpus = number(random, 8),
                1 => truth.memory_gib = 1 + number(random, 1_024),
                2 => truth.daemon_gib = number(random, 512),
                3 => truth.has_other_gpus = true,
                _ => truth.boot_seconds = 60 + number(random, 1_000),
            }
        }
        truth
    }

    /// Whether a member with this many GiB runs on a machine of it, in time.
    fn suits(self, memory_gib: i64) -> bool {
        // A machine counts as late after twice its boot time and a minute.
        self.gpus == 8
            && !self.has_other_gpus
            && self.memory_gib - self.daemon_gib >= memory_gib
            && self.boot_seconds <= 60
    }
}

fn number(random: &mut Random, below: u64) -> i64 {
    i64::try_from(random.below(below)).unwrap()
}

struct World {
    now: i64,
    state: ClusterState,
    catalogue: Catalogue,
    buying: Buying,
    has_caps: bool,
    truths: BTreeMap<Arc<str>, Truth>,
    /// How many GiB each member of a gang asks for.
    gangs: BTreeMap<GangKey, i64>,
    claims: Vec<Claim>,
    memory: Memory,
    orders: BTreeMap<(GangKey, MachineKind), Vec<i64>>,
    /// What was spent beyond a cap, in millionths.
    beyond_caps_micros: i64,
}

impl World {
    /// Every other one has caps.
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut state = ClusterState::default();
        let has_caps = seed % 2 == 1;
        let mut cap = || if has_caps { random_cap(&mut random) } else { Cap::default() };
        let (buying, above, of_queue) = (Buying { cap: cap(), stopped: None }, cap(), cap());
        for (name, parent, cap) in [("above", None, above), ("queue", Some("above".into()), of_queue)] {
            state.apply(ClusterChange::Queue(Queue {
                parent,
                namespaces: ["team".into()].into(),
                machines_max: cap.machines,
                machines_per_hour_micros_max: cap.per_hour_micros,
                ..Queue::new(name)
            }));
        }
        let (mut catalogue, mut truths) = (Catalogue::new(), BTreeMap::new());
        for index in 0..=random.below(3) {
            let mut machine = machine(&format!("type-{index}"), &mut random);
            if has_caps {
                machine.cap = random_cap(&mut random);
            }
            truths.insert(Arc::clone(&machine.name), Truth::random(&mut random));
            catalogue.insert(Arc::clone(&machine.name), machine);
        }
        let mut gangs = BTreeMap::new();
        for index in 0..=random.below(4) {
            let gang = GangKey::new("team", format!("gang-{index}"));
            let memory_gib = 1 + number(&mut random, 1_024);
            for pod in members(&gang, 2 + u32::try_from(random.below(3)).unwrap(), memory_gib) {
                state.apply(ClusterChange::Pod(pod));
            }
            gangs.insert(gang, memory_gib);
        }
        let (now, claims, memory, orders) = (START, Vec::new(), Memory::default(), BTreeMap::new());
        let beyond_caps_micros = 0;
        Self {
            now,
            state,
            catalogue,
            buying,
            has_caps,
            truths,
            gangs,
            claims,
            memory,
            orders,
            beyond_caps_micros,
        }
    }

    /// Lives for ten hours.
    fn live(&mut self) {
        while self.now < START + HOURS * 3_600 {
            self.boot();
            let look_again_at = self.decide();
            let plan = placement::plan(&mut self.state, &Policy::default(), at(self.now));
            drop(self.state.commit(&plan));
            let boots = self.claims.iter().filter(|claim| !claim.ready).map(|claim| self.boots_at(claim));
            let moments = boots.chain(look_again_at.map(|it| it.as_second() + 1));
            let next = moments.filter(|at| *at > self.now).min().unwrap_or(i64::MAX);
            let next = next.clamp(self.now + 1, self.now + 600);
            self.beyond_caps_micros += self.beyond_caps_per_hour() * (next - self.now) / 3_600;
            self.now = next;
        }
    }

    /// By how much what is bought is beyond caps now, in millionths per hour.
    fn beyond_caps_per_hour(&self) -> i64 {
        let queues = ["above", "queue"].map(|name| self.state.queue(&name.into()).unwrap().0);
        let of_queues = queues
            .map(|it| Cap { machines: it.machines_max, per_hour_micros: it.machines_per_hour_micros_max });
        // All gangs are in one queue, so every machine counts for it.
        let everywhere = of_queues.into_iter().chain([self.buying.cap]).map(|cap| (cap, None));
        let types = self.catalogue.values().map(|machine| (machine.cap, Some(&machine.name)));
        let beyond = everywhere.chain(types).map(|(cap, name)| {
            let counted = self.claims.iter().filter(|claim| name.is_none_or(|it| claim.offer.machine == *it));
            let prices: Vec<i64> = counted.map(|claim| claim.price_micros).collect();
            let most = cap.machines.map_or(usize::MAX, |most| most as usize);
            let too_many: i64 = prices.iter().skip(most).sum();
            too_many + cap.per_hour_micros.map_or(0, |most| (prices.iter().sum::<i64>() - most).max(0))
        });
        beyond.sum()
    }

    fn decide(&mut self) -> Option<Timestamp> {
        let (policy, now) = (Policy::default(), at(self.now));
        let Self { state, catalogue, claims, buying, .. } = self;
        let decision = {
            let view = View { state, policy: &policy, catalogue, claims, buying, now };
            decide(&view, &mut self.memory)
        };
        for release in &decision.releases {
            self.claims.retain(|claim| claim.name != release.claim);
            self.state.apply(ClusterChange::NodeGone((&*release.claim).into()));
        }
        for node in &decision.opens {
            let mut opened = self.state.node_object(node).unwrap().clone();
            opened.taints.retain(|taint| &*taint.key == GPU_NODE_TAINT);
            self.state.apply(ClusterChange::Node(opened));
        }
        for launch in &decision.launches {
            let kinds: BTreeSet<MachineKind> =
                launch.machines.iter().map(|(offer, _)| offer.into()).collect();
            for kind in kinds {
                let gang = launch.key.gang().unwrap().clone();
                self.orders.entry((gang, kind)).or_default().push(self.now);
            }
            self.claims.extend(claims_of(launch));
        }
        decision.look_again_at
    }

    fn boots_at(&self, claim: &Claim) -> i64 {
        claim.created.as_second() + self.truths[&claim.offer.machine].boot_seconds
    }

    /// Machines become nodes, which have what they really have.
    fn boot(&mut self) {
        let due = |claim: &&Claim| !claim.ready && self.boots_at(claim) <= self.now;
        let due: Vec<Arc<str>> = self.claims.iter().filter(due).map(|claim| claim.name.clone()).collect();
        for claim in self.claims.iter_mut().filter(|claim| due.contains(&claim.name)) {
            let truth = self.truths[&claim.offer.machine];
            let machine = &self.catalogue[&claim.offer.machine];
            let mut node =
                machine.node(&claim.offer.place, &*claim.name, &claim.launch.mark().unwrap_or_default());
            node.labels.insert(LAUNCH_LABEL.into(), claim.launch.name().into());
            node.allocatable.gpus = truth.gpus;
            if truth.has_other_gpus {
                node.gpu_type = Some("A100".into());
            }
            node.allocatable.memory_bytes = truth.memory_gib * GIB;
            self.state.apply(ClusterChange::Node(node));
            self.state.apply(ClusterChange::Pod(daemon(&claim.name, truth.daemon_gib)));
            (claim.node, claim.ready) = (Some((&*claim.name).into()), true);
        }
    }

    fn runs(&self, gang: &GangKey) -> bool {
        self.state.gang(gang).unwrap().members().all(|pod| self.state.pod(pod).at().is_some())
    }
}

/// Sometimes only machines, sometimes only money, sometimes nothing.
fn random_cap(random: &mut Random) -> Cap {
    Cap {
        machines: (random.below(3) == 0).then(|| u32::try_from(random.below(12)).unwrap()),
        per_hour_micros: (random.below(3) == 0).then(|| number(random, 80_000_000)),
    }
}

/// One to three places, some of them also as spot.
fn machine(name: &str, random: &mut Random) -> CatalogueMachine {
    let mut offers = Vec::new();
    for zone in 0..=random.below(3) {
        for capacity_type in [CapacityType::OnDemand, CapacityType::Spot] {
            if capacity_type == CapacityType::OnDemand || random.below(2) == 0 {
                let place = OfferPlace {
                    zone: format!("zone-{zone}").into(),
                    block: None,
                    rack: None,
                    capacity_type,
                };
                offers.push(Offer { place, price_micros: 1_000_000 + number(random, 9_000_000), most: None });
            }
        }
    }
    CatalogueMachine {
        name: name.into(),
        instance_type: name.into(),
        gpu_type: Some("H100".into()),
        room: Resources { gpus: 8, cpu_millis: 96_000, memory_bytes: 1_024 * GIB, pods: 110 },
        boot_seconds: 60,
        idle_seconds: 300,
        spares: 0,
        cap: Cap::default(),
        offers,
        node_class: NodeClassReference { group: "g".into(), kind: "K".into(), name: "n".into() },
        node_pool: None,
        generation: None,
        real_room: None,
    }
}

fn members(gang: &GangKey, size: u32, memory_gib: i64) -> Vec<Pod> {
    let member = |index: u32| {
        let name = format!("{}-{index}", gang.name);
        let toleration = Toleration { key: Some(GPU_NODE_TAINT.into()), value: None, effect: None };
        let mut pod = Pod {
            gang_size: Some(size),
            queue: Some("queue".into()),
            requests: Resources { gpus: 8, cpu_millis: 1_000, memory_bytes: memory_gib * GIB, pods: 1 },
            gpu_types: vec!["H100".into()],
            member_index: Some(index),
            tolerations: vec![toleration],
            terms: Terms { takes_spot: true, buys_spot: true, ..Terms::default() }.into(),
            ..Pod::new(PodKey::new("team", name.clone(), name), gang.clone())
        };
        reserve::tolerate(&mut pod, &reserve::mark(gang));
        pod
    };
    (0..size).map(member).collect()
}

fn daemon(node: &str, memory_gib: i64) -> Pod {
    let name = format!("daemon-{node}");
    Pod {
        ours: false,
        node: Some(node.into()),
        requests: Resources { memory_bytes: memory_gib * GIB, pods: 1, ..Resources::default() },
        ..Pod::new(PodKey::new("kube-system", name.clone(), name.clone()), GangKey::new("kube-system", name))
    }
}

fn claims_of(launch: &Launch) -> Vec<Claim> {
    let claim = |(index, (offer, price_micros)): (usize, &(_, i64))| Claim {
        name: launch.claim_name(index),
        launch: launch.key.clone(),
        queue: launch.queue.clone(),
        of: u32::try_from(launch.machines.len()).unwrap(),
        offer: Clone::clone(offer),
        price_micros: *price_micros,
        created: at(launch.key.number),
        node: None,
        ready: false,
        taken_up: true,
        leaving: false,
        trouble: None,
    };
    launch.machines.iter().enumerate().map(claim).collect()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The most orders in any hour that begins with one.
fn most_in_an_hour(orders: &[i64]) -> usize {
    let within = |from: i64| orders.iter().filter(|at| (from..from + 3_600).contains(*at)).count();
    orders.iter().map(|from| within(*from)).max().unwrap_or(0)
}

/// What happened in some histories.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    pub orders: usize,
    pub orders_per_hour_max: usize,
    /// In millionths.
    pub beyond_caps_micros: i64,
    /// Gangs that never ran, because every type lied.
    pub lied_to: usize,
}

impl Told {
    pub fn add(&mut self, other: Self) {
        self.orders += other.orders;
        self.orders_per_hour_max = self.orders_per_hour_max.max(other.orders_per_hour_max);
        self.beyond_caps_micros += other.beyond_caps_micros;
        self.lied_to += other.lied_to;
    }
}

/// Ten hours, and what was wrong in them.
pub fn history(seed: u64) -> (Told, Vec<String>) {
    let mut world = World::new(seed);
    world.live();
    let mut told = Told { beyond_caps_micros: world.beyond_caps_micros, ..Told::default() };
    let mut wrong = Vec::new();
    for (gang, memory_gib) in &world.gangs {
        let is_suited = world.truths.values().any(|truth| truth.suits(*memory_gib));
        if world.runs(gang) {
            continue;
        }
        told.lied_to += 1;
        if is_suited && !world.has_caps {
            wrong.push(format!("{gang} does not run, with {:?}", world.truths));
        }
    }
    for ((gang, kind), orders) in &world.orders {
        let most = most_in_an_hour(orders);
        told.orders += orders.len();
        told.orders_per_hour_max = told.orders_per_hour_max.max(most);
        if most > ORDERS_PER_HOUR_MAX {
            wrong.push(format!("{gang} ordered {kind:?} {most} times in an hour: {orders:?}"));
        }
    }
    if told.beyond_caps_micros > 0 {
        wrong.push(format!("a cap was passed by {} millionths", told.beyond_caps_micros));
    }
    (told, wrong)
}

#[test]
fn whatever_types_promise_no_cap_is_passed_and_nobody_orders_a_kind_more_than_four_times_in_an_hour() {
    let mut all = Told::default();
    for seed in 0..HISTORIES {
        let (told, wrong) = history(seed);
        assert_eq!(wrong, Vec::<String>::new(), "seed {seed}");
        all.add(told);
    }
    assert!(all.lied_to > 0 && all.orders > 0, "{all:?}");
}
