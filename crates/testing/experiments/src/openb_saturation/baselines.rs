//! Published policies, re-implemented to check that our protocol is the published one. They place one pod at a
//! time, on nodes of their own. None of this runs in production.

use std::collections::BTreeMap;

use cluster_model::{DeviceAsk, GpuType};
use simulator::{Random, ratio};

use super::Trace;

/// A published policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Any node that fits, and any device.
    Random,
    /// The node with the least CPU and GPUs left over, half each; the device with the least room.
    BestFit,
    /// Fragmentation gradient descent (Weng et al., ATC 2023): the node whose expected fragments grow least.
    Fgd,
}

/// A set of GPU types, one bit each; zero is any.
type Types = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    cpu: i64,
    millis: i64,
    devices: i64,
    types: Types,
}

#[derive(Clone, Debug)]
struct BaselineNode {
    cpu: i64,
    memory: i64,
    gpu_type: u32,
    devices: Vec<i64>,
}

/// Nodes of one run.
pub(super) struct Cluster {
    baseline: Baseline,
    machines: Vec<BaselineNode>,
    pods: Vec<(Shape, i64)>,
    /// Shapes of the list with their shares, up to 95 % of its pods: what FGD expects.
    typical: Vec<(Shape, f64)>,
    /// For each shape: scores of nodes, computed anew if a node has changed since.
    scores: BTreeMap<Shape, Vec<Scored>>,
    changes: Vec<u32>,
    random: Random,
}

#[derive(Clone, Copy)]
struct Scored {
    changes: u32,
    score: i64,
    device: usize,
}

impl Cluster {
    pub fn new(trace: &Trace, baseline: Baseline, seed: u64) -> Self {
        let mut types = Vec::new();
        let nodes = trace.nodes.iter();
        let machines: Vec<BaselineNode> = nodes
            .map(|node| BaselineNode {
                cpu: node.allocatable.cpu_millis,
                memory: node.allocatable.memory_bytes,
                gpu_type: node.gpu_type.as_ref().map_or(u32::MAX, |gpu_type| number(&mut types, gpu_type)),
                devices: vec![1000; usize::try_from(node.allocatable.gpus).unwrap_or(0)],
            })
            .collect();
        let pods: Vec<(Shape, i64)> = trace
            .pods
            .iter()
            .map(|job| {
                let (millis, devices) = match job.device {
                    DeviceAsk::Share { millis } => (i64::from(millis), 1),
                    DeviceAsk::Whole | DeviceAsk::Mig { .. } => (1000, job.requests.gpus),
                };
                let millis = if devices == 0 { 0 } else { millis };
                let set = job.gpu_types.iter().fold(0, |set, it| set | 1 << number(&mut types, it).min(63));
                (
                    Shape { cpu: job.requests.cpu_millis, millis, devices, types: set },
                    job.requests.memory_bytes,
                )
            })
            .collect();
        let typical = typical(&pods);
        let changes = vec![1; machines.len()];
        let random = Random::new(seed ^ 0x00ab_cdef);
        Self { baseline, machines, pods, typical, scores: BTreeMap::new(), changes, random }
    }

    /// Places a pod; returns whether it fitted.
    pub fn place(&mut self, pod: usize) -> bool {
        let (shape, memory) = self.pods[pod];
        let choice = match self.baseline {
            Baseline::Random => self.any(shape, memory),
            Baseline::BestFit | Baseline::Fgd => self.best(shape, memory),
        };
        if let Some((machine, device)) = choice {
            self.machines[machine].place(shape, memory, device);
            self.changes[machine] += 1;
        }
        choice.is_some()
    }

    fn any(&mut self, shape: Shape, memory: i64) -> Option<(usize, usize)> {
        let fitting: Vec<usize> =
            (0..self.machines.len()).filter(|it| self.machines[*it].fits(shape, memory)).collect();
        let machine = *pick(&mut self.random, &fitting)?;
        let devices = &self.machines[machine].devices;
        let suit: Vec<usize> = (0..devices.len()).filter(|it| devices[*it] >= shape.millis).collect();
        let device = if shape.devices == 0 { 0 } else { *pick(&mut self.random, &suit)? };
        Some((machine, device))
    }

    /// The highest score; of equal ones the first by name.
    fn best(&mut self, shape: Shape, memory: i64) -> Option<(usize, usize)> {
        let unknown = Scored { changes: 0, score: 0, device: 0 };
        let mut scores = self.scores.remove(&shape).unwrap_or_else(|| vec![unknown; self.machines.len()]);
        let mut best: Option<(i64, usize, usize)> = None;
        for (index, scored) in scores.iter_mut().enumerate() {
            let machine = &self.machines[index];
            if !machine.fits(shape, memory) {
                continue;
            }
            if scored.changes != self.changes[index] {
                let (score, device) = self.score(machine, shape);
                *scored = Scored { changes: self.changes[index], score, device };
            }
            if best.is_none_or(|(score, ..)| scored.score > score) {
                best = Some((scored.score, index, scored.device));
            }
        }
        self.scores.insert(shape, scores);
        best.map(|(_, machine, device)| (machine, device))
    }

    fn score(&self, machine: &BaselineNode, shape: Shape) -> (i64, usize) {
        match self.baseline {
            Baseline::Random => (0, 0),
            Baseline::BestFit => best_fit(machine, shape),
            Baseline::Fgd => self.descend(machine, shape),
        }
    }

    fn descend(&self, machine: &BaselineNode, shape: Shape) -> (i64, usize) {
        let before = self.fragments(machine);
        let devices = if shape.is_share() { machine.devices.len() } else { 1 };
        let mut best = (i64::MIN, 0);
        for device in 0..devices {
            if shape.is_share() && machine.devices[device] < shape.millis {
                continue;
            }
            let mut after = machine.clone();
            after.place(shape, 0, device);
            let gain = (before - self.fragments(&after)) / 1000.0;
            let score = percent(1.0 / (1.0 + (-gain).exp()));
            if score > best.0 {
                best = (score, device);
            }
        }
        best
    }

    /// Expected thousandths that the next pod could not use.
    fn fragments(&self, machine: &BaselineNode) -> f64 {
        let free = machine.free();
        let of_shape = |shape: &Shape| {
            let suits = machine.devices.iter().filter(|millis| **millis >= shape.millis);
            let (suiting, used) = suits.fold((0, 0), |(count, sum), millis| (count + 1, sum + millis));
            let usable = shape.millis > 0
                && machine.is_of(shape.types)
                && machine.cpu >= shape.cpu
                && suiting >= shape.devices;
            if usable { free - used } else { free }
        };
        self.typical.iter().map(|(shape, share)| share * float(of_shape(shape))).sum()
    }
}

impl Shape {
    fn is_share(self) -> bool {
        self.devices == 1 && self.millis < 1000
    }
}

impl BaselineNode {
    fn free(&self) -> i64 {
        self.devices.iter().sum()
    }

    fn is_of(&self, types: Types) -> bool {
        types == 0 || (self.gpu_type < 64 && types >> self.gpu_type & 1 == 1)
    }

    fn fits(&self, shape: Shape, memory: i64) -> bool {
        let suit = || self.devices.iter().filter(|millis| **millis >= shape.millis).count();
        self.cpu >= shape.cpu
            && self.memory >= memory
            && (shape.devices == 0
                || self.is_of(shape.types) && i64::try_from(suit()).is_ok_and(|suit| suit >= shape.devices))
    }

    fn place(&mut self, shape: Shape, memory: i64, device: usize) {
        self.cpu -= shape.cpu;
        self.memory -= memory;
        if shape.is_share() {
            self.devices[device] -= shape.millis;
            return;
        }
        let whole = self.devices.iter_mut().filter(|millis| **millis == 1000);
        whole.take(usize::try_from(shape.devices).unwrap_or(0)).for_each(|millis| *millis = 0);
    }
}

fn best_fit(machine: &BaselineNode, shape: Shape) -> (i64, usize) {
    let cpu_left = float(machine.cpu - shape.cpu) / 128_000.0;
    let gpus_left = float(machine.free() - shape.millis * shape.devices) / 8_000.0;
    let suit = machine.devices.iter().enumerate().filter(|(_, millis)| **millis >= shape.millis);
    let device = suit.min_by_key(|(_, millis)| **millis).map_or(0, |(index, _)| index);
    (percent(1.0 - (cpu_left * 0.5 + gpus_left * 0.5)), device)
}

/// The most popular shapes, memory left out, up to 95 % of all pods.
fn typical(pods: &[(Shape, i64)]) -> Vec<(Shape, f64)> {
    let mut counts: BTreeMap<Shape, u64> = BTreeMap::new();
    for (shape, _) in pods {
        *counts.entry(*shape).or_default() += 1;
    }
    let mut counts: Vec<(u64, Shape)> = counts.into_iter().map(|(shape, count)| (count, shape)).collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let mut covered = 0;
    counts.retain(|(count, _)| {
        let keep = covered * 100 < 95 * pods.len() as u64;
        covered += if keep { *count } else { 0 };
        keep
    });
    counts.into_iter().map(|(count, shape)| (shape, ratio(count, covered))).collect()
}

fn number(types: &mut Vec<GpuType>, gpu_type: &GpuType) -> u32 {
    let known = types.iter().position(|it| it == gpu_type);
    let index = known.unwrap_or_else(|| {
        types.push(gpu_type.clone());
        types.len() - 1
    });
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn pick<'a>(random: &mut Random, items: &'a [usize]) -> Option<&'a usize> {
    let index = usize::try_from(random.below(items.len() as u64)).ok()?;
    items.get(index)
}

#[allow(clippy::cast_precision_loss, reason = "thousandths of one machine are far below 2^52")]
fn float(number: i64) -> f64 {
    number as f64
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a share in percent; the published score is cut, not rounded"
)]
fn percent(share: f64) -> i64 {
    (share * 100.0) as i64
}
