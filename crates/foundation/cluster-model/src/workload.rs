//! What is usually asked for: shapes of pods with GPUs, learned from arrivals.
//!
//! ```text
//!   pod arrives ──► counts by shape, demand by named GPU types      (bounded, halved now and then)
//!   a plan begins ──► snapshot, if there is enough news             (what scores are made from)
//! ```
//!
//! A score made from one snapshot is valid until the next, so snapshots are few: after 16, 32, 64 … arrivals, then
//! every 1,024. A snapshot depends on which pods arrived, not on their order, as long as nothing was planned in
//! between.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::devices::DeviceAsk;
use crate::names::GpuType;
use crate::objects::Pod;

/// One, in fixed point with 16 bits after the point.
pub const ONE: i64 = 1 << 16;

/// A device in thousandths.
pub const DEVICE_MILLIS: u16 = 1000;

/// Shapes that a snapshot keeps, the most frequent. A score costs one step for each.
const SHAPES_KEPT: usize = 32;
/// Shapes that are counted; if there are more, the rarest makes room.
const SHAPES_SEEN_MAX: usize = 512;
/// Different sets of named GPU types that are counted.
const NAMED_MAX: usize = 64;
/// Pods with GPUs after which all counts are halved: demand of long ago fades.
const HALVE_AT: u64 = 16_384;
/// Arrivals before the first snapshot; fewer say nothing.
const SNAPSHOT_FIRST: u64 = 16;
/// The most arrivals between two snapshots.
const SNAPSHOT_EVERY_MAX: u64 = 1024;
/// Random offers after which a device's idle rest is computed.
const OFFERS: usize = 32;

/// What a pod asks for, as far as packing counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AskedShape {
    /// CPU, in thousandths of a core.
    pub cpu_millis: i64,
    /// Memory, in bytes.
    pub memory_bytes: i64,
    /// Thousandths of each device: 1000 for whole ones.
    pub device_millis: u16,
    /// Devices, at least one.
    pub devices: i64,
}

impl AskedShape {
    /// The shape of a pod; `None` if it asks for no GPU.
    pub fn of(pod: &Pod) -> Option<Self> {
        let (device_millis, devices) = match pod.device {
            DeviceAsk::Whole => (DEVICE_MILLIS, pod.requests.gpus),
            DeviceAsk::Share { millis } => (millis.clamp(1, DEVICE_MILLIS), 1),
            DeviceAsk::Mig { profile } => (u16::from(profile.slices()) * (DEVICE_MILLIS / 8), 1),
        };
        let requests = pod.requests;
        (devices > 0).then_some(Self {
            cpu_millis: requests.cpu_millis,
            memory_bytes: requests.memory_bytes,
            device_millis,
            devices,
        })
    }

    /// Thousandths of devices in all.
    pub fn gpu_millis(&self) -> i64 {
        self.devices.saturating_mul(i64::from(self.device_millis))
    }
}

/// Shapes of pods that arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedWorkload {
    /// Twice the number of sightings, so that one halving keeps a single one.
    #[serde(with = "crate::pairs")]
    counts: BTreeMap<AskedShape, u64>,
    /// Thousandths of GPUs asked for by pods that name these types. Pods that name none count under the empty set.
    #[serde(with = "crate::pairs")]
    named: BTreeMap<Vec<GpuType>, u64>,
    /// Pods with GPUs since the last halving, and half of those before.
    weight: u64,
    /// Pods that arrived.
    seen: u64,
    /// How many must have arrived for the next snapshot.
    snapshot_at: u64,
    snapshot: Arc<WorkloadSnapshot>,
}

/// The workload at one moment, ready to be scored with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadSnapshot {
    /// Grows with every snapshot; zero before the first.
    pub version: u64,
    /// The most frequent shapes with their weights, which sum to at most [`ONE`].
    pub shapes: Vec<(AskedShape, i64)>,
    /// For a device with this many thousandths free (the index): how many of them, times [`ONE`], are expected to be
    /// still idle after it was offered to pods at random.
    pub slack: Vec<i64>,
    /// Thousandths of GPUs that pods ask for with each thousandth of a core, times [`ONE`].
    pub millis_per_cpu: i64,
    /// Demand for GPUs by the set of types that pods name; the empty set is for pods that take any.
    pub demand: Vec<(Vec<GpuType>, u64)>,
}

impl Default for LearnedWorkload {
    fn default() -> Self {
        Self {
            counts: BTreeMap::new(),
            named: BTreeMap::new(),
            weight: 0,
            seen: 0,
            snapshot_at: SNAPSHOT_FIRST,
            snapshot: Arc::new(WorkloadSnapshot {
                version: 0,
                shapes: Vec::new(),
                slack: all_idle(),
                millis_per_cpu: 0,
                demand: Vec::new(),
            }),
        }
    }
}

impl LearnedWorkload {
    /// What was learned up to the last snapshot.
    pub fn snapshot(&self) -> &Arc<WorkloadSnapshot> {
        &self.snapshot
    }

    /// Takes a new snapshot if enough pods arrived since the last one.
    pub(crate) fn refresh(&mut self) {
        if self.seen < self.snapshot_at {
            return;
        }
        self.snapshot_at = self.seen + self.seen.min(SNAPSHOT_EVERY_MAX);
        if !self.counts.is_empty() {
            let version = self.snapshot.version + 1;
            self.snapshot = Arc::new(WorkloadSnapshot::take(version, &self.counts, &self.named));
        }
    }

    /// A pod was seen for the first time.
    pub(crate) fn pod_arrived(&mut self, pod: &Pod) {
        self.seen += 1;
        let Some(shape) = AskedShape::of(pod) else { return };
        count(&mut self.counts, shape, 2, SHAPES_SEEN_MAX);
        let demand = u64::try_from(shape.gpu_millis()).unwrap_or(0).saturating_mul(2);
        count(&mut self.named, pod.gpu_types.clone(), demand, NAMED_MAX);
        self.weight += 1;
        if self.weight >= HALVE_AT {
            self.weight /= 2;
            halve(&mut self.counts);
            halve(&mut self.named);
        }
    }
}

/// Adds to a count. If there are too many, the rarest makes room for a new one; of equally rare ones, the first.
fn count<K: Ord + Clone>(counts: &mut BTreeMap<K, u64>, key: K, amount: u64, keys_max: usize) {
    if counts.len() >= keys_max && !counts.contains_key(&key) {
        let rarest = counts.iter().min_by_key(|(key, count)| (**count, *key)).map(|(key, _)| key.clone());
        if let Some(rarest) = rarest {
            counts.remove(&rarest);
        }
    }
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(amount);
}

fn halve<K: Ord>(counts: &mut BTreeMap<K, u64>) {
    for count in counts.values_mut() {
        *count /= 2;
    }
    counts.retain(|_, count| *count > 0);
}

impl WorkloadSnapshot {
    fn take(version: u64, counts: &BTreeMap<AskedShape, u64>, named: &BTreeMap<Vec<GpuType>, u64>) -> Self {
        let mut kept: Vec<(AskedShape, u64)> = counts.iter().map(|(shape, count)| (*shape, *count)).collect();
        kept.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
        kept.truncate(SHAPES_KEPT);
        let all: u64 = kept.iter().map(|(_, count)| count).sum();
        let shapes = kept.into_iter().map(|(shape, count)| (shape, share(count.into(), all.into())));
        let total = |of: fn(&AskedShape) -> i64| -> i128 {
            counts.iter().map(|(shape, count)| i128::from(*count) * i128::from(of(shape))).sum()
        };
        Self {
            version,
            shapes: shapes.collect(),
            slack: slack(counts),
            millis_per_cpu: share(total(AskedShape::gpu_millis), total(|shape| shape.cpu_millis)),
            demand: named.iter().map(|(types, demand)| (types.clone(), *demand)).collect(),
        }
    }
}

/// `part / all` in fixed point; `part` if there is nothing in all.
fn share(part: i128, all: i128) -> i64 {
    i64::try_from(part * i128::from(ONE) / all.max(1)).unwrap_or(i64::MAX)
}

/// Everything that is free stays idle.
fn all_idle() -> Vec<i64> {
    (0..=i64::from(DEVICE_MILLIS)).map(|free| free * ONE).collect()
}

/// See [`WorkloadSnapshot::slack`]: each offer is what a pod asks of one device, drawn by the number of devices that ask for
/// it. It is taken if it fits.
fn slack(counts: &BTreeMap<AskedShape, u64>) -> Vec<i64> {
    let mut asked: BTreeMap<u16, i128> = BTreeMap::new();
    for (shape, count) in counts {
        *asked.entry(shape.device_millis).or_default() += i128::from(*count) * i128::from(shape.devices);
    }
    let all: i128 = asked.values().sum();
    let offers: Vec<(usize, i64)> =
        asked.into_iter().map(|(millis, devices)| (usize::from(millis), share(devices, all))).collect();
    let mut idle = all_idle();
    for _ in 0..OFFERS {
        idle = (0..idle.len()).map(|free| after_offer(&idle, free, &offers)).collect();
    }
    idle
}

fn after_offer(idle: &[i64], free: usize, offers: &[(usize, i64)]) -> i64 {
    let (mut sum, mut refused) = (0, ONE);
    for &(millis, chance) in offers.iter().take_while(|(millis, _)| *millis <= free) {
        sum += chance * idle[free - millis];
        refused -= chance;
    }
    (sum + refused * idle[free]) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{GangKey, PodKey};
    use crate::objects::Resources;

    fn pod(name: usize, gpus: i64, cpu_millis: i64) -> Pod {
        let name = format!("pod-{name}");
        let requests = Resources { gpus, cpu_millis, memory_bytes: 1 << 30, pods: 1 };
        let key = PodKey::new("space", name.as_str(), name.as_str());
        Pod { requests, ..Pod::new(key, GangKey::new("space", name)) }
    }

    fn share_of(name: usize, millis: u16) -> Pod {
        Pod { device: DeviceAsk::Share { millis }, ..pod(name, 0, 1000) }
    }

    #[test]
    fn snapshots_come_at_16_arrivals_then_at_each_doubling_then_every_1024() {
        let mut workload = LearnedWorkload::default();
        let mut taken = Vec::new();
        for number in 1..=5_000 {
            workload.pod_arrived(&pod(number, 1, 8_000));
            let before = workload.snapshot.version;
            workload.refresh();
            if workload.snapshot.version > before {
                taken.push(number);
            }
        }
        assert_eq!(taken, [16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096]);
    }

    #[test]
    fn what_is_learned_depends_on_which_pods_came_not_on_their_order() {
        let pods: Vec<Pod> =
            (0..100).map(|number| pod(number, 1 + i64::try_from(number % 4).unwrap(), 4_000)).collect();
        let learn = |pods: Vec<&Pod>| {
            let mut workload = LearnedWorkload::default();
            for pod in pods {
                workload.pod_arrived(pod);
            }
            workload.refresh();
            workload.snapshot.as_ref().clone()
        };
        assert_eq!(learn(pods.iter().collect()), learn(pods.iter().rev().collect()));
    }

    #[test]
    fn weights_are_shares_of_the_kept_shapes_and_cpu_only_pods_do_not_count() {
        let mut workload = LearnedWorkload::default();
        for number in 0..16 {
            workload.pod_arrived(&match number % 4 {
                0 => pod(number, 0, 64_000),
                1 => share_of(number, 500),
                _ => pod(number, 1, 3_000),
            });
        }
        workload.refresh();
        let snapshot = workload.snapshot();
        let weights: Vec<_> =
            snapshot.shapes.iter().map(|(shape, weight)| (shape.device_millis, *weight)).collect();
        assert_eq!(weights, [(1000, 43_690), (500, 21_845)]);
        // 8 whole GPUs and 4 halves with 8 × 3 and 4 × 1 cores: 10,000 thousandths over 28,000.
        assert_eq!(snapshot.millis_per_cpu, 10_000 * ONE / 28_000);
    }

    #[test]
    fn a_device_that_suits_what_is_offered_is_expected_to_be_filled() {
        let mut workload = LearnedWorkload::default();
        for number in 0..16 {
            workload.pod_arrived(&share_of(number, 400));
        }
        workload.refresh();
        let slack = &workload.snapshot().slack;
        // 399 takes nothing, 400 is filled, 1000 takes two and keeps 200.
        assert_eq!((slack[399] / ONE, slack[400] / ONE, slack[1000] / ONE), (399, 0, 200));
    }

    #[test]
    fn rare_shapes_make_room_and_old_ones_fade() {
        let mut workload = LearnedWorkload::default();
        for number in 0..40_000 {
            let cpu = if number % 2 == 0 { 1_000 } else { i64::try_from(number).unwrap() };
            workload.pod_arrived(&pod(number, 1, cpu));
        }
        assert_eq!(workload.counts.len(), SHAPES_SEEN_MAX);
        assert!(workload.weight < HALVE_AT);
        workload.seen = u64::MAX / 2;
        workload.refresh();
        assert_eq!(workload.snapshot().shapes[0].0.cpu_millis, 1_000);
    }
}
