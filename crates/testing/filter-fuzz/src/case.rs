//! A case for the oracle, and its answer. Objects are plain JSON as in the API: a struct would drop unknown
//! fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A cluster and one pod that waits for a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Namespaces with their labels.
    pub namespaces: Vec<Value>,
    /// Nodes.
    pub nodes: Vec<Value>,
    /// The other pods; most are bound.
    pub pods: Vec<Value>,
    /// The pod that waits for a node.
    pub pod: Value,
}

/// The oracle's answer to a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// The API server would not admit it.
    Invalid {
        /// Why.
        invalid: Vec<String>,
    },
    /// It was judged.
    Judged(Judged),
}

/// A case with upstream's verdicts. Named cases are kept in this form too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The case as the API server would have stored it: with defaults.
    pub stored: Case,
    /// Upstream's verdict on every node.
    #[serde(default)]
    pub nodes: BTreeMap<String, Verdict>,
}

/// Upstream's verdict on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the pod may go there.
    pub fits: bool,
    /// The plugin that refuses it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plugin: String,
    /// Why, in upstream's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}
