//! Writes to our own Node.

use api_types::names::NODE_AGENT_FIELD_MANAGER;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::policy::NodePatch;

/// Writes a change that was decided from `read`: first the taints and annotations that others act on, then the
/// conditions that people read.
///
/// Taints are one list, of which we own a part. So they are written only to the version of the Node that was
/// read: if it changed since, the API server answers with a conflict, and the Node is read and decided anew.
pub async fn write(nodes: &Api<Node>, read: &Node, change: &NodePatch) -> kube::Result<()> {
    let params =
        PatchParams { field_manager: Some(NODE_AGENT_FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let name = read.name_any();
    if change.taints.is_some() || !change.annotations.is_empty() {
        nodes.patch(&name, &params, &Patch::Merge(taints_and_annotations(read, change))).await?;
    }
    if !change.conditions.is_empty() {
        // Conditions are merged by type, so that those of others stay.
        let conditions = json!({ "status": { "conditions": change.conditions } });
        nodes.patch_status(&name, &params, &Patch::Strategic(conditions)).await?;
    }
    Ok(())
}

/// Whether another writer wrote at the same time.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn taints_and_annotations(read: &Node, change: &NodePatch) -> Value {
    let mut patch = json!({ "metadata": { "resourceVersion": read.resource_version() } });
    if !change.annotations.is_empty() {
        patch["metadata"]["annotations"] = json!(change.annotations);
    }
    if let Some(taints) = &change.taints {
        patch["spec"]["taints"] = json!(taints);
    }
    patch
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::Taint;
    use kube::api::ObjectMeta;

    use super::*;

    #[test]
    fn a_patch_holds_for_one_version_and_only_what_changes() {
        let read = Node {
            metadata: ObjectMeta { resource_version: Some("7".into()), ..ObjectMeta::default() },
            ..Node::default()
        };
        let annotations = BTreeMap::from([("a", None), ("b", Some("c".to_owned()))]);
        let mut change = NodePatch { annotations, ..NodePatch::default() };
        assert_eq!(
            taints_and_annotations(&read, &change),
            json!({ "metadata": { "resourceVersion": "7", "annotations": { "a": null, "b": "c" } } })
        );
        change.annotations.clear();
        change.taints =
            Some(vec![Taint { key: "k".into(), effect: "NoSchedule".into(), ..Taint::default() }]);
        assert_eq!(
            taints_and_annotations(&read, &change),
            json!({
                "metadata": { "resourceVersion": "7" },
                "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] },
            })
        );
    }
}
