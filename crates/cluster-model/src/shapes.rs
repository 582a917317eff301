//! Shapes of pods: pods of one shape fit on the same nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::devices::DeviceAsk;
use crate::names::GpuType;
use crate::objects::{Pod, Resources, Toleration};
use crate::slots::Slots;

/// A shape's number: two pods have the same if and only if they are of one shape. It is good until the next change is
/// applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub(crate) u32);

/// What a pod asks for, as far as it decides which nodes would do and what is charged for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodShape {
    /// What it asks for.
    pub requests: Resources,
    /// The GPU types that would do; any if empty.
    pub gpu_types: Vec<GpuType>,
    /// What it asks of devices.
    pub device: DeviceAsk,
    /// Labels its node must have.
    pub node_selector: BTreeMap<Arc<str>, Arc<str>>,
    /// Taints its node may have.
    pub tolerations: Vec<Toleration>,
    /// The group within its gang.
    pub group: Option<Arc<str>>,
    /// Marks that others may keep apart from.
    pub marks: BTreeSet<Arc<str>>,
    /// Whether it cannot be placed as it is: it is gated, or asks for what is not supported.
    pub is_kept_back: bool,
}

/// All shapes that pods have, each with how many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    shapes: Slots<(Arc<PodShape>, u32)>,
    ids: HashMap<Arc<PodShape>, ShapeId>,
}

impl Shapes {
    pub fn get(&self, id: ShapeId) -> &Arc<PodShape> {
        &self.shapes.get(id.0).0
    }

    /// The shape of a pod that comes.
    pub fn enter(&mut self, pod: &Pod) -> ShapeId {
        let shape = PodShape {
            requests: pod.requests,
            gpu_types: pod.gpu_types.clone(),
            device: pod.device,
            node_selector: pod.node_selector.clone(),
            tolerations: pod.tolerations.clone(),
            group: pod.group.clone(),
            marks: pod.marks.clone(),
            is_kept_back: pod.gated || !pod.unsupported.is_empty(),
        };
        if let Some(id) = self.ids.get(&shape) {
            self.shapes.get_mut(id.0).1 += 1;
            return *id;
        }
        let shape = Arc::new(shape);
        let id = ShapeId(self.shapes.insert((shape.clone(), 1)));
        self.ids.insert(shape, id);
        id
    }

    /// A pod of the shape is gone.
    pub fn leave(&mut self, id: ShapeId) {
        let (_, pods) = self.shapes.get_mut(id.0);
        *pods -= 1;
        if *pods == 0 {
            let (shape, _) = self.shapes.remove(id.0);
            self.ids.remove(&shape);
        }
    }
}
