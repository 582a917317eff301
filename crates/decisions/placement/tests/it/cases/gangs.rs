//! Random gangs with all their terms.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_model::{
    DeviceAsk, EvictionTerms, GangKey, GroupTerms, Level, MigProfile, Pod, PodKey, QueueName, Resources,
    Segment, Spread, Terms, Toleration, TopologyTerms,
};
use jiff::Timestamp;

use super::cluster::{GPU_TYPES, LABEL, TAINT};
use super::neighbours;
use super::random::Random;

/// A gang that waits, created before `now`.
pub fn gang(random: &mut Random, name: &str, queues: &[QueueName], now: Timestamp) -> Vec<Pod> {
    let members = random.pick(&[1, 1, 1, 2, 2, 3, 4, 6]);
    let terms = Arc::new(terms(random, members, now));
    let least =
        if terms.members_max.is_some() || random.chance(10) { random.count(1, members) } else { members };
    let gang_size = random.some(85, |_| least).or_else(|| (members > 1).then_some(least));
    let lead = lead(random, &terms, queues, now);
    let groups: Vec<Arc<str>> = terms.groups.keys().cloned().collect();
    let mut pods: Vec<Pod> = (0..members)
        .map(|index| {
            let group = groups.get(index as usize % (groups.len() + 1)).cloned();
            Pod {
                key: PodKey::new("team", format!("{name}-{index}"), format!("{name}-{index}")),
                gang: GangKey::new("team", name),
                gang_size,
                member_index: Some(index),
                group,
                ..lead.clone()
            }
        })
        .collect();
    if members > 1 && random.chance(12) {
        // A leader that needs other things than its workers.
        pods[0].requests.gpus = 0;
        pods[0].requests.cpu_millis *= 2;
        pods[0].device = DeviceAsk::Whole;
    }
    if members > 1 && random.chance(5) {
        pods.pop();
    }
    pods
}

fn lead(random: &mut Random, terms: &Arc<Terms>, queues: &[QueueName], now: Timestamp) -> Pod {
    let (device, gpus) = device(random);
    let waited = random.pick(&[0, 10, 100, 400, 5_000]);
    let queue = if random.chance(2) { "nowhere".into() } else { pick(random, queues) };
    let toleration = Toleration { key: Some(TAINT.into()), value: None, effect: None };
    Pod {
        queue: Some(queue),
        requests: Resources {
            gpus,
            cpu_millis: random.between(0, 4) * 1000,
            memory_bytes: random.between(0, 4) << 30,
            pods: 1,
        },
        gpu_types: match random.between(0, 9) {
            0..=4 => vec![],
            5..=6 => vec![GPU_TYPES[0].into()],
            7 => vec![GPU_TYPES[1].into()],
            _ => GPU_TYPES.map(Into::into).to_vec(),
        },
        priority: random.pick(&[0, 0, 1, 2, 1000, 2000]),
        created: before(now, waited),
        node_selector: if random.chance(8) { [(LABEL.0.into(), LABEL.1.into())].into() } else { [].into() },
        tolerations: if random.chance(40) { vec![toleration] } else { vec![] },
        unsupported: if random.chance(2) { vec!["spec.odd".to_owned()] } else { vec![] },
        gated: random.chance(2),
        terms: terms.clone(),
        device,
        labels: neighbours::labels(random),
        neighbours: random.some(12, neighbours::neighbours).map(Arc::new),
        ..Pod::new(PodKey::new("team", "", ""), GangKey::new("team", ""))
    }
}

fn pick(random: &mut Random, queues: &[QueueName]) -> QueueName {
    let last = u32::try_from(queues.len()).expect("a few queues") - 1;
    queues[random.count(0, last) as usize].clone()
}

pub fn before(now: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::from_second(now.as_second() - seconds).expect("in range")
}

fn device(random: &mut Random) -> (DeviceAsk, i64) {
    match random.between(0, 19) {
        0..=1 => (DeviceAsk::Share { millis: random.pick(&[100, 250, 500, 700]) }, 0),
        2..=3 => (DeviceAsk::Mig { profile: random.pick(&MigProfile::ALL) }, 0),
        4 => (DeviceAsk::Whole, 0),
        _ => (DeviceAsk::Whole, random.pick(&[1, 1, 1, 2, 2, 4])),
    }
}

fn terms(random: &mut Random, members: u32, now: Timestamp) -> Terms {
    if random.chance(35) {
        return Terms::default();
    }
    let groups = if members > 1 && random.chance(15) { groups(random, members) } else { BTreeMap::new() };
    let members_max = random.some(12, |random| random.count(1, members));
    Terms {
        members_max,
        groups,
        topology: topology(random, members, 25),
        time_limit_seconds: random.some(40, |random| random.count(1, 5_000)),
        deadline: random.some(15, |random| before(now, -random.between(1, 10_000))),
        eviction: EvictionTerms { never: random.chance(12), checkpoints: random.chance(50) },
        spread: random
            .some(10, |random| Spread { level: random.some(60, level), skew_max: random.count(1, 2) }),
        takes_spot: random.chance(30),
        buys_spot: false,
        max_price_micros: None,
    }
}

fn level(random: &mut Random) -> Level {
    Level(random.pick(&[0, 0, 1, 2]))
}

fn topology(random: &mut Random, members: u32, percent: i64) -> TopologyTerms {
    TopologyTerms {
        required: random.some(percent, level),
        preferred: random.some(percent / 2, level),
        segment: random
            .some(percent / 2, |random| Segment { members: random.count(1, members), level: level(random) }),
    }
}

/// One or two groups, the second perhaps within the first.
fn groups(random: &mut Random, members: u32) -> BTreeMap<Arc<str>, GroupTerms> {
    let mut group = |parent: Option<&str>| GroupTerms {
        parent: parent.map(Into::into),
        members_min: random.some(40, |random| random.count(1, members.div_ceil(3))),
        topology: topology(random, members, 25),
    };
    let first = group(None);
    let second = group(Some("first"));
    let beside = group(None);
    match random.between(0, 2) {
        0 => [("first".into(), first)].into(),
        1 => [("first".into(), first), ("second".into(), second)].into(),
        _ => [("first".into(), first), ("second".into(), beside)].into(),
    }
}
