//! Machines, claims and gangs for tests.

use std::sync::Arc;

use api_types::machine_type::{CapacityType, NodeClassReference};
use cluster_model::{ClusterChange, ClusterState, GangKey, Pod, PodKey, Queue, Resources, Toleration};
use jiff::Timestamp;
use placement::Policy;

use crate::caps::{Buying, Cap};
use crate::catalogue::{Catalogue, CatalogueMachine, Offer, OfferKey, OfferPlace};
use crate::claim::{Claim, Launch, LaunchKey, Purpose};
use crate::memory::{Memory, Ordered};
use crate::view::View;

pub const BOOT_SECONDS: u32 = 60;

/// Without caps.
static UNBOUNDED: Buying = Buying { stopped: None, cap: Cap { machines: None, per_hour_micros: None } };

/// A view without caps.
pub fn view<'a>(
    state: &'a ClusterState,
    policy: &'a Policy,
    catalogue: &'a Catalogue,
    claims: &'a [Claim],
    now: Timestamp,
) -> View<'a> {
    View { state, policy, catalogue, claims, buying: &UNBOUNDED, now }
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub fn place(zone: &str, capacity_type: CapacityType) -> OfferPlace {
    OfferPlace { zone: zone.into(), block: None, rack: None, capacity_type }
}

pub fn offer_key(machine: &str, zone: &str) -> OfferKey {
    OfferKey { machine: machine.into(), place: place(zone, CapacityType::OnDemand) }
}

/// A machine with 8 GPUs, on demand in zones a and b, at 10 and 11 an hour.
pub fn machine(name: &str) -> CatalogueMachine {
    let offer = |zone, price: i64| Offer {
        place: place(zone, CapacityType::OnDemand),
        price_micros: price * crate::catalogue::MICROS,
        most: None,
    };
    CatalogueMachine {
        name: name.into(),
        instance_type: format!("{name}.8x").into(),
        gpu_type: Some("H100".into()),
        room: Resources { gpus: 8, cpu_millis: 96_000, memory_bytes: 1 << 40, pods: 110 },
        boot_seconds: BOOT_SECONDS,
        idle_seconds: 300,
        spares: 0,
        cap: Cap::default(),
        offers: vec![offer("a", 10), offer("b", 11)],
        node_class: NodeClassReference { group: "g".into(), kind: "K".into(), name: "n".into() },
        node_pool: None,
        generation: None,
        real_room: None,
    }
}

/// The same, and as spot in both zones, at 3 and 4 an hour.
pub fn spot_machine(name: &str) -> CatalogueMachine {
    let mut machine = machine(name);
    machine.offers.extend([("a", 3), ("b", 4)].map(|(zone, price)| Offer {
        place: place(zone, CapacityType::Spot),
        price_micros: price * crate::catalogue::MICROS,
        most: None,
    }));
    machine
}

/// A spot machine of this offer is in use at a moment, and gone in the next second.
pub fn lose(memory: &mut Memory, offer: &OfferKey, now: i64) {
    let (mut state, catalogue) = (state([]), catalogue([spot_machine("h100")]));
    let mut launch = launch("lost", now, 1);
    launch.machines[0].0 = offer.clone();
    let mut claims = claims(&launch);
    boot(&mut state, &catalogue, &mut claims[0]);
    let pod = members("lost", 1, 8).remove(0);
    state.apply(ClusterChange::Pod(Pod { node: claims[0].node.clone(), ..pod }));
    memory.look(&state, &claims, at(now));
    memory.look(&state, &[], at(now + 1));
}

pub fn catalogue(machines: impl IntoIterator<Item = CatalogueMachine>) -> Catalogue {
    machines.into_iter().map(|machine| (Arc::clone(&machine.name), machine)).collect()
}

pub fn gang(name: &str) -> GangKey {
    GangKey::new("team", name)
}

/// Members with this many GPUs each, in queue `queue`.
pub fn members(name: &str, members: u32, gpus: i64) -> Vec<Pod> {
    let member = |index: u32| {
        let key = PodKey::new("team", format!("{name}-{index}"), format!("{name}-{index}"));
        Pod {
            gang_size: Some(members),
            queue: Some("queue".into()),
            requests: Resources { gpus, cpu_millis: 1_000, memory_bytes: 1 << 30, pods: 1 },
            gpu_types: vec!["H100".into()],
            member_index: Some(index),
            tolerations: vec![Toleration {
                key: Some(api_types::names::GPU_NODE_TAINT.into()),
                value: None,
                effect: None,
            }],
            ..Pod::new(key, gang(name))
        }
    };
    (0..members).map(member).collect()
}

/// A state with these pods, and a queue that is open to them.
pub fn state(pods: impl IntoIterator<Item = Pod>) -> ClusterState {
    let mut state = ClusterState::default();
    state.apply(ClusterChange::Queue(Queue { namespaces: ["team".into()].into(), ..Queue::new("queue") }));
    for pod in pods {
        state.apply(ClusterChange::Pod(pod));
    }
    state
}

/// A launch of this many machines in zone a, decided at second `number`.
pub fn launch(name: &str, number: i64, size: usize) -> Launch {
    Launch {
        key: LaunchKey { purpose: Purpose::Gang(gang(name)), number },
        queue: Some("queue".into()),
        machines: vec![(offer_key("h100", "a"), 10_000_000); size],
        ready_by: at(number + i64::from(BOOT_SECONDS)),
        price_micros: 10_000_000 * i64::try_from(size).unwrap(),
        why: String::new(),
    }
}

pub fn ordered(memory: &mut Memory, launch: &Launch) {
    let ordered = Ordered { launch: launch.clone(), at: at(launch.key.number), seen: [].into() };
    memory.ordered.insert(launch.key.clone(), ordered);
}

/// The claims of a launch, not ready.
pub fn claims(launch: &Launch) -> Vec<Claim> {
    let of = u32::try_from(launch.machines.len()).unwrap();
    let machines = launch.machines.iter().enumerate();
    let claim = |(index, (offer, price_micros)): (usize, &(OfferKey, i64))| Claim {
        name: launch.claim_name(index),
        launch: launch.key.clone(),
        queue: launch.queue.clone(),
        of,
        offer: offer.clone(),
        price_micros: *price_micros,
        created: at(launch.key.number),
        node: None,
        ready: false,
        taken_up: true,
        leaving: false,
        trouble: None,
    };
    machines.map(claim).collect()
}

/// A claim becomes a node of its own name, ready, with the gang's taint.
pub fn boot(state: &mut ClusterState, catalogue: &Catalogue, claim: &mut Claim) {
    let machine = &catalogue[&claim.offer.machine];
    let mark = claim.launch.mark().unwrap_or_default();
    let mut node = machine.node(&claim.offer.place, &*claim.name, &mark);
    node.labels.insert(api_types::names::LAUNCH_LABEL.into(), claim.launch.name().into());
    state.apply(ClusterChange::Node(node));
    (claim.node, claim.ready) = (Some((&*claim.name).into()), true);
}

/// The nodes of claims lose the gang's taint.
pub fn open(state: &mut ClusterState, catalogue: &Catalogue, claims: &[Claim]) {
    for claim in claims {
        let mut node = catalogue[&claim.offer.machine].node(&claim.offer.place, &*claim.name, "");
        node.taints.retain(|taint| &*taint.key != api_types::names::FOR_GANG_TAINT);
        node.labels.insert(api_types::names::LAUNCH_LABEL.into(), claim.launch.name().into());
        state.apply(ClusterChange::Node(node));
    }
}

pub fn names(releases: &[crate::launches::Release]) -> Vec<String> {
    releases.iter().map(|release| release.claim.to_string()).collect()
}
