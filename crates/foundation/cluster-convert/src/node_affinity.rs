//! What a pod requires of its node's labels and name.
//!
//! An alternative that Kubernetes could not read matches no node, so it is left out here.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster_model::{LabelRule, LabelTest, NameRule, NodeAffinity, NodeTerm};
use slim_objects::{SlimNodeRule, SlimNodeTerm, SlimPod};

/// The only field of a node that rules may name.
const NAME_FIELD: &str = "metadata.name";
/// The most characters of a label's value.
const LABEL_VALUE_MAX: usize = 63;

/// The rules of a pod, if it has any.
pub(crate) fn node_affinity(pod: &SlimPod) -> Option<Arc<NodeAffinity>> {
    let required = pod.spec.affinity.node_affinity.required.as_ref()?;
    let terms = required.node_selector_terms.iter().filter_map(term).collect();
    Some(Arc::new(NodeAffinity { terms }))
}

fn term(slim: &SlimNodeTerm) -> Option<NodeTerm> {
    if slim.match_expressions.is_empty() && slim.match_fields.is_empty() {
        return None;
    }
    let labels = slim.match_expressions.iter().map(label_rule).collect::<Option<_>>()?;
    let names = slim.match_fields.iter().map(name_rule).collect::<Option<_>>()?;
    Some(NodeTerm { labels, names })
}

fn label_rule(slim: &SlimNodeRule) -> Option<LabelRule> {
    if !slim.values.iter().all(|value| is_label_value(value)) {
        return None;
    }
    let values = || -> BTreeSet<Arc<str>> { slim.values.iter().map(|value| value.as_str().into()).collect() };
    let test = match (slim.operator.as_str(), slim.values.as_slice()) {
        ("In", [_, ..]) => LabelTest::In(values()),
        ("NotIn", [_, ..]) => LabelTest::NotIn(values()),
        ("Exists", []) => LabelTest::Exists,
        ("DoesNotExist", []) => LabelTest::DoesNotExist,
        ("Gt", [bound]) => LabelTest::Above(bound.parse().ok()?),
        ("Lt", [bound]) => LabelTest::Below(bound.parse().ok()?),
        _ => return None,
    };
    Some(LabelRule { key: slim.key.as_str().into(), test })
}

fn name_rule(slim: &SlimNodeRule) -> Option<NameRule> {
    match (slim.key.as_str(), slim.operator.as_str(), slim.values.as_slice()) {
        (NAME_FIELD, "In", [name]) => Some(NameRule::Is(name.as_str().into())),
        (NAME_FIELD, "NotIn", [name]) => Some(NameRule::IsNot(name.as_str().into())),
        _ => None,
    }
}

/// Whether a text can be the value of a label. Kubernetes does not read a rule with any other text.
fn is_label_value(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_outer = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    text.len() <= LABEL_VALUE_MAX
        && text.bytes().all(is_inner)
        && is_outer(text.bytes().next())
        && is_outer(text.bytes().last())
}
