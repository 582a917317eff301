//! Random nodes and queues: small, so that everything is scarce.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_model::{
    Amounts, BankTerms, Node, Power, Queue, QueueName, Reclaim, Resources, Taint, TaintEffect, Tier,
};

use super::random::Random;

pub const GPU_TYPES: [&str; 2] = ["H100", "L4"];
pub const TAINT: &str = "warpyard.dev/gpu";
pub const LABEL: (&str, &str) = ("zone", "a");

/// One to eight nodes in a tree of up to three levels.
pub fn nodes(random: &mut Random) -> Vec<Node> {
    let levels = random.count(0, 3);
    let domains = random.count(1, 3);
    let (exact, types, powered) = (random.chance(40), random.count(1, 2), random.chance(40));
    (0..random.count(1, 8))
        .map(|number| {
            // A node may lack the innermost level.
            let levels = if random.chance(95) { levels } else { levels.saturating_sub(1) };
            let domain = |level| format!("d{level}-{}", random.count(0, domains)).as_str().into();
            let topology = (0..levels).map(domain).collect();
            let mut node = node(random, number, exact, types);
            node.topology = topology;
            if powered {
                let power =
                    Power { idle_watts: random.count(1, 4) * 100, gpu_watts: random.count(1, 7) * 100 };
                node.power = Some(power);
            }
            node
        })
        .collect()
}

fn node(random: &mut Random, number: u32, exact: bool, types: u32) -> Node {
    let is_cpu = random.chance(10);
    let gpus = if is_cpu { 0 } else { random.pick(&[1, 2, 2, 4, 4, 8]) };
    let gpu_type = if types == 1 || random.chance(60) { GPU_TYPES[0] } else { GPU_TYPES[1] };
    let taint = Taint { key: TAINT.into(), value: "".into(), effect: TaintEffect::NoSchedule };
    Node {
        gpu_type: (gpus > 0).then(|| gpu_type.into()),
        allocatable: Resources {
            gpus,
            cpu_millis: random.between(2, 24) * 1000,
            memory_bytes: random.between(8, 64) << 30,
            pods: random.pick(&[2, 5, 110]),
        },
        schedulable: random.chance(95),
        labels: labels(random, number),
        taints: if random.chance(10) { vec![taint] } else { vec![] },
        exact: exact && gpus > 0,
        spot: random.chance(10),
        ..Node::new(format!("n{number}").as_str())
    }
}

/// A zone of some nodes, a rack of most, and the name of each.
fn labels(random: &mut Random, number: u32) -> BTreeMap<Arc<str>, Arc<str>> {
    let zone = random.some(50, |_| (LABEL.0.into(), LABEL.1.into()));
    let rack = random.some(90, |random| ("rack".into(), random.pick(&["1", "2", "3"]).into()));
    zone.into_iter().chain(rack).chain([("host".into(), format!("n{number}").into())]).collect()
}

/// One to five queues in trees. The names are `q0` and so on.
pub fn queues(random: &mut Random) -> Vec<Queue> {
    (0..random.count(1, 5))
        .map(|number| {
            let parent = random.some(70, |random| random.count(0, number.max(1) - 1));
            let parent: Option<QueueName> =
                parent.filter(|_| number > 0).map(|parent| format!("q{parent}").as_str().into());
            queue(random, number, parent)
        })
        .collect()
}

fn queue(random: &mut Random, number: u32, parent: Option<QueueName>) -> Queue {
    let quota = random.some(75, |random| amounts(random, 0, 8));
    let limit = random.some(50, |random| amounts(random, 4, 24));
    let lend = random.some(40, |random| amounts(random, 0, 4));
    Queue {
        parent,
        weight: random.count(1, 3),
        quota,
        limit,
        lend,
        reclaim: Reclaim {
            grace_seconds: random.pick(&[0, 0, 60, 300]),
            min_run_seconds: random.pick(&[0, 0, 100, 900]),
        },
        half_life_seconds: random.pick(&[600, 3600, 604_800]),
        bank: random.some(30, |random| BankTerms {
            earn_millis: random.pick(&[100, 500, 1000]),
            cap_gpu_seconds: random.pick(&[100, 5_000, 100_000]),
        }),
        highest_tier: random.some(10, |random| Tier::of(random.pick(&[0, 1000, 2000]))),
        out_of_budget: random.chance(5),
        namespaces: ["team".into()].into(),
        ..Queue::new(format!("q{number}").as_str())
    }
}

fn amounts(random: &mut Random, least: i64, most: i64) -> Amounts {
    let mut gpus = std::collections::BTreeMap::new();
    for gpu_type in GPU_TYPES {
        if random.chance(75) {
            gpus.insert(gpu_type.into(), random.between(least, most));
        }
    }
    Amounts {
        gpus,
        cpu_millis: random.some(15, |random| random.between(least, most) * 2000),
        memory_bytes: random.some(10, |random| random.between(least, most) << 32),
    }
}
