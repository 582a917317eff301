//! Pods that ask more of their nodes than room: labels, names, ports and other resources. What an object gets follows from
//! the seed and its name alone, so that it stays the same each time.

use std::sync::Arc;

use cluster_model::{
    ClusterChange, HostPort, LabelRule, LabelTest, NameRule, Node, NodeAffinity, NodeTerm, Pod, Taint,
    Toleration,
};

use super::random::Random;

const GENERATION: &str = "generation";
const NETWORK: &str = "rdma/hca";
const SCRATCH: &str = "ephemeral-storage";

/// Adds it to a node or a pod.
pub fn make(change: &mut ClusterChange, seed: u64) {
    match change {
        ClusterChange::Node(node) => make_node(node, &mut of(seed, node.name.as_str())),
        // Members of a gang are mostly alike.
        ClusterChange::Pod(pod) => make_pod(pod, &mut of(seed, &pod.gang.name)),
        _ => {}
    }
}

fn of(seed: u64, name: &str) -> Random {
    let mixed = name.bytes().fold(seed, |mixed, byte| mixed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    Random::new(mixed)
}

fn make_node(node: &mut Node, random: &mut Random) {
    if random.chance(80) {
        node.labels.insert(GENERATION.into(), random.between(1, 4).to_string().as_str().into());
    }
    node.cordoned = random.chance(15);
    let network = random.pick(&[0, 1, 2, 4]);
    let scratch = random.pick(&[0, 50, 100]);
    node.other_allocatable = [(NETWORK.into(), network), (SCRATCH.into(), scratch)].into_iter().collect();
}

fn make_pod(pod: &mut Pod, random: &mut Random) {
    if random.chance(30) {
        pod.node_affinity = Some(Arc::new(affinity(random)));
    }
    let network = random.pick(&[0, 0, 1, 2]);
    let scratch = random.pick(&[0, 0, 20, 60]);
    pod.other_requests = [(NETWORK.into(), network), (SCRATCH.into(), scratch)].into_iter().collect();
    if random.chance(25) {
        let address = random.pick(&["", "10.0.0.1", "10.0.0.2"]);
        let port = u16::try_from(random.between(1, 3)).expect("a small number");
        pod.host_ports = [HostPort::new(port, random.pick(&["TCP", "UDP"]), address)].into_iter().collect();
    }
    if random.chance(15) {
        pod.tolerations.push(Toleration { key: Some(Taint::cordon().key), value: None, effect: None });
    }
}

fn affinity(random: &mut Random) -> NodeAffinity {
    NodeAffinity { terms: (0..random.count(1, 2)).map(|_| term(random)).collect() }
}

fn term(random: &mut Random) -> NodeTerm {
    let value = |random: &mut Random| random.between(1, 4).to_string().as_str().into();
    let test = match random.between(0, 5) {
        0 => LabelTest::In([value(random), value(random)].into()),
        1 => LabelTest::NotIn([value(random)].into()),
        2 => LabelTest::Exists,
        3 => LabelTest::DoesNotExist,
        4 => LabelTest::Above(random.between(0, 3)),
        _ => LabelTest::Below(random.between(2, 5)),
    };
    let name = |random: &mut Random| format!("n{}", random.between(0, 4)).as_str().into();
    let names = match random.between(0, 5) {
        0 => vec![NameRule::Is(name(random))],
        1 => vec![NameRule::IsNot(name(random))],
        _ => vec![],
    };
    NodeTerm { labels: vec![LabelRule { key: GENERATION.into(), test }], names }
}
