//! A case as it goes to the oracle, and what comes back. Objects are plain JSON, as the API server speaks it: a struct
//! would leave out what it does not know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A cluster and one pod that looks for a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Namespaces with their labels.
    pub namespaces: Vec<Value>,
    /// Nodes.
    pub nodes: Vec<Value>,
    /// The other pods; most are bound.
    pub pods: Vec<Value>,
    /// The pod that looks for a node.
    pub pod: Value,
}

/// What the oracle says of a case.
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
    /// What upstream says of every node.
    #[serde(default)]
    pub nodes: BTreeMap<String, Verdict>,
}

/// What upstream says of one node.
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
