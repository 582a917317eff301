//! Disruption budgets: which pods they cover, and how many of those may be evicted at present.

use cluster_model::{Budget, BudgetCounts, BudgetKey, ClusterChange, Selector};
use slim_objects::SlimBudget;

use crate::near::selector;

/// The cluster change for a budget that was seen. If it cannot be read, it covers every pod and allows nothing. If
/// its controller has not caught up, it allows nothing for the pods that it covers.
pub fn budget_change(slim: &SlimBudget) -> ClusterChange {
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
    ClusterChange::Budget(Budget { key: key(slim), selector, allowed, counts, told: 0 })
}

/// The cluster change for a budget that was deleted.
pub fn budget_gone(slim: &SlimBudget) -> ClusterChange {
    ClusterChange::BudgetGone(key(slim))
}

fn key(slim: &SlimBudget) -> BudgetKey {
    BudgetKey {
        namespace: slim.metadata.namespace.as_deref().unwrap_or_default().into(),
        name: slim.metadata.name.as_deref().unwrap_or_default().into(),
    }
}

#[cfg(test)]
mod tests {
    use cluster_model::{Budget, ClusterChange};
    use serde_json::{Value, json};

    use super::{SlimBudget, budget_change};

    fn read(spec: &Value, allowed: i32, observed: i64) -> Budget {
        let slim: SlimBudget = serde_json::from_value(json!({
            "metadata": { "namespace": "team", "name": "b", "generation": 2 },
            "spec": spec,
            "status": { "disruptionsAllowed": allowed, "observedGeneration": observed },
        }))
        .unwrap();
        let ClusterChange::Budget(budget) = budget_change(&slim) else { panic!("a budget") };
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
