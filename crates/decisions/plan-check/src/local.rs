//! What a node alone decides: its labels and name, its other resources, its ports.
//!
//! The rules are written again here, from Kubernetes' documentation, so that a mistake in the model's own is found.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster_model::{HostPort, LabelTest, NameRule, Node, NodeAffinity, Pod};

use crate::picture::Occupant;
use crate::violation::Violation;

/// Whether the node has the labels and the name that the pod requires.
pub(crate) fn is_selected(node: &Node, pod: &Pod) -> bool {
    let selected = pod.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    selected && pod.node_affinity.as_deref().is_none_or(|affinity| matches(node, affinity))
}

fn matches(node: &Node, affinity: &NodeAffinity) -> bool {
    for term in &affinity.terms {
        let asks = term.labels.len() + term.names.len();
        let mut met = 0;
        for rule in &term.labels {
            met += usize::from(label_is(node.labels.get(&rule.key), &rule.test));
        }
        for rule in &term.names {
            met += usize::from(match rule {
                NameRule::Is(name) => node.name == *name,
                NameRule::IsNot(name) => node.name != *name,
            });
        }
        if asks > 0 && met == asks {
            return true;
        }
    }
    false
}

fn label_is(label: Option<&Arc<str>>, test: &LabelTest) -> bool {
    let Some(label) = label else {
        return matches!(test, LabelTest::NotIn(_) | LabelTest::DoesNotExist);
    };
    match (test, label.parse::<i64>()) {
        (LabelTest::In(values), _) => values.contains(label),
        (LabelTest::NotIn(values), _) => !values.contains(label),
        (LabelTest::Exists, _) => true,
        (LabelTest::Above(bound), Ok(number)) => number > *bound,
        (LabelTest::Below(bound), Ok(number)) => number < *bound,
        (LabelTest::DoesNotExist | LabelTest::Above(_) | LabelTest::Below(_), _) => false,
    }
}

/// The node has what judged pods ask for of its other resources, and every port belongs to one pod.
pub(crate) fn extras_are_not_over<'a>(
    node: &Node,
    occupants: &[Occupant<'a>],
    is_judged: &dyn Fn(&Occupant<'a>) -> bool,
    violations: &mut Vec<Violation>,
) {
    let judged = || occupants.iter().filter(|occupant| is_judged(occupant));
    let names: BTreeSet<&Arc<str>> =
        judged().flat_map(|occupant| occupant.pod.other_requests.iter()).map(|(name, _)| name).collect();
    for name in names {
        let used: i128 = occupants.iter().map(|it| i128::from(it.pod.other_requests.get(name))).sum();
        let allocatable = node.other_allocatable.get(name);
        if used > i128::from(allocatable) {
            let (node, resource) = (node.name.clone(), name.clone());
            violations.push(Violation::NodeOverOther { node, resource, used, allocatable });
        }
    }
    for one in judged() {
        let others = occupants.iter().filter(|other| other.pod.key != one.pod.key);
        for other in others.filter(|other| meet(one.pod, other.pod)) {
            let (pod, other) = (one.pod.key.clone(), other.pod.key.clone());
            violations.push(Violation::PortTaken { node: node.name.clone(), pod, other });
        }
    }
}

fn meet(one: &Pod, other: &Pod) -> bool {
    let is_wide = |port: &HostPort| &*port.address == "0.0.0.0";
    let same = |one: &HostPort, other: &HostPort| {
        (one.port, &one.protocol) == (other.port, &other.protocol)
            && (is_wide(one) || is_wide(other) || one.address == other.address)
    };
    one.host_ports.iter().any(|port| other.host_ports.iter().any(|taken| same(port, taken)))
}
