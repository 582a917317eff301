//! Areas: the nodes on which pods are counted, by the value of one label.
//!
//! Pods that ask for the same key under the same conditions share an area. So there are few areas, with any number of
//! groups of pods, and no more than `bounds.rs` says. A node that changes costs one step for each area; a new area
//! costs one look at each node.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::node_affinity::NodeAffinity;
use crate::nodes::NodeId;
use crate::objects::Node;
use crate::slots::Slots;
use crate::taints::{Taint, Toleration};

/// What an area is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AreaKey {
    /// The label whose values are the domains.
    pub key: Arc<str>,
    /// Other labels that a node must have to count.
    pub beside: BTreeSet<Arc<str>>,
    /// What else a node must satisfy to count.
    pub inclusion: Inclusion,
}

impl AreaKey {
    /// All nodes that have the label.
    pub fn of(key: &Arc<str>) -> Self {
        Self { key: key.clone(), beside: BTreeSet::new(), inclusion: Inclusion::default() }
    }

    /// Whether a node that has the label may not count.
    pub fn is_narrow(&self) -> bool {
        !self.beside.is_empty() || self.inclusion != Inclusion::default()
    }

    fn counts(&self, node: &Node) -> bool {
        self.beside.iter().all(|key| node.labels.contains_key(key)) && self.inclusion.admits(node)
    }
}

/// Which nodes count for a pod that spreads with others.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Inclusion {
    /// Labels that nodes must have; those of the pod's selector, if that is honoured.
    pub node_selector: BTreeMap<Arc<str>, Arc<str>>,
    /// The pod's further rules on labels and names, likewise.
    pub node_affinity: Option<Arc<NodeAffinity>>,
    /// What the pod tolerates, if taints are honoured.
    pub tolerations: Option<Vec<Toleration>>,
}

impl Inclusion {
    fn admits(&self, node: &Node) -> bool {
        let tolerates = |tolerations: &Vec<Toleration>| {
            node.taints
                .iter()
                .filter(|taint| Taint::repels(taint))
                .all(|taint| taint.tolerated_by(tolerations))
        };
        self.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            && self.node_affinity.as_ref().is_none_or(|affinity| affinity.admits(node))
            && self.tolerations.as_ref().is_none_or(tolerates)
    }
}

/// An area's number.
pub(crate) type AreaId = u32;

/// The number of a value of the area's label.
pub(crate) type ValueId = u32;

/// Where a node is in an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeInArea {
    pub value: ValueId,
    /// Whether pods on it count.
    pub counts: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Area {
    what: Arc<AreaKey>,
    users: u32,
    /// By the node's number; none if it lacks the label or is not there.
    spots: Vec<Option<NodeInArea>>,
    values: Slots<Value>,
    by_text: HashMap<Arc<str>, ValueId>,
    /// Values that at least one node that counts has.
    domains: usize,
}

#[derive(Clone, Debug)]
struct Value {
    text: Arc<str>,
    nodes: u32,
    nodes_counted: u32,
}

impl Area {
    /// Where a node is, if it has the label.
    pub fn spot(&self, node: NodeId) -> Option<NodeInArea> {
        self.spots.get(node.0 as usize).copied().flatten()
    }

    /// The label.
    pub fn key(&self) -> &Arc<str> {
        &self.what.key
    }

    /// How many values there are among nodes that count.
    pub fn domains(&self) -> usize {
        self.domains
    }

    pub fn text(&self, value: ValueId) -> &Arc<str> {
        &self.values.get(value).text
    }

    /// The values of nodes that count, by text.
    pub fn values(&self) -> BTreeMap<&Arc<str>, ValueId> {
        let counted = self.values.iter().filter(|(_, value)| value.nodes_counted > 0);
        counted.map(|(id, value)| (&value.text, id)).collect()
    }

    fn set_node(&mut self, id: NodeId, node: Option<&Node>) {
        let index = id.0 as usize;
        if let Some(old) = self.spots.get_mut(index).and_then(Option::take) {
            self.leave(old);
        }
        let Some((node, text)) = node.and_then(|node| Some((node, node.labels.get(&self.what.key)?))) else {
            return;
        };
        let spot = NodeInArea { value: self.value(text), counts: self.what.counts(node) };
        let value = self.values.get_mut(spot.value);
        value.nodes += 1;
        value.nodes_counted += u32::from(spot.counts);
        self.domains += usize::from(spot.counts && value.nodes_counted == 1);
        if self.spots.len() <= index {
            self.spots.resize(index + 1, None);
        }
        self.spots[index] = Some(spot);
    }

    fn leave(&mut self, spot: NodeInArea) {
        let value = self.values.get_mut(spot.value);
        value.nodes -= 1;
        value.nodes_counted -= u32::from(spot.counts);
        self.domains -= usize::from(spot.counts && value.nodes_counted == 0);
        if value.nodes == 0 {
            let value = self.values.remove(spot.value);
            self.by_text.remove(&value.text);
        }
    }

    fn value(&mut self, text: &Arc<str>) -> ValueId {
        if let Some(id) = self.by_text.get(text) {
            return *id;
        }
        let id = self.values.insert(Value { text: text.clone(), nodes: 0, nodes_counted: 0 });
        self.by_text.insert(text.clone(), id);
        id
    }
}

/// All areas in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas {
    all: Slots<Area>,
    ids: BTreeMap<Arc<AreaKey>, AreaId>,
    /// How many of them are narrow.
    narrow: usize,
}

impl Areas {
    pub fn get(&self, id: AreaId) -> &Area {
        self.all.get(id)
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub fn contains(&self, what: &AreaKey) -> bool {
        self.ids.contains_key(what)
    }

    /// How many areas are narrow.
    pub fn narrow(&self) -> usize {
        self.narrow
    }

    /// Something counts in an area, which is made from all nodes if it is new.
    pub fn enter<'a>(
        &mut self,
        what: AreaKey,
        nodes: impl Iterator<Item = (NodeId, Option<&'a Node>)>,
    ) -> AreaId {
        if let Some(id) = self.ids.get(&what) {
            self.all.get_mut(*id).users += 1;
            return *id;
        }
        let what = Arc::new(what);
        let mut area = Area {
            what: what.clone(),
            users: 1,
            spots: Vec::new(),
            values: Slots::default(),
            by_text: HashMap::new(),
            domains: 0,
        };
        for (id, node) in nodes {
            area.set_node(id, node);
        }
        let id = self.all.insert(area);
        self.narrow += usize::from(what.is_narrow());
        self.ids.insert(what, id);
        id
    }

    pub fn leave(&mut self, id: AreaId) {
        let area = self.all.get_mut(id);
        area.users -= 1;
        if area.users == 0 {
            let area = self.all.remove(id);
            self.ids.remove(&area.what);
            self.narrow -= usize::from(area.what.is_narrow());
        }
    }

    /// A node is new, different or gone. No pod on it may be counted at that time.
    pub fn set_node(&mut self, id: NodeId, node: Option<&Node>) {
        for area in self.ids.values() {
            self.all.get_mut(*area).set_node(id, node);
        }
    }
}
