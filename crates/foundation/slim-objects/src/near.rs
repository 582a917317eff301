//! What a pod asks of other pods, with only the fields we read. Also namespaces, of which we read the labels.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube_core::ObjectMeta;

use crate::parse::{null_is_default, resource_like, slim_metadata};

/// Pods that must, or must not, be near.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodAffinity {
    /// The hard terms.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "null_is_default")]
    pub required: Vec<SlimPodTerm>,
}

/// Pods, and what counts as near them. The API server has merged `matchLabelKeys` and `mismatchLabelKeys` into the
/// selector, and kube-scheduler does not look at them either.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodTerm {
    /// Which pods; none if absent, all if empty.
    pub label_selector: Option<SlimLabelSelector>,
    /// In which namespaces.
    #[serde(deserialize_with = "null_is_default")]
    pub namespaces: Vec<String>,
    /// And in namespaces with such labels; in none if absent, in all if empty.
    pub namespace_selector: Option<SlimLabelSelector>,
    /// Nodes with the same value of this label are near each other.
    pub topology_key: String,
}

/// Labels that must be there.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimLabelSelector {
    /// With these values.
    #[serde(deserialize_with = "null_is_default")]
    pub match_labels: BTreeMap<String, String>,
    /// As these say.
    #[serde(deserialize_with = "null_is_default")]
    pub match_expressions: Vec<SlimExpression>,
}

/// What one label must be.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct SlimExpression {
    /// The label's key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// With what it is compared.
    #[serde(deserialize_with = "null_is_default")]
    pub values: Vec<String>,
}

/// Over which nodes similar pods are spread.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimSpreadConstraint {
    /// The most that two domains may differ by.
    pub max_skew: i32,
    /// Nodes with the same value of this label are one domain.
    pub topology_key: String,
    /// `DoNotSchedule` is a rule, `ScheduleAnyway` a preference.
    pub when_unsatisfiable: Option<String>,
    /// Which pods count; none if absent.
    pub label_selector: Option<SlimLabelSelector>,
    /// Labels of the pod itself that those must have too.
    #[serde(deserialize_with = "null_is_default")]
    pub match_label_keys: Vec<String>,
    /// With fewer domains, one more empty domain is assumed.
    pub min_domains: Option<i32>,
    /// `Honor` or `Ignore`.
    pub node_affinity_policy: Option<String>,
    /// `Honor` or `Ignore`.
    pub node_taints_policy: Option<String>,
}

/// A namespace as we read it.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
pub struct SlimNamespace {
    /// Name and labels.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
}

resource_like!(SlimNamespace, Namespace);
