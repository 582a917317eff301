//! Shapes of pods: pods of one shape fit on the same nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::devices::DeviceAsk;
use crate::features::Features;
use crate::names::GpuType;
use crate::near::Neighbours;
use crate::node_affinity::NodeAffinity;
use crate::objects::{Pod, Resources};
use crate::other_resources::OtherResources;
use crate::ports::HostPorts;
use crate::slots::Slots;
use crate::taints::Toleration;

/// A shape's number: two pods have the same number if and only if they have the same shape. It is valid until the
/// next change is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub(crate) u32);

/// What a pod asks for, as far as it decides which nodes are suitable and what is charged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodShape {
    /// What it asks for.
    pub requests: Resources,
    /// What it asks for of other resources.
    pub other_requests: OtherResources,
    /// The ports of the host that it takes.
    pub host_ports: HostPorts,
    /// The GPU types that are acceptable; any if empty.
    pub gpu_types: Vec<GpuType>,
    /// What it asks of devices.
    pub device: DeviceAsk,
    /// Labels its node must have.
    pub node_selector: BTreeMap<Arc<str>, Arc<str>>,
    /// What else it requires of its node's labels and name.
    pub node_affinity: Option<Arc<NodeAffinity>>,
    /// The abilities that its node must have.
    pub node_features: Features,
    /// Taints its node may have.
    pub tolerations: Vec<Toleration>,
    /// The group within its gang.
    pub group: Option<Arc<str>>,
    /// What it asks of other pods.
    pub neighbours: Option<Arc<Neighbours>>,
    /// Whether it cannot be placed as it is: it is gated, or asks for something unsupported.
    pub is_kept_back: bool,
}

/// All shapes that pods have, and how many pods have each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    shapes: Slots<(Arc<PodShape>, u32)>,
    ids: HashMap<Arc<PodShape>, ShapeId>,
}

impl Shapes {
    pub fn get(&self, id: ShapeId) -> &Arc<PodShape> {
        &self.shapes.get(id.0).0
    }

    /// The shape of a new pod. The pod shares large parts with others of the shape.
    pub fn enter(&mut self, pod: &mut Pod) -> ShapeId {
        let id = self.id_of(pod);
        let shape = self.get(id);
        pod.other_requests = shape.other_requests.clone();
        pod.host_ports = shape.host_ports.clone();
        pod.node_affinity.clone_from(&shape.node_affinity);
        id
    }

    fn id_of(&mut self, pod: &Pod) -> ShapeId {
        let shape = PodShape {
            requests: pod.requests,
            other_requests: pod.other_requests.clone(),
            host_ports: pod.host_ports.clone(),
            gpu_types: pod.gpu_types.clone(),
            device: pod.device,
            node_selector: pod.node_selector.clone(),
            node_affinity: pod.node_affinity.clone(),
            node_features: pod.node_features,
            tolerations: pod.tolerations.clone(),
            group: pod.group.clone(),
            neighbours: pod.neighbours.clone(),
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
