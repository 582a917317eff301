//! Rules on other pods: near them, away from them, spread among them.

use serde_json::{Value, json};

use super::selectors::POD_LABELS;
use super::{Feature, Maker, NAMESPACES, put};

impl Maker {
    /// The rules on pods in `spec.affinity`, for features that are on.
    pub(super) fn pod_affinities(&mut self, affinity: &mut Value, percent: usize) {
        if self.uses(Feature::Affinity, percent) {
            put(affinity, "podAffinity", self.pod_affinity());
        }
        if self.uses(Feature::AntiAffinity, percent) {
            put(affinity, "podAntiAffinity", self.pod_affinity());
        }
    }

    fn pod_affinity(&mut self) -> Value {
        let mut affinity = json!({});
        if self.random.chance(92) {
            let terms = (0..self.random.pick(&[1, 1, 1, 2])).map(|_| self.pod_term()).collect();
            put(&mut affinity, "requiredDuringSchedulingIgnoredDuringExecution", terms);
        }
        if self.random.chance(10) {
            let preference = json!([{"weight": 3, "podAffinityTerm": self.pod_term()}]);
            put(&mut affinity, "preferredDuringSchedulingIgnoredDuringExecution", preference);
        }
        affinity
    }

    fn pod_term(&mut self) -> Value {
        let mut term = json!({"topologyKey": self.topology_key()});
        let selector = self.pod_selector();
        let keys = self.other_keys(&selector);
        put(&mut term, "labelSelector", selector);
        let field = self.random.pick(&["matchLabelKeys", "mismatchLabelKeys"]);
        put(&mut term, field, keys);
        if self.uses(Feature::Namespaces, 50) {
            let mut names: Vec<&str> = NAMESPACES.iter().map(|it| it.0).collect();
            names.retain(|_| self.random.chance(40));
            put(&mut term, "namespaces", json!(names));
        }
        if self.uses(Feature::Namespaces, 50) {
            let selector = self.namespace_selector();
            put(&mut term, "namespaceSelector", selector);
        }
        term
    }

    pub(super) fn spread(&mut self) -> Vec<Value> {
        let mut constraints: Vec<Value> = Vec::new();
        for _ in 0..self.random.pick(&[1, 1, 2, 3]) {
            let constraint = self.spread_constraint();
            let is_twin = |it: &Value| it["topologyKey"] == constraint["topologyKey"];
            if !constraints.iter().any(is_twin) {
                constraints.push(constraint);
            }
        }
        constraints
    }

    fn spread_constraint(&mut self) -> Value {
        let is_hard = self.random.chance(90);
        let mut constraint = json!({
            "maxSkew": self.random.pick(&[1, 1, 1, 2]),
            "topologyKey": self.topology_key(),
            "whenUnsatisfiable": if is_hard { "DoNotSchedule" } else { "ScheduleAnyway" },
        });
        let selector = self.pod_selector();
        let keys = self.other_keys(&selector);
        put(&mut constraint, "labelSelector", selector);
        put(&mut constraint, "matchLabelKeys", keys);
        if is_hard && self.random.chance(25) {
            put(&mut constraint, "minDomains", json!(self.random.count(1, 4)));
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if self.random.chance(35) {
                put(&mut constraint, field, json!(self.random.pick(&["Honor", "Ignore"])));
            }
        }
        constraint
    }

    /// Now and then a label key that a selector does not name: the same key in both is not allowed.
    fn other_keys(&mut self, selector: &Value) -> Value {
        let key = self.random.pick(&POD_LABELS).0;
        let is_named = selector.to_string().contains(&format!("\"{key}\""));
        if selector.is_null() || is_named || !self.random.chance(25) { Value::Null } else { json!([key]) }
    }
}
