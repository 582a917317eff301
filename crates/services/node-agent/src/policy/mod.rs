//! Decides changes to the Node from the findings and from the Node as it is. Pure: the time is an argument.

mod gpu;
mod notice;
mod words;

use std::collections::BTreeMap;

use api_types::names::{
    GPU_FAULTS_ANNOTATION, GPU_HEALTHY_CONDITION, GPU_RESOURCE, GPU_SICK_TAINT, LEAVING_AT_ANNOTATION,
    LEAVING_TAINT, NODE_NOTICE_CONDITION,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use self::words::{Condition, Said, Words};
use crate::finding::{GpuFault, Notice, View};

/// A machine in trouble takes no new pods. The controllers stop the running ones, after they have saved.
const EFFECT: &str = "NoSchedule";

/// Everything known about the machine. A field that is not watched is `None`, and its words on the Node stay as
/// they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The notices of the cloud.
    pub notices: Option<View<Notice>>,
    /// The faults of GPUs.
    pub faults: Option<View<GpuFault>>,
    /// The id of the machine's boot.
    pub boot: String,
}

/// The changes to make on the Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePatch {
    /// All taints, including those of others.
    pub taints: Option<Vec<Taint>>,
    /// Annotations to set, or to remove.
    pub annotations: BTreeMap<&'static str, Option<String>>,
    /// Conditions to set; others stay.
    pub conditions: Vec<NodeCondition>,
}

impl NodePatch {
    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A topic that a Node shows by a taint, an annotation and a condition.
struct Topic {
    taint: &'static str,
    annotation: &'static str,
    condition: &'static str,
}

const LEAVING: Topic =
    Topic { taint: LEAVING_TAINT, annotation: LEAVING_AT_ANNOTATION, condition: NODE_NOTICE_CONDITION };
const GPU: Topic =
    Topic { taint: GPU_SICK_TAINT, annotation: GPU_FAULTS_ANNOTATION, condition: GPU_HEALTHY_CONDITION };

/// Decides what to change on the Node. A machine counts as leaving for maintenance from `lead` before it
/// begins.
pub fn decide(node: &Node, seen: &Seen, lead: SignedDuration, now: Timestamp) -> NodePatch {
    let mut change = NodePatch::default();
    if let Some(view) = &seen.notices
        && let Some(words) = notice::words(LEAVING.said(node), view, lead, now)
    {
        LEAVING.put(node, words, now, &mut change);
    }
    if let Some(view) = &seen.faults
        && let Some(words) = gpu::words(GPU.said(node), view, &seen.boot, has_gpus(node))
    {
        GPU.put(node, words, now, &mut change);
    }
    change
}

impl Topic {
    fn said<'a>(&self, node: &'a Node) -> Said<'a> {
        let ours = taints(node).iter().find(|taint| self.is_ours(taint));
        let annotations = node.metadata.annotations.as_ref();
        Said {
            taint: ours.map(|taint| taint.value.as_deref().unwrap_or_default()),
            annotation: annotations.and_then(|all| all.get(self.annotation)).map(String::as_str),
        }
    }

    /// A taint with another effect is not ours.
    fn is_ours(&self, taint: &Taint) -> bool {
        taint.key == self.taint && taint.effect == EFFECT
    }

    /// Adds the differences between the words and the Node.
    fn put(&self, node: &Node, words: Words, now: Timestamp, change: &mut NodePatch) {
        let said = self.said(node);
        if said.taint != words.taint {
            let before = change.taints.as_deref().unwrap_or(taints(node));
            change.taints = Some(self.with_taint(before, words.taint));
        }
        if said.annotation != words.annotation.as_deref() {
            change.annotations.insert(self.annotation, words.annotation);
        }
        let Some(Condition { status, reason, message }) = words.condition else { return };
        let before = conditions(node).iter().find(|condition| condition.type_ == self.condition);
        let is_said = |it: &NodeCondition| {
            it.status == status
                && it.reason.as_deref() == Some(reason)
                && it.message.as_deref() == Some(message.as_str())
        };
        if before.is_some_and(is_said) {
            return;
        }
        let unturned = before.filter(|condition| condition.status == status);
        let turned = unturned.and_then(|condition| condition.last_transition_time.clone());
        change.conditions.push(NodeCondition {
            type_: self.condition.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(turned.unwrap_or(Time(now))),
        });
    }

    /// The taints with ours replaced, in their order.
    fn with_taint(&self, before: &[Taint], value: Option<&str>) -> Vec<Taint> {
        let mut taints: Vec<_> = before.iter().filter(|taint| !self.is_ours(taint)).cloned().collect();
        taints.extend(value.map(|value| Taint {
            key: self.taint.to_owned(),
            value: Some(value.to_owned()),
            effect: EFFECT.to_owned(),
            time_added: None,
        }));
        taints
    }
}

fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

fn conditions(node: &Node) -> &[NodeCondition] {
    node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

fn has_gpus(node: &Node) -> bool {
    let capacity = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    capacity.is_some_and(|capacity| capacity.contains_key(GPU_RESOURCE))
}

#[cfg(test)]
mod tests;
