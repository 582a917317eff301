//! Selectors: of nodes by their labels and names, and of pods and namespaces by their labels.

use api_types::names;
use serde_json::{Value, json};

use super::node::{NUMBER_KEY, NUMBERS, RACKS, TOPOLOGY_KEYS, ZONES, node_name};
use super::{Maker, put};

/// Keys of pod labels, with their values.
pub(super) const POD_LABELS: [(&str, [&str; 3]); 3] =
    [("app", ["web", "train", "cache"]), ("tier", ["1", "2", "3"]), ("version", ["v1", "v2", "v3"])];

const SET_OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];
const NODE_OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

impl Maker {
    pub(super) fn pod_labels(&mut self) -> Value {
        let mut labels = json!({});
        for (key, values) in POD_LABELS {
            if self.random.chance(70) {
                labels[key] = json!(self.random.pick(&values));
            }
        }
        labels
    }

    /// `null` selects nothing, an empty selector everything.
    pub(super) fn pod_selector(&mut self) -> Value {
        match self.random.count(0, 19) {
            0 => Value::Null,
            1 => json!({}),
            2..=12 => {
                let (key, values) = self.random.pick(&POD_LABELS);
                json!({"matchLabels": {key: self.random.pick(&values)}})
            }
            _ => {
                let terms: Vec<Value> = (0..self.random.count(1, 2)).map(|_| self.pod_expression()).collect();
                json!({"matchExpressions": terms})
            }
        }
    }

    fn pod_expression(&mut self) -> Value {
        let (key, values) = self.random.pick(&POD_LABELS);
        let operator = self.random.pick(&SET_OPERATORS);
        let mut expression = json!({"key": key, "operator": operator});
        if operator.ends_with("In") {
            expression["values"] = self.one_or_two(&values);
        }
        expression
    }

    pub(super) fn namespace_selector(&mut self) -> Value {
        match self.random.count(0, 6) {
            0..=2 => Value::Null,
            3 => json!({}),
            4 => json!({"matchLabels": {"team": self.random.pick(&["red", "blue", "green"])}}),
            5 => json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}),
            _ => json!({"matchLabels": {"kubernetes.io/metadata.name": self.random.pick(&["one", "two"])}}),
        }
    }

    pub(super) fn node_selector(&mut self) -> Value {
        let mut selector = json!({});
        for _ in 0..self.random.count(1, 2) {
            let key = self.node_key();
            selector[key] = json!(self.node_value(key));
        }
        selector
    }

    /// Required rules on nodes, and sometimes preferences, which filter nothing.
    pub(super) fn node_affinity(&mut self) -> Value {
        let mut affinity = json!({});
        if self.random.chance(90) {
            let terms: Vec<Value> = (0..self.random.count(1, 3)).map(|_| self.node_term()).collect();
            put(
                &mut affinity,
                "requiredDuringSchedulingIgnoredDuringExecution",
                json!({"nodeSelectorTerms": terms}),
            );
        }
        if self.random.chance(15) {
            let preference = json!([{"weight": 5, "preference": self.node_term()}]);
            put(&mut affinity, "preferredDuringSchedulingIgnoredDuringExecution", preference);
        }
        affinity
    }

    /// A term without any expression matches nothing.
    fn node_term(&mut self) -> Value {
        let mut term = json!({});
        let expressions = self.random.pick(&[0, 1, 1, 1, 1, 2, 2]);
        put(&mut term, "matchExpressions", (0..expressions).map(|_| self.node_expression()).collect());
        if self.random.chance(25) {
            let operator = self.random.pick(&["In", "In", "NotIn"]);
            let name = node_name(self.random.count(0, self.nodes));
            put(
                &mut term,
                "matchFields",
                json!([{"key": "metadata.name", "operator": operator, "values": [name]}]),
            );
        }
        term
    }

    fn node_expression(&mut self) -> Value {
        let operator = self.random.pick(&NODE_OPERATORS);
        let is_number = matches!(operator, "Gt" | "Lt");
        let key = if is_number && self.random.chance(80) { NUMBER_KEY } else { self.node_key() };
        let mut expression = json!({"key": key, "operator": operator});
        if is_number {
            expression["values"] =
                json!([self.random.pick(&["0", "1", "2", "9", "09", "99999999999999999999", "x1"])]);
        } else if operator.ends_with("In") {
            let values = [self.node_value(key), self.node_value(key)];
            expression["values"] = json!(values[..self.random.count(1, 2)]);
        }
        expression
    }

    pub(super) fn topology_key(&mut self) -> &'static str {
        self.random.pick(&TOPOLOGY_KEYS)
    }

    fn node_key(&mut self) -> &'static str {
        match self.random.count(0, 9) {
            0..=2 => NUMBER_KEY,
            3 => "nobody-has-this",
            _ => self.topology_key(),
        }
    }

    fn node_value(&mut self, key: &str) -> String {
        match key {
            "topology.kubernetes.io/zone" => self.random.pick(&ZONES).to_owned(),
            names::RACK_LABEL => self.random.pick(&RACKS).to_owned(),
            NUMBER_KEY => self.random.pick(&NUMBERS).to_owned(),
            _ => node_name(self.random.count(0, self.nodes)),
        }
    }

    fn one_or_two(&mut self, values: &[&str; 3]) -> Value {
        let first = self.random.pick(values);
        let second = self.random.pick(values);
        if first == second { json!([first]) } else { json!([first, second]) }
    }
}
