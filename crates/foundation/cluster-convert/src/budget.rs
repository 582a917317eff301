//! Disruption budgets: whom they cover, and how many of those may go at present.

use cluster_model::{Budget, BudgetCounts, BudgetKey, Change, Selector};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_core::ObjectMeta;

use crate::near::selector;
use crate::slim::{null_is_default, resource_like, slim_metadata};
use crate::slim_near::SlimLabelSelector;

/// A `PodDisruptionBudget` as we read it.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default)]
pub struct SlimBudget {
    /// Name and generation.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
    /// Whom it covers.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: SlimBudgetSpec,
    /// How many may go.
    #[serde(deserialize_with = "null_is_default")]
    pub status: SlimBudgetStatus,
}

/// Whom a budget covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct SlimBudgetSpec {
    /// Nobody if absent, everybody of the namespace if empty.
    pub selector: Option<SlimLabelSelector>,
}

/// What its controller reckons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimBudgetStatus {
    /// So many may go at present.
    pub disruptions_allowed: i32,
    /// Pods that are well.
    pub current_healthy: i32,
    /// How many must be.
    pub desired_healthy: i32,
    /// All pods that it covers.
    pub expected_pods: i32,
    /// The generation that this was reckoned for.
    pub observed_generation: Option<i64>,
}

/// What a budget that was seen means. One that cannot be read covers everybody and allows nothing; so does one whose
/// controller has not caught up, of those it covers.
pub fn budget_change(slim: &SlimBudget) -> Change {
    let status = &slim.status;
    let is_fresh = status.observed_generation.unwrap_or(0) >= slim.metadata.generation.unwrap_or(0);
    let allowed = u32::try_from(status.disruptions_allowed).unwrap_or(0);
    let read = slim.spec.selector.as_ref().map(selector).transpose();
    let (selector, is_read) = match read {
        Ok(selector) => (selector, true),
        Err(_) => (Some(Selector::default()), false),
    };
    let allowed = if is_fresh && is_read { allowed } else { 0 };
    let counts = BudgetCounts {
        healthy: status.current_healthy,
        desired: status.desired_healthy,
        expected: status.expected_pods,
        generation: status.observed_generation.unwrap_or(0),
    };
    Change::Budget(Budget { key: key(slim), selector, allowed, counts, told: 0 })
}

/// What a budget that was deleted means.
pub fn budget_gone(slim: &SlimBudget) -> Change {
    Change::BudgetGone(key(slim))
}

fn key(slim: &SlimBudget) -> BudgetKey {
    BudgetKey {
        namespace: slim.metadata.namespace.as_deref().unwrap_or_default().into(),
        name: slim.metadata.name.as_deref().unwrap_or_default().into(),
    }
}

resource_like!(SlimBudget, PodDisruptionBudget);

#[cfg(test)]
mod tests {
    use cluster_model::{Budget, Change};
    use serde_json::{Value, json};

    use super::{SlimBudget, budget_change};

    fn read(spec: &Value, allowed: i32, observed: i64) -> Budget {
        let slim: SlimBudget = serde_json::from_value(json!({
            "metadata": { "namespace": "team", "name": "b", "generation": 2 },
            "spec": spec,
            "status": { "disruptionsAllowed": allowed, "observedGeneration": observed },
        }))
        .unwrap();
        let Change::Budget(budget) = budget_change(&slim) else { panic!("a budget") };
        budget
    }

    #[test]
    fn a_budget_says_whom_it_covers_and_how_many_may_go() {
        let selects = json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": "x" } } });
        assert_eq!(read(&selects, 3, 2).allowed, 3);
        assert_eq!(read(&selects, 3, 1).allowed, 0, "its controller has not seen the last change");
        assert!(read(&selects, 3, 2).selector.is_some_and(|it| !it.is_everything()));
        assert_eq!(read(&json!({}), 3, 2).selector, None, "it covers nobody");
        assert!(read(&json!({ "selector": {} }), 3, 2).selector.is_some_and(|it| it.is_everything()));
        let odd = json!({ "selector": { "matchExpressions": [{ "key": "a", "operator": "Near" }] } });
        assert_eq!(read(&odd, 3, 2).allowed, 0, "nobody knows whom it covers");
    }

    #[test]
    fn a_word_of_its_maker_differs_from_a_touch_of_its_metadata() {
        let read = |version: &str, healthy: i32| {
            let slim: SlimBudget = serde_json::from_value(json!({
                "metadata": { "namespace": "team", "name": "b", "resourceVersion": version },
                "spec": { "minAvailable": 1, "selector": {} },
                "status": { "disruptionsAllowed": 1, "currentHealthy": healthy },
            }))
            .unwrap();
            budget_change(&slim)
        };
        assert_eq!(read("1", 2), read("2", 2));
        assert_ne!(read("2", 2), read("3", 1));
    }
}
