//! Series of changes, of all kinds.

use std::sync::Arc;

use cluster_model::{
    Amounts, BankTerms, ClusterChange, DeviceAsk, DevicePart, DeviceUse, GangKey, HostPort, HostPorts,
    LabelRule, LabelSet, LabelTest, MigProfile, Neighbours, Node, NodeAffinity, NodeName, NodeTerm, Operator,
    OtherResources, Pod, PodKey, PodTerm, Power, Queue, QueueName, Requirement, Scope, Selector,
    SpreadConstraint, Taint, TaintEffect,
};
use proptest::prelude::*;

use crate::build::{node, pod, queue};

pub const NAMESPACES: [&str; 2] = ["team", "other"];
/// One of them has no pods.
const SPACES: [&str; 3] = ["team", "other", "third"];

/// Something that happens.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a few dozen in a test")]
pub enum Step {
    Change(ClusterChange),
    Assume(PodKey, NodeName, Vec<DeviceUse>),
    Forget(PodKey),
    /// Holds nodes (by number) for the members of a gang.
    Hold(GangKey, Vec<usize>),
    Release(GangKey),
    Evict(GangKey, GangKey),
    /// What-ifs that are dropped: in a fork, and in a fork of it.
    Fork(Vec<WhatIf>, Vec<WhatIf>),
    Advance(i64),
}

/// One step in a fork, with pods and nodes by number.
#[derive(Clone, Debug)]
pub enum WhatIf {
    Assume(usize, usize, Vec<DeviceUse>),
    Hold(usize, usize, Vec<DeviceUse>),
    Evict(usize),
    Release(usize),
    Land(usize),
    Postpone(usize),
}

/// What a series may contain.
#[derive(Clone, Copy, Debug)]
pub struct Kinds {
    /// Holds and evictions; then a pod never changes its gang.
    pub holds: bool,
    pub time: bool,
}

pub fn steps(kinds: Kinds) -> impl Strategy<Value = Vec<Step>> {
    let is_wanted = move |step: &Step| match step {
        Step::Hold(..) | Step::Release(_) | Step::Evict(..) => kinds.holds,
        Step::Advance(_) => kinds.time,
        _ => true,
    };
    prop::collection::vec(
        prop_oneof![
            4 => a_node().prop_map(|node| Step::Change(ClusterChange::Node(node))),
            1 => node_name().prop_map(|name| Step::Change(ClusterChange::NodeGone(name))),
            10 => a_pod(kinds.holds).prop_map(|pod| Step::Change(ClusterChange::Pod(pod))),
            3 => pod_key().prop_map(|key| Step::Change(ClusterChange::PodGone(key))),
            4 => a_queue().prop_map(|queue| Step::Change(ClusterChange::Queue(queue))),
            1 => queue_name().prop_map(|name| Step::Change(ClusterChange::QueueGone(name))),
            5 => (pod_key(), node_name(), uses()).prop_map(|(pod, node, uses)| Step::Assume(pod, node, uses)),
            2 => pod_key().prop_map(Step::Forget),
            2 => (what_ifs(), what_ifs()).prop_map(|(outer, inner)| Step::Fork(outer, inner)),
            4 => (gang_key(), prop::collection::vec(0..4usize, 6)).prop_map(|(gang, at)| Step::Hold(gang, at)),
            1 => gang_key().prop_map(Step::Release),
            2 => (gang_key(), gang_key()).prop_map(|(victim, claimant)| Step::Evict(victim, claimant)),
            4 => (0..3000i64).prop_map(Step::Advance),
            3 => (0..3usize, labels()).prop_map(|(name, labels)| {
                Step::Change(ClusterChange::Namespace { name: SPACES[name].into(), labels })
            }),
            1 => (0..3usize).prop_map(|name| Step::Change(ClusterChange::NamespaceGone(SPACES[name].into()))),
        ],
        1..90,
    )
    .prop_map(move |steps| steps.into_iter().filter(is_wanted).collect())
}

fn what_ifs() -> impl Strategy<Value = Vec<WhatIf>> {
    let (pod, node) = (0..14usize, 0..4usize);
    prop::collection::vec(
        prop_oneof![
            3 => (pod.clone(), node.clone(), uses()).prop_map(|(pod, node, uses)| WhatIf::Assume(pod, node, uses)),
            2 => (pod.clone(), node, uses()).prop_map(|(pod, node, uses)| WhatIf::Hold(pod, node, uses)),
            2 => pod.clone().prop_map(WhatIf::Evict),
            1 => pod.clone().prop_map(WhatIf::Release),
            1 => pod.clone().prop_map(WhatIf::Land),
            1 => pod.prop_map(WhatIf::Postpone),
        ],
        0..8,
    )
}

fn node_name() -> impl Strategy<Value = NodeName> {
    (0..4).prop_map(|number| format!("n{number}").into())
}

fn queue_name() -> impl Strategy<Value = QueueName> {
    (0..5).prop_map(|number| format!("q{number}").into())
}

fn pod_key() -> impl Strategy<Value = PodKey> {
    (0..2usize, 0..6, 0..2).prop_map(|(namespace, name, uid)| {
        PodKey::new(NAMESPACES[namespace], format!("p{name}"), format!("u{uid}"))
    })
}

/// A gang that contains pods of a fixed gang; see [`gang_of`].
fn gang_key() -> impl Strategy<Value = GangKey> {
    pod_key().prop_map(|pod| gang_of(&pod))
}

/// Three names make a gang, the others are alone.
fn gang_of(pod: &PodKey) -> GangKey {
    let gang = if *pod.name <= *"p2" { "g".into() } else { format!("pod/{}", pod.name) };
    GangKey::new(pod.namespace.clone(), gang)
}

/// They need not be consistent: a state must count whatever pods say.
fn uses() -> impl Strategy<Value = Vec<DeviceUse>> {
    let part = prop_oneof![
        Just(DevicePart::Whole),
        (1..700u16).prop_map(DevicePart::Millis),
        (0..7usize, 0..7u8).prop_map(|(profile, start)| {
            let profile = MigProfile::ALL[profile];
            let starts = profile.starts();
            DevicePart::Mig { profile, start: starts[usize::from(start) % starts.len()] }
        }),
    ];
    prop::collection::vec((0..5u8, part).prop_map(|(device, part)| DeviceUse { device, part }), 0..3)
}

fn a_node() -> impl Strategy<Value = Node> {
    let flags = (any::<bool>(), prop::bool::weighted(0.2), any::<bool>(), prop::bool::weighted(0.2));
    let path = prop::collection::vec(0..2u8, 0..4);
    let labels = (prop::option::of(0..2u8), prop::option::weighted(0.8, 0..2u8));
    let others = (0..3i64, 0..3i64, prop::bool::weighted(0.2));
    (node_name(), 0..3usize, 0..9i64, flags, path, labels, others).prop_map(
        |(
            name,
            kind,
            gpus,
            (exact, closed, tainted, spot),
            path,
            (disk, zone),
            (network, scratch, cordoned),
        )| {
            let labels = [("disk", disk), ("zone", zone)].into_iter();
            let taint = Taint { key: "k".into(), value: "".into(), effect: TaintEffect::NoSchedule };
            Node {
                gpu_type: ["H100", "L4"].get(kind).map(|name| (*name).into()),
                schedulable: !closed,
                cordoned,
                other_allocatable: others_of(network, scratch),
                taints: if tainted { vec![taint] } else { vec![] },
                labels: labels
                    .filter_map(|(key, value)| Some((key.into(), value?.to_string().into())))
                    .chain([("host".into(), name.as_str().into())])
                    .collect(),
                topology: path.into_iter().map(|name| format!("d{name}").into()).collect(),
                exact,
                spot,
                power: spot.then_some(Power { idle_watts: 300, gpu_watts: 700 }),
                ..node(name.as_str(), "H100", gpus)
            }
        },
    )
}

fn others_of(network: i64, scratch: i64) -> OtherResources {
    [("rdma/hca".into(), network), ("ephemeral-storage".into(), scratch)].into_iter().collect()
}

/// Other resources, ports and rules on labels.
fn asks_of_node() -> impl Strategy<Value = (OtherResources, HostPorts, Option<NodeAffinity>)> {
    let others = (0..3i64, 0..2i64).prop_map(|(network, scratch)| others_of(network, scratch));
    let port = (1..3u16, prop::sample::select(vec!["", "10.0.0.1"]));
    let ports =
        prop::collection::vec(port.prop_map(|(port, address)| HostPort::new(port, "", address)), 0..2);
    let test = prop_oneof![
        Just(LabelTest::Exists),
        Just(LabelTest::DoesNotExist),
        Just(LabelTest::NotIn(["1".into()].into())),
        Just(LabelTest::Above(0)),
    ];
    let rule = (prop::sample::select(vec!["zone", "disk", "host"]), test);
    let affinity = rule.prop_map(|(key, test)| {
        let labels = vec![LabelRule { key: key.into(), test }];
        NodeAffinity { terms: vec![NodeTerm { labels, names: vec![] }] }
    });
    (others, ports.prop_map(|ports| ports.into_iter().collect()), prop::option::weighted(0.3, affinity))
}

fn a_pod(fixed_gang: bool) -> impl Strategy<Value = Pod> {
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.8), prop::bool::weighted(0.2));
    let about_gang = (prop::option::of(0..3), 0..3i32, 0..3i64, prop::option::of(1..4u32));
    let device = prop_oneof![
        3 => Just(DeviceAsk::Whole),
        1 => (1..999u16).prop_map(|millis| DeviceAsk::Share { millis }),
        1 => Just(DeviceAsk::Mig { profile: MigProfile::G2 }),
    ];
    let near = (labels(), prop::option::of(neighbours()), asks_of_node());
    let placed = (prop::option::weighted(0.4, node_name()), uses(), prop::option::of(0..3i64));
    (pod_key(), prop::option::of(queue_name()), (0..5i64, device), placed, flags, about_gang, near).prop_map(
        move |(key, queue, (gpus, device), (node, devices, started), flags, about_gang, near)| {
            let (terminating, ours, selects) = flags;
            let (gang, priority, created, gang_size) = about_gang;
            let loose = || {
                GangKey::new(
                    key.namespace.clone(),
                    gang.map_or_else(|| format!("pod/{}", key.name), |gang| format!("g{gang}")),
                )
            };
            let second = |seconds| jiff::Timestamp::from_second(seconds).expect("in range");
            Pod {
                gang: if fixed_gang { gang_of(&key) } else { loose() },
                key,
                queue,
                devices: if node.is_some() { devices } else { Vec::new() },
                started: started.filter(|_| node.is_some()).map(second),
                node,
                terminating,
                ours,
                priority,
                gang_size,
                device,
                created: second(created),
                labels: near.0,
                neighbours: near.1.map(Arc::new),
                other_requests: near.2.0,
                host_ports: near.2.1,
                node_affinity: near.2.2.map(Arc::new),
                node_selector: selects.then(|| ("disk".into(), "1".into())).into_iter().collect(),
                ..pod("p", gpus)
            }
        },
    )
}

fn labels() -> impl Strategy<Value = LabelSet> {
    (prop::option::of(0..2u8), prop::option::of(0..2u8)).prop_map(|(app, tier)| {
        let labels = [("app", app), ("tier", tier)].into_iter();
        labels.filter_map(|(key, value)| Some((key, value?.to_string()))).collect()
    })
}

fn selector() -> impl Strategy<Value = Option<Selector>> {
    let operator = prop_oneof![
        3 => Just(Operator::In),
        1 => Just(Operator::NotIn),
        1 => Just(Operator::Exists),
        1 => Just(Operator::DoesNotExist),
    ];
    let values = prop::sample::subsequence(vec!["0", "1"], 1..=2);
    let requirement = (any::<bool>(), operator, values).prop_map(|(app, operator, values)| Requirement {
        key: if app { "app" } else { "tier" }.into(),
        operator,
        values: match operator {
            Operator::In | Operator::NotIn => values.into_iter().map(Into::into).collect(),
            Operator::Exists | Operator::DoesNotExist => Vec::new(),
        },
    });
    prop::option::weighted(0.9, prop::collection::vec(requirement, 0..3).prop_map(Selector::new))
}

fn topology_key() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![Just("zone"), Just("host"), Just("disk")].prop_map(Into::into)
}

fn pod_term() -> impl Strategy<Value = PodTerm> {
    let namespaces = prop::sample::subsequence(NAMESPACES.to_vec(), 0..=2);
    (selector(), namespaces, prop::option::of(selector()), topology_key()).prop_map(
        |(selector, namespaces, namespace_selector, topology_key)| {
            let namespaces = namespaces.into_iter().map(Into::into).collect();
            let namespace_selector = namespace_selector.flatten();
            PodTerm { scope: Scope { selector, namespaces, namespace_selector }, topology_key }
        },
    )
}

fn neighbours() -> impl Strategy<Value = Neighbours> {
    let spread = (topology_key(), 1..3u32, selector(), 1..3u32, any::<bool>(), any::<bool>()).prop_map(
        |(topology_key, skew_max, selector, domains_min, affinity, taints)| SpreadConstraint {
            topology_key,
            skew_max,
            selector,
            domains_min,
            honours_node_affinity: affinity,
            honours_node_taints: taints,
        },
    );
    let terms = || prop::collection::vec(pod_term(), 0..3);
    (terms(), terms(), prop::collection::vec(spread, 0..3))
        .prop_map(|(affinity, anti_affinity, spread)| Neighbours { affinity, anti_affinity, spread })
}

fn a_queue() -> impl Strategy<Value = Queue> {
    let namespaces = prop::sample::subsequence(NAMESPACES.to_vec(), 0..=2);
    (queue_name(), prop::option::of(queue_name()), namespaces, prop::option::of(0..6i64)).prop_map(
        |(name, parent, namespaces, lend)| Queue {
            parent,
            namespaces: namespaces.into_iter().map(Into::into).collect(),
            lend: lend.map(|gpus| Amounts { gpus: [("H100".into(), gpus)].into(), ..Amounts::default() }),
            bank: lend.map(|_| BankTerms { earn_millis: 700, cap_gpu_seconds: 1_000_000 }),
            half_life_seconds: 3600,
            ..queue(name.as_str(), None, 8)
        },
    )
}
