//! Makes random clusters that are small enough for rules to meet: three values of everything, a few nodes, a
//! few pods on each.
//!
//! Each seed turns some of the features on: one to three of them, so that a single rule decides often, or many, so that
//! they meet. Objects should be valid; the oracle knows the API server's checks and reports those that are not.

mod containers;
mod neighbours;
mod node;
pub(crate) mod pod;
mod selectors;

use serde_json::{Value, json};

use crate::case::Case;
use crate::random::Random;

/// What a case may contain beyond plain pods on plain nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feature {
    Unschedulable,
    Taints,
    NodeSelector,
    NodeAffinity,
    Ports,
    Requests,
    OddQuantities,
    OtherResources,
    FewPods,
    InitContainers,
    Overhead,
    PodLevel,
    Resize,
    Affinity,
    AntiAffinity,
    Spread,
    Namespaces,
    Terminating,
    Ended,
    MissingNodes,
    MissingLabels,
    Gates,
    DeclaredFeatures,
}

const FEATURES: [Feature; 23] = [
    Feature::Unschedulable,
    Feature::Taints,
    Feature::NodeSelector,
    Feature::NodeAffinity,
    Feature::Ports,
    Feature::Requests,
    Feature::OddQuantities,
    Feature::OtherResources,
    Feature::FewPods,
    Feature::InitContainers,
    Feature::Overhead,
    Feature::PodLevel,
    Feature::Resize,
    Feature::Affinity,
    Feature::AntiAffinity,
    Feature::Spread,
    Feature::Namespaces,
    Feature::Terminating,
    Feature::Ended,
    Feature::MissingNodes,
    Feature::MissingLabels,
    Feature::Gates,
    Feature::DeclaredFeatures,
];

/// Rules on other pods have the most fields, so they get more cases.
const NEIGHBOURS: [Feature; 4] = [Feature::Affinity, Feature::AntiAffinity, Feature::Spread, Feature::Spread];

/// Features that affect a pod's total requests.
const ADDED_UP: [Feature; 4] =
    [Feature::InitContainers, Feature::Overhead, Feature::PodLevel, Feature::Resize];

/// Makes a case.
struct Maker {
    random: Random,
    features: Vec<Feature>,
    nodes: usize,
}

/// The case of a seed.
pub fn generate(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let features = choose_features(&mut random);
    let nodes = random.count(1, 8);
    let mut make = Maker { random, features, nodes };
    let others = make.random.count(0, 20);
    Case {
        namespaces: NAMESPACES.into_iter().map(namespace).collect(),
        nodes: (0..nodes).map(|number| make.node(number)).collect(),
        pods: (0..others).map(|number| make.other_pod(number)).collect(),
        pod: make.waiting_pod(),
    }
}

fn choose_features(random: &mut Random) -> Vec<Feature> {
    let many = match random.count(0, 9) {
        0..=5 => random.count(1, 3),
        6..=8 => random.count(4, 8),
        _ => FEATURES.len() - 2,
    };
    let mut features = Vec::new();
    while features.len() < many {
        let feature = if random.chance(25) { random.pick(&NEIGHBOURS) } else { random.pick(&FEATURES) };
        // A gate decides about all nodes at once, and hides all other rules.
        let is_rare = matches!(feature, Feature::Gates) && random.chance(80);
        if !features.contains(&feature) && !is_rare {
            features.push(feature);
        }
    }
    // A pod without requests does not test how amounts are added up.
    if features.iter().any(|feature| ADDED_UP.contains(feature)) && !features.contains(&Feature::Requests) {
        features.push(Feature::Requests);
    }
    features
}

/// Namespaces, with a label to select them by.
const NAMESPACES: [(&str, &str); 3] = [("one", "red"), ("two", "red"), ("three", "blue")];

fn namespace((name, team): (&str, &str)) -> Value {
    json!({"metadata": {"name": name, "labels": {"team": team}}})
}

impl Maker {
    fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Whether a feature is on, and is used here.
    fn uses(&mut self, feature: Feature, percent: usize) -> bool {
        self.has(feature) && self.random.chance(percent)
    }

    /// Usually the same namespace, so that pods see each other.
    fn namespace(&mut self) -> &'static str {
        if self.uses(Feature::Namespaces, 60) { self.random.pick(&NAMESPACES).0 } else { NAMESPACES[0].0 }
    }
}

/// Sets a field of an object, unless the value is null.
fn put(object: &mut Value, field: &str, value: Value) {
    let is_nothing = match &value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if !is_nothing {
        object[field] = value;
    }
}
