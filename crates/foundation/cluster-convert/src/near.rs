//! What pods ask of other pods, and the labels that they are selected by.

use std::sync::Arc;

use cluster_model::{
    ClusterChange, LabelSet, Neighbours, Operator, PodTerm, Requirement, Scope, Selector, SpreadConstraint,
};
use slim_objects::requests::quoted;
use slim_objects::{
    SlimExpression, SlimLabelSelector, SlimNamespace, SlimPod, SlimPodTerm, SlimSpreadConstraint,
};

/// The cluster change for a namespace that was seen.
pub fn namespace_change(namespace: &SlimNamespace) -> ClusterChange {
    ClusterChange::Namespace { name: name(namespace), labels: labels(namespace.metadata.labels.as_ref()) }
}

/// The cluster change for a namespace that was deleted.
pub fn namespace_gone(namespace: &SlimNamespace) -> ClusterChange {
    ClusterChange::NamespaceGone(name(namespace))
}

fn name(namespace: &SlimNamespace) -> Arc<str> {
    namespace.metadata.name.as_deref().unwrap_or_default().into()
}

/// A pod's labels.
pub(crate) fn pod_labels(pod: &SlimPod) -> LabelSet {
    labels(pod.metadata.labels.as_ref())
}

fn labels(labels: Option<&std::collections::BTreeMap<String, String>>) -> LabelSet {
    labels.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// What a pod asks of others; what cannot be read is added to `unsupported`.
pub(crate) fn neighbours(pod: &SlimPod, unsupported: &mut Vec<String>) -> Option<Arc<Neighbours>> {
    let affinity = &pod.spec.affinity;
    let mut terms = |terms: &[SlimPodTerm], field: &str| {
        let read = terms.iter().map(|term| pod_term(pod, term)).collect::<Result<_, _>>();
        read.unwrap_or_else(|problem| {
            unsupported.push(format!("{field}: {problem}"));
            Vec::new()
        })
    };
    let wanted = terms(&affinity.pod_affinity.required, "spec.affinity.podAffinity");
    let avoided = terms(&affinity.pod_anti_affinity.required, "spec.affinity.podAntiAffinity");
    let constraints = pod.spec.topology_spread_constraints.iter();
    let hard = constraints.filter(|it| it.when_unsatisfiable.as_deref() != Some("ScheduleAnyway"));
    let spread = hard.map(|it| spread_constraint(pod, it)).collect::<Result<_, _>>();
    let spread = spread.unwrap_or_else(|problem| {
        unsupported.push(format!("spec.topologySpreadConstraints: {problem}"));
        Vec::new()
    });
    let neighbours = Neighbours { affinity: wanted, anti_affinity: avoided, spread };
    (!neighbours.is_empty()).then(|| Arc::new(neighbours))
}

/// Without namespaces and without a selector of namespaces, the pod's own namespace is meant.
fn pod_term(pod: &SlimPod, term: &SlimPodTerm) -> Result<PodTerm, String> {
    let own = pod.metadata.namespace.as_deref();
    let is_own = term.namespaces.is_empty() && term.namespace_selector.is_none();
    let namespaces = term.namespaces.iter().map(String::as_str).chain(own.filter(|_| is_own));
    Ok(PodTerm {
        scope: Scope {
            selector: term.label_selector.as_ref().map(selector).transpose()?,
            namespaces: namespaces.map(Into::into).collect(),
            namespace_selector: term.namespace_selector.as_ref().map(selector).transpose()?,
        },
        topology_key: term.topology_key.as_str().into(),
    })
}

fn spread_constraint(pod: &SlimPod, slim: &SlimSpreadConstraint) -> Result<SpreadConstraint, String> {
    let own = pod_labels(pod);
    // From version 1.34 on the API server merges these too. Merging them twice does no harm.
    let keys = slim.match_label_keys.iter();
    let merged = keys.filter_map(|key| Some(Requirement::is(key.as_str(), own.get(key)?.clone())));
    let selector = slim.label_selector.as_ref().map(selector).transpose()?;
    let with_keys = |it: Selector| Selector::new(it.requirements().iter().cloned().chain(merged));
    let honours = |policy: &Option<String>, default| policy.as_deref().map_or(default, |it| it == "Honor");
    Ok(SpreadConstraint {
        topology_key: slim.topology_key.as_str().into(),
        skew_max: u32::try_from(slim.max_skew).unwrap_or(0),
        selector: selector.map(with_keys),
        domains_min: slim.min_domains.map_or(1, |domains| u32::try_from(domains).unwrap_or(0)),
        honours_node_affinity: honours(&slim.node_affinity_policy, true),
        honours_node_taints: honours(&slim.node_taints_policy, false),
    })
}

pub(crate) fn selector(slim: &SlimLabelSelector) -> Result<Selector, String> {
    let labels = slim.match_labels.iter();
    let labels = labels.map(|(key, value)| Ok(Requirement::is(key.as_str(), value.as_str())));
    let all = labels.chain(slim.match_expressions.iter().map(requirement));
    Ok(Selector::new(all.collect::<Result<Vec<_>, String>>()?))
}

fn requirement(slim: &SlimExpression) -> Result<Requirement, String> {
    let operator = match slim.operator.as_str() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => return Err(format!("operator {}", quoted(other))),
    };
    let asks_values = matches!(operator, Operator::In | Operator::NotIn);
    if asks_values == slim.values.is_empty() {
        return Err(format!("operator {} with {} values", slim.operator, slim.values.len()));
    }
    let values = slim.values.iter().map(|value| value.as_str().into()).collect();
    Ok(Requirement { key: slim.key.as_str().into(), operator, values })
}
