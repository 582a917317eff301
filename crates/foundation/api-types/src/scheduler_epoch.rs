//! `SchedulerEpoch`: which process may schedule. The fence, an admission policy, compares the writes of the
//! scheduler's identity with its holder, and binds with a selector that has its epoch; see
//! `docs/decisions/0002-fence.md`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube_derive::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::names::EPOCH_LABEL;

/// The one leader of the scheduler. The epoch only grows, so a former leader cannot take it back.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "warpyard.dev",
    version = "v1alpha1",
    kind = "SchedulerEpoch",
    plural = "schedulerepochs",
    doc = "Names the scheduler that may write. The fence's admission policy reads it.",
    category = "warpyard",
    printcolumn(name = "Epoch", type_ = "integer", json_path = ".spec.epoch"),
    printcolumn(name = "Holder", type_ = "string", json_path = ".spec.holder"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = Rule::new("self.epoch > oldSelf.epoch").message("the epoch only grows: read the object again and publish a larger one"))]
#[serde(rename_all = "camelCase")]
pub struct SchedulerEpochSpec {
    /// Grows with every change of leader.
    #[schemars(range(min = 1))]
    pub epoch: i64,
    /// UID of the leader's pod, as its token says.
    #[schemars(length(min = 1, max = 128))]
    pub holder: String,
}

/// The merge patch that opens the fence of binds for an epoch: from then on it examines only binds of other epochs.
/// It is refused if the fence was written since this version was read. Without a version it is always refused.
pub fn opening(epoch: i64, version: Option<&str>) -> Json {
    json!({
        "metadata": { "resourceVersion": version },
        "spec": { "matchResources": { "objectSelector": other_epochs(epoch) } },
    })
}

/// Selects the binds of every epoch but this one.
pub fn other_epochs(epoch: i64) -> LabelSelector {
    let other = LabelSelectorRequirement {
        key: EPOCH_LABEL.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![epoch.to_string()]),
    };
    LabelSelector { match_expressions: Some(vec![other]), match_labels: None }
}
