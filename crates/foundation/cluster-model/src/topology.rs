//! The tree of domains: zone, block, rack, NVLink domain, or whatever levels the nodes name; any number of them.
//!
//! ```text
//!   root ─► level 0 ─► level 1 ─► … ─► nodes        each domain: its nodes in order, how many of each class,
//!                                                   free GPUs
//! ```
//!
//! A node counts in every domain on its path, so that "do k members fit under this rack" is a sum over the classes of
//! nodes in the rack, and no node is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::classes::ClassId;
use crate::counts::Counts;
use crate::nodes::NodeId;
use crate::slots::Slots;
use crate::terms::Level;

/// Levels beyond this are ignored: a level is a small number.
const LEVELS_MAX: usize = 255;

/// A domain's number. It is valid until the next change is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub(crate) u32);

/// Nodes that are in one zone, block, rack or the like.
#[derive(Clone, Debug, Default)]
pub struct Domain {
    level: Option<Level>,
    name: Arc<str>,
    parent: Option<DomainId>,
    children: BTreeMap<Arc<str>, DomainId>,
    pub(crate) nodes: BTreeSet<(u64, NodeId)>,
    /// How many nodes that take pods there are of each class. The root's are those of the classes themselves.
    pub(crate) classes: Counts<ClassId>,
    gpus_free: i64,
}

impl Domain {
    /// Its level; the root, which is the whole cluster, has none.
    pub fn level(&self) -> Option<Level> {
        self.level
    }

    /// Its name within its parent.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The domain around it.
    pub fn parent(&self) -> Option<DomainId> {
        self.parent
    }

    /// The domains directly within it, by name.
    pub fn children(&self) -> impl ExactSizeIterator<Item = DomainId> {
        self.children.values().copied()
    }

    /// All nodes in it, in the order of place: by their path through the topology, then by name.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> {
        self.nodes.iter().map(|(_, node)| *node)
    }

    /// Free GPUs on its nodes that take pods; an overcommitted node counts as none.
    pub fn gpus_free(&self) -> i64 {
        self.gpus_free
    }

    /// The first and the last number of its nodes.
    pub(crate) fn ranks(&self) -> Option<(u64, u64)> {
        Some((self.nodes.first()?.0, self.nodes.last()?.0))
    }
}

/// All domains. Number 0 is the root, which is always there.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    domains: Slots<Domain>,
}

pub(crate) const ROOT: DomainId = DomainId(0);

impl Default for Topology {
    fn default() -> Self {
        let mut domains = Slots::default();
        domains.insert(Domain::default());
        Self { domains }
    }
}

impl Topology {
    pub fn get(&self, id: DomainId) -> &Domain {
        self.domains.get(id.0)
    }

    pub fn get_mut(&mut self, id: DomainId) -> &mut Domain {
        self.domains.get_mut(id.0)
    }

    /// The domains on a path, the outermost first, created if they are missing; the root is not among them.
    pub fn path(&mut self, names: &[Arc<str>]) -> Vec<DomainId> {
        let mut path = Vec::with_capacity(names.len());
        let mut parent = ROOT;
        for (level, name) in names.iter().take(LEVELS_MAX).enumerate() {
            parent = match self.get(parent).children.get(name) {
                Some(child) => *child,
                None => self.insert(parent, name, level),
            };
            path.push(parent);
        }
        path
    }

    fn insert(&mut self, parent: DomainId, name: &Arc<str>, level: usize) -> DomainId {
        let level = u8::try_from(level).ok().map(Level);
        let domain = Domain { level, name: name.clone(), parent: Some(parent), ..Domain::default() };
        let id = DomainId(self.domains.insert(domain));
        self.get_mut(parent).children.insert(name.clone(), id);
        id
    }

    /// Removes the domains of a path that have no nodes any more, the innermost first.
    pub fn prune(&mut self, path: &[DomainId]) {
        for &id in path.iter().rev() {
            if !self.get(id).nodes.is_empty() {
                return;
            }
            let domain = self.domains.remove(id.0);
            if let Some(parent) = domain.parent {
                self.get_mut(parent).children.remove(&domain.name);
            }
        }
    }

    /// A node of a domain changes its class, or enters (from none) or leaves (to none).
    pub fn change_class(
        &mut self,
        path: &[DomainId],
        from: Option<ClassId>,
        to: Option<ClassId>,
        gpus_free: i64,
    ) {
        self.get_mut(ROOT).gpus_free += gpus_free;
        for &id in path {
            let domain = self.domains.get_mut(id.0);
            domain.gpus_free += gpus_free;
            if from == to {
                continue;
            }
            if let Some(from) = from {
                domain.classes.remove(from);
            }
            if let Some(to) = to {
                domain.classes.add(to);
            }
        }
    }
}
