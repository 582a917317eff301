//! Writes what a node agent would write when the cloud takes back its machine (decision 0036). No agent runs on
//! a fake node.

use api_types::names;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::Error;

/// Karpenter and the controller-manager write taints too; each change of theirs costs one try.
const TRIES_MAX: u32 = 20;

/// Marks a Node whose machine will be gone at this time.
pub(super) async fn write(client: &Client, name: &str, at: Timestamp) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let failed = |source| Error::Kube { what: format!("announce the end of {name}"), source };
    let mut tries = 0;
    loop {
        let node = nodes.get(name).await.map_err(failed)?;
        let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        taints.retain(|taint| taint.key != names::LEAVING_TAINT);
        taints.push(Taint {
            key: names::LEAVING_TAINT.into(),
            value: Some(names::LEAVING_SPOT.into()),
            effect: "NoSchedule".into(),
            ..Taint::default()
        });
        let patch = json!({
            "metadata": {
                "resourceVersion": node.resource_version(),
                "annotations": { names::LEAVING_AT_ANNOTATION: at.to_string() },
            },
            "spec": { "taints": taints },
        });
        tries += 1;
        match nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => break,
            Err(kube::Error::Api(refused)) if refused.is_conflict() && tries < TRIES_MAX => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let now = Timestamp::now().to_string();
    let condition = json!({ "status": { "conditions": [{
        "type": names::NODE_NOTICE_CONDITION,
        "status": "True",
        "reason": "SpotInterruption",
        "message": format!("The cloud takes the machine back, by {at}. Nothing new is placed here."),
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }] } });
    nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(condition)).await.map_err(failed)?;
    Ok(())
}
