//! Why nodes were refused to a gang, counted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::sentence::count;
use crate::near::NearRule;

/// Nodes that a rule about other pods refuses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct NeighbourRefusal {
    /// The rule.
    pub rule: NearRule,
    /// How many nodes.
    pub nodes: u32,
    /// The pods that it is about, by their labels.
    pub pods: Arc<str>,
    /// The label that defines nearness.
    pub topology_key: Arc<str>,
    /// For an uneven spread: the domains that can still take one more.
    pub open_domains: Vec<Arc<str>>,
}

#[cfg(test)]
impl NeighbourRefusal {
    pub(super) fn example() -> Self {
        Self {
            rule: NearRule::StrangerNear,
            nodes: 2,
            pods: "app=db".into(),
            topology_key: "zone".into(),
            open_domains: Vec::new(),
        }
    }
}

/// How many nodes were refused, by cause; each node is counted once, under the first cause that holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Refusals {
    /// Somebody closed the node to new pods.
    pub cordoned: u32,
    /// A taint that is not tolerated.
    pub taint: u32,
    /// A label that the node selector asks for is missing.
    pub node_selector: u32,
    /// The node affinity does not match.
    pub node_affinity: u32,
    /// The node lacks an ability that the pod needs.
    pub features: u32,
    /// A port of the host is taken.
    pub ports: u32,
    /// Too little free CPU.
    pub cpu: u32,
    /// Too little free memory.
    pub memory: u32,
    /// As many pods as the node takes.
    pub pods: u32,
    /// The node is spot, and the gang does not take spot nodes.
    pub spot: u32,
    /// Its devices are only counted, so that no part of one can be given.
    pub counted: u32,
    /// Too little free of another resource, by its name.
    pub other: BTreeMap<Arc<str>, u32>,
}

impl Refusals {
    #[cfg(test)]
    pub(super) fn example() -> Self {
        Self { taint: 2, ..Self::default() }
    }

    /// All of them.
    pub fn total(&self) -> u32 {
        let Self { cordoned, taint, node_selector, node_affinity, features, .. } = self;
        let Self { ports, cpu, memory, pods, spot, counted, other, .. } = self;
        let by_kind = [cordoned, taint, node_selector, node_affinity, features, spot, counted];
        let counts = by_kind.into_iter().chain([ports, cpu, memory, pods]).chain(other.values());
        counts.fold(0, |sum, nodes| sum.saturating_add(*nodes))
    }
}

impl fmt::Display for NeighbourRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pods, topology_key: key, .. } = self;
        let nodes = |one: &str, many: &str| count(self.nodes, one, many);
        match self.rule {
            NearRule::LacksLabel => write!(f, "{} the label {key}", nodes("node lacks", "nodes lack")),
            NearRule::NobodyNear => {
                write!(f, "{} no pod of {pods} in their {key}", nodes("node has", "nodes have"))
            }
            NearRule::StrangerNear => {
                write!(f, "{} a pod of {pods} in their {key}", nodes("node has", "nodes have"))
            }
            NearRule::KeptAway => {
                // Not which pods it keeps away: another tenant wrote that, about labels of its own.
                write!(f, "{} a pod in their {key} that keeps it away", nodes("node has", "nodes have"))
            }
            NearRule::Uneven => {
                let nodes = nodes("node is", "nodes are");
                let allows = domains(&self.open_domains);
                write!(
                    f,
                    "the spread of {pods} over {key} allows one more in {allows} only, {nodes} elsewhere"
                )
            }
        }
    }
}

/// Names of domains; only the first few of many.
fn domains(names: &[Arc<str>]) -> String {
    const NAMED_MAX: usize = 3;
    match names.len() {
        0 => "no domain".to_owned(),
        many if many > NAMED_MAX => {
            format!("{} and {} more", names[..NAMED_MAX].join(", "), many - NAMED_MAX)
        }
        _ => names.join(", "),
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.cordoned, "because they are cordoned"),
            (self.taint, "by a taint"),
            (self.node_selector, "by the node selector"),
            (self.node_affinity, "by the node affinity"),
            (self.features, "because their kubelet lacks a feature"),
            (self.ports, "because a port of the host is taken"),
            (self.cpu, "for cpu"),
            (self.memory, "for memory"),
            (self.pods, "for their number of pods"),
            (self.spot, "because they are spot nodes"),
            (self.counted, "because they give no parts of devices"),
        ];
        let parts = parts.iter().map(|(nodes, why)| (*nodes, (*why).to_owned()));
        let others = self.other.iter().map(|(name, nodes)| (*nodes, format!("for {name}")));
        let parts: Vec<_> = parts
            .chain(others)
            .filter(|(nodes, _)| *nodes > 0)
            .map(|(nodes, why)| format!("{nodes} {why}"))
            .collect();
        f.write_str(&parts.join(", "))
    }
}
