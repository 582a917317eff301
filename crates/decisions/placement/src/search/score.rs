//! Which class of nodes is taken first: the one with the least score.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_model::workload::WorkloadSnapshot;
use cluster_model::{ClassId, ClusterState, DeviceAsk, GpuType, NodeClass};

use super::fit;
use super::fragmentation::{self, Free, Take};
use crate::Packing;
use crate::gang::Shape;

/// What the packing says, then the best fit: free GPUs, CPU, memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score([i64; 4]);

/// What scores are made from: the same for a whole plan.
pub(super) struct Scoring {
    snapshot: Arc<WorkloadSnapshot>,
    capacity: BTreeMap<GpuType, i64>,
    scarcity: BTreeMap<GpuType, i64>,
    /// What is stranded on a node of each class, by the class's number and birth.
    stranded: Vec<(u64, i64)>,
}

impl Scoring {
    pub fn new(state: &ClusterState) -> Self {
        let snapshot = state.workload().snapshot().clone();
        let capacity = state.capacity().clone();
        let scarcity = fragmentation::scarcity(&snapshot, &capacity);
        Self { snapshot, capacity, scarcity, stranded: Vec::new() }
    }

    /// Whether scores made from it are still up to date.
    pub fn is_current(&self, state: &ClusterState) -> bool {
        Arc::ptr_eq(&self.snapshot, state.workload().snapshot()) && self.capacity == *state.capacity()
    }

    /// The score of a class on which a member fits, and how many thousandths are free on the device that it gets a part
    /// of.
    pub fn score(&mut self, packing: Packing, id: ClassId, class: &NodeClass, shape: &Shape) -> (Score, u16) {
        let free = free(class);
        let uses_gpus = shape.uses_gpus();
        let gpu_millis: i64 = free.whole * 1000 + free.parts.iter().map(|part| i64::from(*part)).sum::<i64>();
        // Members without GPUs keep off nodes with GPUs.
        let leading = if uses_gpus { gpu_millis } else { i64::from(class.kind().gpu_type.is_some()) };
        let next = free.cpu_millis;
        let levels = levels(class, shape);
        let level = levels.first().copied().unwrap_or(0);
        match packing {
            Packing::BestFit => (Score([leading, next, free.memory_bytes, 0]), level),
            Packing::Spread if uses_gpus => (Score([-gpu_millis, -free.cpu_millis, 0, 0]), level),
            Packing::Spread => (Score([leading, -free.cpu_millis, 0, 0]), level),
            Packing::LeastPower => {
                let watts = added_watts(class, shape, level);
                (Score([watts, leading, next, free.memory_bytes]), level)
            }
            Packing::LeastFragmentation => {
                let (cost, level) = self.least_cost(id, class, &free, shape, &levels);
                // While that costs nothing yet, CPU is best taken where no GPU needs it.
                let ties = if uses_gpus { [next, free.memory_bytes] } else { [leading, next] };
                (Score([cost, gpu_millis, ties[0], ties[1]]), level)
            }
        }
    }

    fn least_cost(
        &mut self,
        id: ClassId,
        class: &NodeClass,
        free: &Free,
        shape: &Shape,
        levels: &[u16],
    ) -> (i64, u16) {
        let before = self.stranded(id, class, free);
        let price = class.kind().gpu_type.as_ref().and_then(|it| self.scarcity.get(it)).copied().unwrap_or(0);
        let cost = |take| fragmentation::cost(&self.snapshot, price, free, before, &shape.requests, take);
        let millis = part_millis(shape.device);
        let by_level = levels.iter().map(|level| (cost(Take::Part { millis, level: *level }), *level));
        // Among equals, the device with the least room.
        by_level.min().unwrap_or_else(|| (cost(Take::Whole(shape.requests.gpus)), 0))
    }

    fn stranded(&mut self, id: ClassId, class: &NodeClass, free: &Free) -> i64 {
        if id.index() >= self.stranded.len() {
            self.stranded.resize(id.index() + 1, (0, 0));
        }
        let known = &mut self.stranded[id.index()];
        if known.0 != class.born() {
            *known = (class.born(), fragmentation::stranded(&self.snapshot, free));
        }
        known.1
    }
}

fn free(class: &NodeClass) -> Free {
    let mut free = Free {
        cpu_millis: class.free().cpu_millis,
        memory_bytes: class.free().memory_bytes,
        whole: class.free().gpus.max(0),
        parts: Vec::new(),
    };
    if class.kind().exact {
        let unused = class.devices().iter().filter(|device| device.is_free()).count();
        free.whole = free.whole.min(i64::try_from(unused).unwrap_or(0));
        let used = class.devices().iter().filter(|device| !device.is_free());
        free.parts = used.map(|device| fit::millis_free(*device)).filter(|millis| *millis > 0).collect();
        free.parts.sort_unstable();
    }
    free
}

/// The different amounts that are free on devices from which the member could get its part, the least first. Empty if it
/// asks for whole ones only.
fn levels(class: &NodeClass, shape: &Shape) -> Vec<u16> {
    if shape.device == DeviceAsk::Whole {
        return Vec::new();
    }
    let suits = class.devices().iter().filter(|device| fit::parts_in(**device, shape.device) > 0);
    let mut levels: Vec<u16> = suits.map(|device| fit::millis_free(*device)).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

fn part_millis(ask: DeviceAsk) -> u16 {
    match ask {
        DeviceAsk::Whole => 0,
        DeviceAsk::Share { millis } => millis,
        DeviceAsk::Mig { profile } => u16::from(profile.slices()) * 125,
    }
}

/// What a node draws in addition: for being switched on, and for each device that was not in use before.
fn added_watts(class: &NodeClass, shape: &Shape, level: u16) -> i64 {
    let Some(power) = class.kind().power else { return 0 };
    let is_off = class.free().pods == class.kind().allocatable.pods;
    let opens_device = shape.device != DeviceAsk::Whole && level == 1000;
    let devices = shape.requests.gpus + i64::from(opens_device);
    let idle = if is_off { i64::from(power.idle_watts) } else { 0 };
    idle + devices.saturating_mul(i64::from(power.gpu_watts))
}
