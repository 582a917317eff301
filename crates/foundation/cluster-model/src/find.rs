//! What a search asks: kinds and classes of nodes, domains, and which nodes are in them.

use crate::classes::{ClassId, ClassLog, KindId, NodeClass, NodeKind};
use crate::names::GpuType;
use crate::nodes::NodeId;
use crate::state::ClusterState;
use crate::terms::Level;
use crate::topology::{Domain, DomainId, ROOT};

impl ClusterState {
    /// Kinds of nodes that take pods; those without GPUs come first, then by GPU type, size, taints and labels.
    pub fn kinds(&self) -> impl Iterator<Item = (KindId, &NodeKind)> {
        self.nodes.classes().kinds()
    }

    /// The GPU types of nodes that take pods, by name.
    pub fn gpu_types(&self) -> impl Iterator<Item = &GpuType> {
        self.nodes.classes().gpu_types()
    }

    /// A kind by its number.
    pub fn kind(&self, id: KindId) -> &NodeKind {
        self.nodes.classes().kind(id)
    }

    /// Free GPUs on the nodes of a kind; an overcommitted node counts as none.
    pub fn gpus_free_of(&self, kind: KindId) -> i64 {
        self.nodes.classes().gpus_free_of(kind)
    }

    /// Classes of nodes that take pods: in the order of kinds, and within a kind by what is free, the fewest GPUs first.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &NodeClass)> {
        self.kinds().flat_map(|(kind, _)| self.classes_of(kind, i64::MIN))
    }

    /// Classes of one kind with at least this many free GPUs, the fewest first, then the least free CPU and memory.
    pub fn classes_of(
        &self,
        kind: KindId,
        gpus_free_min: i64,
    ) -> impl DoubleEndedIterator<Item = (ClassId, &NodeClass)> {
        self.nodes.classes().of_kind(kind, gpus_free_min)
    }

    /// A class by its number.
    pub fn class(&self, id: ClassId) -> &NodeClass {
        self.nodes.classes().get(id)
    }

    /// The class of a node that takes pods.
    pub fn class_of(&self, node: NodeId) -> Option<ClassId> {
        self.node(node).class.map(|(_, class)| class)
    }

    /// Whether nodes that differ in this label are of different kinds, so that [`NodeKind::labels`] has all that is
    /// needed. That is so for a label that some pod selects by, unless it has very many values; then nodes are
    /// examined one by one.
    pub fn label_splits_kinds(&self, key: &str) -> bool {
        self.nodes.labels().splits(key)
    }

    /// The domain that is the whole cluster.
    pub fn root(&self) -> DomainId {
        ROOT
    }

    /// A domain by its number.
    pub fn domain(&self, id: DomainId) -> &Domain {
        self.nodes.topology().get(id)
    }

    /// The domain of a level that contains a node, if the node is there and its path is that long.
    pub fn domain_of(&self, node: NodeId, level: Level) -> Option<DomainId> {
        self.node(node).domains.get(usize::from(level.0)).copied()
    }

    /// All domains of a level, in the order of their paths.
    pub fn domains_at(&self, level: Level) -> Vec<DomainId> {
        let mut domains = vec![ROOT];
        for _ in 0..=level.0 {
            domains = domains.into_iter().flat_map(|domain| self.domain(domain).children()).collect();
        }
        domains
    }

    /// The classes of the nodes in a domain that take pods, each with the number of its nodes there, in the order of
    /// [`Self::classes`]. The cost depends on the number of classes, not of nodes.
    pub fn classes_in(&self, domain: DomainId) -> Vec<(ClassId, u32)> {
        if domain == ROOT {
            let count = |class: &NodeClass| u32::try_from(class.len()).unwrap_or(u32::MAX);
            return self.classes().map(|(id, class)| (id, count(class))).collect();
        }
        let mut classes: Vec<_> = self.classes_in_any_order(domain).collect();
        classes.sort_by(|one, other| self.class(one.0).compare(self.class(other.0)));
        classes
    }

    /// The same in no useful order, for sums. The root's are only in [`Self::classes`].
    pub fn classes_in_any_order(&self, domain: DomainId) -> impl Iterator<Item = (ClassId, u32)> {
        self.domain(domain).classes.iter()
    }

    /// The nodes of a class in a domain, in the order of place: by their path through the topology, then by name. No
    /// other node is looked at.
    pub fn nodes_in(&self, domain: DomainId, class: ClassId) -> impl Iterator<Item = NodeId> {
        let range = self.domain(domain).ranks();
        range.into_iter().flat_map(move |(first, last)| {
            let nodes = &self.class(class).nodes;
            nodes.range((first, NodeId(0))..=(last, NodeId(u32::MAX))).map(|(_, node)| *node)
        })
    }

    /// A node's place in the order by path and name: lower is earlier. Valid until the next change is applied.
    pub fn rank(&self, node: NodeId) -> u64 {
        self.node(node).rank
    }

    /// The power draw of all nodes, as far as it is known.
    pub fn drawn_watts(&self) -> u64 {
        self.nodes.drawn_watts()
    }

    /// Classes that got nodes lately.
    pub fn class_log(&self) -> &ClassLog {
        self.nodes.classes().log()
    }

    /// Whether there is a class of this number.
    pub fn has_class(&self, id: ClassId) -> bool {
        self.nodes.classes().has(id)
    }
}
