//! From what was found, and what the Node says now, to what the Node shall say. Pure: the time is an argument.

mod gpu;
mod notice;

use std::collections::BTreeMap;

use api_types::names::{
    GPU_FAULTS_ANNOTATION, GPU_HEALTHY_CONDITION, GPU_RESOURCE, GPU_SICK_TAINT, LEAVING_AT_ANNOTATION,
    LEAVING_TAINT, NODE_NOTICE_CONDITION,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::finding::{Fault, Notice, View};

/// Nothing new comes to a machine in trouble. What runs there is stopped by those who can save its work first.
const EFFECT: &str = "NoSchedule";

/// Everything that is known of the machine. What is not watched is `None`, and what the Node says about it is left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What the cloud announced.
    pub notices: Option<View<Notice>>,
    /// What ails the GPUs.
    pub faults: Option<View<Fault>>,
    /// The machine's life, from one boot to the next.
    pub boot: String,
}

/// What is to be changed on the Node; nothing that stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// All taints, those of others among them.
    pub taints: Option<Vec<Taint>>,
    /// Annotations to set, or to remove.
    pub annotations: BTreeMap<&'static str, Option<String>>,
    /// Conditions to set; others stay.
    pub conditions: Vec<NodeCondition>,
}

impl Change {
    /// Whether the Node says all that it should.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is to be said about one topic.
#[derive(Debug, PartialEq, Eq)]
struct Words {
    taint: Option<&'static str>,
    annotation: Option<String>,
    condition: Option<Condition>,
}

#[derive(Debug, PartialEq, Eq)]
struct Condition {
    status: &'static str,
    reason: &'static str,
    message: String,
}

/// What the Node says now about one topic.
#[derive(Clone, Copy)]
struct Said<'a> {
    taint: Option<&'a str>,
    annotation: Option<&'a str>,
}

impl Said<'_> {
    /// Whether somebody else put the taint there: we never do without the annotation.
    fn is_by_others(&self) -> bool {
        self.taint.is_some() && self.annotation.is_none()
    }
}

/// One thing that a Node tells by a taint, an annotation and a condition.
struct Topic {
    taint: &'static str,
    annotation: &'static str,
    condition: &'static str,
}

const LEAVING: Topic =
    Topic { taint: LEAVING_TAINT, annotation: LEAVING_AT_ANNOTATION, condition: NODE_NOTICE_CONDITION };
const GPU: Topic =
    Topic { taint: GPU_SICK_TAINT, annotation: GPU_FAULTS_ANNOTATION, condition: GPU_HEALTHY_CONDITION };

/// What to change on the Node. A machine leaves for maintenance from `lead` before it begins.
pub fn decide(node: &Node, seen: &Seen, lead: SignedDuration, now: Timestamp) -> Change {
    let mut change = Change::default();
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

    /// With another effect it is somebody else's.
    fn is_ours(&self, taint: &Taint) -> bool {
        taint.key == self.taint && taint.effect == EFFECT
    }

    /// Adds what differs from what the Node says.
    fn put(&self, node: &Node, words: Words, now: Timestamp, change: &mut Change) {
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

    /// The same taints but for ours, in their order.
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
