//! Machines that were bought for a gang are kept for it: they have its taint, which its pods tolerate and no others
//! do.
//!
//! Only the planner adds the toleration: pods do not write it, so a gang's pods are like those of others as long as
//! nothing is bought for it.

use std::sync::Arc;

use api_types::launch::gang_mark;
use api_types::names::FOR_GANG_TAINT;
use cluster_model::{GangKey, Node, Pod, Toleration};

/// The taint of a gang's machines.
pub fn mark(gang: &GangKey) -> String {
    gang_mark(&gang.namespace, &gang.name)
}

/// The gang that a node is for, as its taint says.
pub fn reserved_for(node: &Node) -> Option<&Arc<str>> {
    node.taints.iter().find(|taint| &*taint.key == FOR_GANG_TAINT).map(|taint| &taint.value)
}

/// The pod may use machines with this mark.
pub fn tolerate(pod: &mut Pod, mark: &str) {
    if pod.tolerations.iter().any(|toleration| is_for(toleration, mark)) {
        return;
    }
    let (key, value) = (Some(FOR_GANG_TAINT.into()), Some(mark.into()));
    pod.tolerations.push(Toleration { key, value, effect: None });
}

fn is_for(toleration: &Toleration, mark: &str) -> bool {
    toleration.key.as_deref() == Some(FOR_GANG_TAINT) && toleration.value.as_deref() == Some(mark)
}
