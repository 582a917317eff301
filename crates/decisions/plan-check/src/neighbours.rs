//! What pods ask of other pods, judged by a walk over all of them: pods that must be near, pods that must not be, an
//! even spread.
//!
//! Kubernetes asks when a pod gets its node, and never again. So what starts is judged one pod after the other, in
//! the order of the plan, together with pods that are there and pods that started before it. What is held is only
//! judged for pods that must not be near: the rest is asked when it lands.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::plan::MemberPlacement;
use cluster_model::{
    ClusterState, LabelSet, Neighbours, Node, NodeName, Operator, Pod, PodKey, PodTerm, Scope, Selector,
    SpreadConstraint,
};

use crate::facts::Facts;
use crate::local::is_selected;
use crate::picture::{Occupant, Picture};
use crate::violation::Violation;

type Placed<'a> = (&'a Pod, &'a NodeName);

/// Whether other pods let a pod go to a node, as things are: all pods with a node count, and held pods do not.
pub fn neighbours_admit(state: &ClusterState, pod: &PodKey, node: &NodeName) -> bool {
    let facts = Facts::read(state);
    let there: Vec<Placed<'_>> =
        facts.pods.values().filter_map(|member| Some((member.pod, member.runs_on()?))).collect();
    facts.pods.get(pod).is_some_and(|member| admit(&facts, &there, member.pod, node))
}

/// Whether a pod may go to a node, given these.
pub(crate) fn admit<'a>(facts: &Facts<'a>, there: &[Placed<'a>], pod: &Pod, to: &NodeName) -> bool {
    let Some(node) = facts.nodes.get(to).copied() else { return false };
    let near = |key: &str| -> Vec<&Pod> {
        let Some(value) = node.labels.get(key) else { return Vec::new() };
        let is_near = |at: &NodeName| facts.nodes.get(at).is_some_and(|it| it.labels.get(key) == Some(value));
        there.iter().filter(|(_, at)| is_near(at)).map(|(pod, _)| *pod).collect()
    };
    let kept_away =
        there.iter().any(|(other, at)| anti_affinity(other).any(|term| keeps_away(facts, term, at, pod, to)));
    let nothing = Neighbours::default();
    let asks = pod.neighbours.as_deref().unwrap_or(&nothing);
    let strangers = asks.anti_affinity.iter().any(|term| {
        near(&term.topology_key).into_iter().any(|other| is_asked_for(facts, &term.scope, other))
    });
    !kept_away
        && !strangers
        && (asks.affinity.is_empty() || friends_are_near(facts, there, pod, node, &asks.affinity))
        && asks.spread.iter().all(|constraint| is_even(facts, there, pod, node, &asks.spread, constraint))
}

/// One pod that all terms select is near in each respect; or there is none anywhere, and the pod itself is one of
/// them.
fn friends_are_near<'a>(
    facts: &Facts<'a>,
    there: &[Placed<'a>],
    pod: &Pod,
    node: &Node,
    terms: &[PodTerm],
) -> bool {
    let is_friend = |other: &Pod| terms.iter().all(|term| is_asked_for(facts, &term.scope, other));
    let label = |at: &NodeName, key: &str| facts.nodes.get(at).and_then(|node| node.labels.get(key));
    let friends: Vec<&NodeName> =
        there.iter().filter(|(other, _)| is_friend(other)).map(|(_, at)| *at).collect();
    if !terms.iter().all(|term| node.labels.contains_key(&term.topology_key)) {
        return false;
    }
    let near = |term: &PodTerm| {
        let key = &term.topology_key;
        friends.iter().any(|at| label(at, key).is_some() && label(at, key) == node.labels.get(key))
    };
    let counts = |at: &&&NodeName| terms.iter().any(|term| label(at, &term.topology_key).is_some());
    terms.iter().all(near) || (friends.iter().find(counts).is_none() && is_friend(pod))
}

/// With the pod on the node, no domain that counts has more than `skew_max` more than the emptiest.
fn is_even<'a>(
    facts: &Facts<'a>,
    there: &[Placed<'a>],
    pod: &Pod,
    node: &Node,
    all: &[SpreadConstraint],
    constraint: &SpreadConstraint,
) -> bool {
    let key = &constraint.topology_key;
    let Some(here) = node.labels.get(key) else { return false };
    let mut domains: BTreeMap<&str, u32> = BTreeMap::new();
    for (name, node) in &facts.nodes {
        if !all.iter().all(|it| node.labels.contains_key(&it.topology_key)) || !counts(constraint, node, pod)
        {
            continue;
        }
        let is_alike = |(other, at): &&Placed<'a>| {
            at == name
                && !other.terminating
                && other.key.namespace == pod.key.namespace
                && constraint.selector.as_ref().is_some_and(|selector| {
                    !selector.requirements().is_empty() && selects(selector, &other.labels)
                })
        };
        let alike = u32::try_from(there.iter().filter(is_alike).count()).unwrap_or(u32::MAX);
        *domains.entry(&node.labels[key]).or_default() += alike;
    }
    let is_few = domains.len() < constraint.domains_min as usize;
    let fewest = if is_few { 0 } else { domains.values().copied().min().unwrap_or(0) };
    let itself = constraint.selector.as_ref().is_some_and(|selector| selects(selector, &pod.labels));
    let would_have = domains.get(&**here).copied().unwrap_or(0) + u32::from(itself);
    i64::from(would_have) - i64::from(fewest) <= i64::from(constraint.skew_max)
}

/// Whether a node counts for a constraint of a pod.
fn counts(constraint: &SpreadConstraint, node: &Node, pod: &Pod) -> bool {
    let selected = || is_selected(node, pod);
    let tolerated = || node.taints.iter().all(|it| !it.repels() || it.tolerated_by(&pod.tolerations));
    (!constraint.honours_node_affinity || selected()) && (!constraint.honours_node_taints || tolerated())
}

fn anti_affinity(pod: &Pod) -> impl Iterator<Item = &PodTerm> {
    pod.neighbours.iter().flat_map(|asks| &asks.anti_affinity)
}

/// Whether a term of a pod that is at a node keeps another one off a node.
fn keeps_away(facts: &Facts<'_>, term: &PodTerm, at: &NodeName, pod: &Pod, to: &NodeName) -> bool {
    let label = |name: &NodeName| facts.nodes.get(name).and_then(|node| node.labels.get(&term.topology_key));
    label(at).is_some() && label(at) == label(to) && is_shunned(facts, &term.scope, pod)
}

/// Whether a term of a pod that is placed selects one that is there. A selector of namespaces that no labels satisfy
/// selects all of them, as in kube-scheduler.
fn is_asked_for(facts: &Facts<'_>, scope: &Scope, other: &Pod) -> bool {
    let by_labels = |selector: &Selector| {
        let labels = facts.namespaces.get(&other.key.namespace);
        labels.is_some_and(|labels| selects(selector, labels)) || selects(selector, &LabelSet::default())
    };
    is_in_scope(scope, other, by_labels)
}

/// Whether a term of a pod that is there selects one that is placed.
fn is_shunned(facts: &Facts<'_>, scope: &Scope, pod: &Pod) -> bool {
    let none = LabelSet::default();
    let labels = facts.namespaces.get(&pod.key.namespace).copied().unwrap_or(&none);
    is_in_scope(scope, pod, |selector| selects(selector, labels))
}

fn is_in_scope(scope: &Scope, pod: &Pod, is_selected: impl Fn(&Selector) -> bool) -> bool {
    let named = scope.namespaces.iter().any(|name| *name == pod.key.namespace);
    (named || scope.namespace_selector.as_ref().is_some_and(is_selected))
        && scope.selector.as_ref().is_some_and(|selector| selects(selector, &pod.labels))
}

fn selects(selector: &Selector, labels: &LabelSet) -> bool {
    let label = |key: &str| labels.iter().find(|(name, _)| **name == *key).map(|(_, value)| value);
    selector.requirements().iter().all(|it| match (it.operator, label(&it.key)) {
        (Operator::In, Some(value)) => it.values.contains(value),
        (Operator::NotIn, Some(value)) => !it.values.contains(value),
        (Operator::In | Operator::Exists, None) | (Operator::DoesNotExist, Some(_)) => false,
        (Operator::Exists, Some(_)) | (Operator::NotIn | Operator::DoesNotExist, None) => true,
    })
}

/// What starts does so where its neighbours let it, one after the other.
pub(crate) fn neighbours_let_them_start<'a>(
    facts: &Facts<'a>,
    before: &Picture<'a>,
    starts: impl Iterator<Item = &'a MemberPlacement>,
    violations: &mut Vec<Violation>,
) {
    let mut there: Vec<Placed<'a>> = before.occupants().map(|(at, it)| (it.pod, at)).collect();
    let mut others_ask = there.iter().any(|(pod, _)| anti_affinity(pod).next().is_some());
    for member in starts {
        let Some(pod) = facts.pods.get(&member.pod).map(|known| known.pod) else { continue };
        let is_asked = others_ask || pod.neighbours.is_some();
        if is_asked && !admit(facts, &there, pod, &member.node) {
            violations.push(Violation::NeighboursForbid(member.pod.clone(), member.node.clone()));
        }
        others_ask |= anti_affinity(pod).next().is_some();
        there.push((pod, &member.node));
    }
}

/// No pod is where another one keeps it away, whichever of the two is new.
pub(crate) fn pods_keep_apart<'a>(
    facts: &Facts<'a>,
    picture: &Picture<'a>,
    is_judged: &dyn Fn(&Occupant<'a>) -> bool,
    violations: &mut Vec<Violation>,
) {
    let label = |name: &NodeName, key: &str| facts.nodes.get(name).and_then(|node| node.labels.get(key));
    let all: Vec<(&NodeName, &Occupant<'a>)> = picture.occupants().collect();
    let mut found = BTreeSet::new();
    for (at, asks) in &all {
        for term in anti_affinity(asks.pod) {
            let value = label(at, &term.topology_key);
            for (other_at, other) in &all {
                let is_one = other.pod.key == asks.pod.key;
                let concerned = is_judged(asks) || is_judged(other);
                let means = if other.is_new { is_shunned } else { is_asked_for };
                if value.is_some()
                    && !is_one
                    && concerned
                    && value == label(other_at, &term.topology_key)
                    && means(facts, &term.scope, other.pod)
                {
                    found.insert((asks.pod.key.clone(), other.pod.key.clone()));
                }
            }
        }
    }
    violations.extend(found.into_iter().map(|(pod, other)| Violation::NotApart { pod, other }));
}
