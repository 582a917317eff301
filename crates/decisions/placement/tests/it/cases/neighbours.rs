//! Random labels, and what pods ask of others by them: few values, so that they meet.

use std::sync::Arc;

use cluster_model::{
    LabelSet, Neighbours, Operator, PodTerm, Requirement, Scope, Selector, SpreadConstraint,
};

use super::random::Random;

pub fn labels(random: &mut Random) -> LabelSet {
    let app = random.some(60, |random| ("app", random.pick(&["web", "db"])));
    let tier = random.some(30, |random| ("tier", random.pick(&["one", "two"])));
    app.into_iter().chain(tier).collect()
}

pub fn neighbours(random: &mut Random) -> Neighbours {
    let many = |random: &mut Random| random.pick(&[1, 1, 1, 2]);
    let terms = |random: &mut Random, percent| -> Vec<PodTerm> {
        let count = if random.chance(percent) { many(random) } else { 0 };
        (0..count).map(|_| term(random)).collect()
    };
    let affinity = terms(random, 30);
    let anti_affinity = terms(random, 50);
    let constraints = if random.chance(40) { many(random) } else { 0 };
    Neighbours { affinity, anti_affinity, spread: (0..constraints).map(|_| constraint(random)).collect() }
}

fn topology_key(random: &mut Random) -> Arc<str> {
    random.pick(&["host", "host", "rack", "rack", "zone"]).into()
}

fn selector(random: &mut Random) -> Option<Selector> {
    if random.chance(4) {
        return None;
    }
    let count = random.pick(&[0, 1, 1, 1, 1, 1, 2]);
    Some(Selector::new((0..count).map(|_| requirement(random))))
}

fn requirement(random: &mut Random) -> Requirement {
    let operators = [Operator::In, Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist];
    let operator = random.pick(&operators);
    let (key, value) = random.pick(&[("app", "web"), ("app", "web"), ("app", "db"), ("tier", "one")]);
    let values = match operator {
        Operator::In | Operator::NotIn => vec![value.into()],
        Operator::Exists | Operator::DoesNotExist => Vec::new(),
    };
    Requirement { key: key.into(), operator, values }
}

fn term(random: &mut Random) -> PodTerm {
    let scope = Scope {
        selector: selector(random),
        namespaces: if random.chance(80) { ["team".into()].into() } else { ["other".into()].into() },
        namespace_selector: random.some(10, |_| Selector::default()),
    };
    PodTerm { scope, topology_key: topology_key(random) }
}

fn constraint(random: &mut Random) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: topology_key(random),
        skew_max: random.count(1, 2),
        selector: selector(random),
        domains_min: random.pick(&[1, 1, 1, 2, 4]),
        honours_node_affinity: random.chance(80),
        honours_node_taints: random.chance(30),
    }
}
