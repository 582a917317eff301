//! Which nodes a node affinity admits.

use crate::node_affinity::NodeAffinity;
use crate::objects::Node;

impl NodeAffinity {
    /// Whether it admits the node.
    pub fn admits(&self, node: &Node) -> bool {
        let value = |key: &str| node.labels.get(key).map(|value| &**value);
        self.terms.iter().filter(|term| !term.is_empty()).any(|term| {
            term.labels.iter().all(|rule| rule.test.holds(value(&rule.key)))
                && term.names.iter().all(|rule| rule.holds(&node.name))
        })
    }
}
