//! How much of a node's free GPUs is expected to stay idle, given what is usually asked for.
//!
//! ```text
//!   cost = Φ(after) − Φ(before) + 8 · scarcity of the type · GPU thousandths taken
//!   Φ    = one step + copies + 3 · slack + CPU short
//! ```
//!
//! All terms are thousandths of a GPU × [`ONE`]. *One step*: what the next pod cannot use. *Copies*: what stays idle when
//! the node is filled up with pods like it; this one sees CPU run out before it has. *Slack*: what stays idle on each
//! device after random offers. *CPU short*: GPUs left without the usual CPU. *Scarcity*: the share of demand that names
//! the type, over the type's share of the capacity. Integers only, so that every machine decides alike.
//!
//! The weights were tuned on the lists of experiment X1, with other seeds than those reported; around them is a plateau.

use std::collections::BTreeMap;

use cluster_model::workload::{AskedShape, DEVICE_MILLIS, ONE, WorkloadSnapshot};
use cluster_model::{GpuType, Resources};

const SLACK_WEIGHT: i64 = 3;
const SCARCITY_WEIGHT: i64 = 8;
const WHOLE: i64 = DEVICE_MILLIS as i64;

/// What is free of a node, as far as it decides what could still be used of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Free {
    pub cpu_millis: i64,
    pub memory_bytes: i64,
    /// Devices that are not in use.
    pub whole: i64,
    /// Free thousandths of devices in use that have some, the least first.
    pub parts: Vec<u16>,
}

/// What is taken of a node's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// This many whole devices, perhaps none.
    Whole(i64),
    /// Thousandths of one device, which has `level` of them free: 1000 is a device that is not in use.
    Part { millis: u16, level: u16 },
}

impl Free {
    fn after(&self, requests: &Resources, take: Take) -> Self {
        let mut after = self.clone();
        after.cpu_millis -= requests.cpu_millis;
        after.memory_bytes -= requests.memory_bytes;
        match take {
            Take::Whole(devices) => after.whole -= devices,
            Take::Part { millis, level } => {
                if level >= DEVICE_MILLIS {
                    after.whole -= 1;
                } else if let Ok(at) = after.parts.binary_search(&level) {
                    after.parts.remove(at);
                }
                let left = level.saturating_sub(millis);
                if left > 0 {
                    let at = after.parts.partition_point(|part| *part < left);
                    after.parts.insert(at, left);
                }
            }
        }
        after
    }
}

/// What it costs to take this much of a node in this state. `before` is [`stranded`] of the state.
pub(super) fn cost(
    snapshot: &WorkloadSnapshot,
    scarcity: i64,
    free: &Free,
    before: i64,
    requests: &Resources,
    take: Take,
) -> i64 {
    let taken = match take {
        Take::Whole(devices) => devices.saturating_mul(WHOLE),
        Take::Part { millis, .. } => i64::from(millis),
    };
    let after = stranded(snapshot, &free.after(requests, take));
    after - before + scarcity.saturating_mul(SCARCITY_WEIGHT).saturating_mul(taken)
}

/// Φ of a node in this state.
pub(super) fn stranded(snapshot: &WorkloadSnapshot, free: &Free) -> i64 {
    let in_parts: i64 = free.parts.iter().map(|part| i64::from(*part)).sum();
    let all = free.whole.max(0) * WHOLE + in_parts;
    if all == 0 {
        return 0;
    }
    let (mut one_step, mut copies) = (0, 0);
    for (shape, weight) in &snapshot.shapes {
        let by_cpu = free.cpu_millis / shape.cpu_millis.max(1);
        let room = by_cpu.min(free.memory_bytes / shape.memory_bytes.max(1));
        if room <= 0 {
            one_step += weight * all;
            copies += weight * all;
            continue;
        }
        let (reach, fit) = reach_and_fit(free, shape);
        one_step += weight * (all - reach);
        copies += weight * (all - room.min(fit) * shape.gpu_millis());
    }
    let idle = |millis: u16| snapshot.slack[usize::from(millis.min(DEVICE_MILLIS))];
    let slack =
        free.whole.max(0) * idle(DEVICE_MILLIS) + free.parts.iter().map(|part| idle(*part)).sum::<i64>();
    let cpu_short = (all * ONE - free.cpu_millis.max(0).saturating_mul(snapshot.millis_per_cpu)).max(0);
    one_step + copies + SLACK_WEIGHT * slack + cpu_short
}

/// The thousandths on devices that a pod of this shape could use at all, and how many such pods the devices hold.
fn reach_and_fit(free: &Free, shape: &AskedShape) -> (i64, i64) {
    let whole = free.whole.max(0);
    if shape.device_millis >= DEVICE_MILLIS {
        let reach = if whole >= shape.devices { whole * WHOLE } else { 0 };
        return (reach, whole / shape.devices.max(1));
    }
    let millis = i64::from(shape.device_millis.max(1));
    let suits = free.parts.iter().map(|part| i64::from(*part)).filter(|part| *part >= millis);
    suits.fold((whole * WHOLE, whole * (WHOLE / millis)), |(reach, fit), part| {
        (reach + part, fit + part / millis)
    })
}

/// For each type: over all sets of types that pods name and it is in, the set's share of demand over its share of
/// capacity, times [`ONE`]. Zero if no pod names it.
pub(super) fn scarcity(
    snapshot: &WorkloadSnapshot,
    capacity: &BTreeMap<GpuType, i64>,
) -> BTreeMap<GpuType, i64> {
    let all: i128 = capacity.values().map(|gpus| i128::from(*gpus)).sum();
    let demand: i128 = snapshot.demand.iter().map(|(_, demand)| i128::from(*demand)).sum();
    let mut scarcity: BTreeMap<GpuType, i64> = BTreeMap::new();
    for (types, named) in &snapshot.demand {
        let of_set: i128 = types.iter().filter_map(|it| capacity.get(it)).map(|gpus| i128::from(*gpus)).sum();
        if of_set <= 0 || demand <= 0 {
            continue;
        }
        let price = i128::from(*named) * i128::from(ONE) * all / (demand * of_set);
        let price = i64::try_from(price).unwrap_or(i64::MAX >> 32);
        for gpu_type in types {
            let of_type = scarcity.entry(gpu_type.clone()).or_default();
            *of_type = of_type.saturating_add(price);
        }
    }
    scarcity
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: i64 = ONE / 2;

    fn shape(cpu_millis: i64, device_millis: u16, devices: i64) -> AskedShape {
        AskedShape { cpu_millis, memory_bytes: 1, device_millis, devices }
    }

    fn snapshot(shapes: Vec<(AskedShape, i64)>) -> WorkloadSnapshot {
        let slack = vec![0; usize::from(DEVICE_MILLIS) + 1];
        // Any amount of CPU is enough.
        WorkloadSnapshot { version: 1, shapes, slack, millis_per_cpu: 1_000 * ONE, demand: Vec::new() }
    }

    fn free(cpu_millis: i64, whole: i64, parts: &[u16]) -> Free {
        Free { cpu_millis, memory_bytes: 1 << 40, whole, parts: parts.to_vec() }
    }

    #[track_caller]
    fn check(snapshot: &WorkloadSnapshot, free: &Free, expected_millis: i64) {
        assert_eq!(stranded(snapshot, free), expected_millis * ONE, "{free:?}");
    }

    #[test]
    fn nothing_is_stranded_where_nothing_is_free_or_nobody_was_seen() {
        let pods = snapshot(vec![(shape(1, 1000, 1), ONE)]);
        check(&pods, &free(100, 0, &[]), 0);
        check(&snapshot(Vec::new()), &free(9_000, 3, &[400]), 0);
    }

    #[test]
    fn one_step_and_copies_count_what_a_shape_cannot_use() {
        // Pods of 2 whole GPUs and 10 cores.
        let pairs = snapshot(vec![(shape(10_000, 1000, 2), ONE)]);
        // 3 whole and 400 parts: the part is out of reach (400); one copy uses 2,000 of 3,400 (1,400).
        check(&pairs, &free(100_000, 3, &[400]), 400 + 1_400);
        // CPU for one copy only: reach is as it was, 4,000 − 2,000 stay idle.
        check(&pairs, &free(15_000, 4, &[]), 2_000);
        // No CPU for any: everything is stranded, twice.
        check(&pairs, &free(9_000, 4, &[]), 4_000 + 4_000);
        // One device alone is of no use for a pair.
        check(&pairs, &free(100_000, 1, &[]), 1_000 + 1_000);
    }

    #[test]
    fn shares_reach_parts_that_are_large_enough() {
        let shares = snapshot(vec![(shape(1_000, 300, 1), ONE)]);
        // 200 is out of reach; 700 holds two and loses 100, a whole one holds three and loses 100.
        check(&shares, &free(100_000, 1, &[200, 700]), 200 + (1_900 - 5 * 300));
        let both = snapshot(vec![(shape(1_000, 300, 1), HALF), (shape(1_000, 1000, 1), HALF)]);
        // Half of the above; the other half: parts are of no use (900), nor are they for copies (900).
        assert_eq!(stranded(&both, &free(100_000, 1, &[200, 700])), HALF * (200 + 400) + HALF * (900 + 900));
    }

    #[test]
    fn slack_counts_three_times_and_missing_cpu_once() {
        let mut pods = snapshot(Vec::new());
        pods.slack[1000] = 10 * ONE;
        pods.slack[250] = 40 * ONE;
        check(&pods, &free(9_000, 2, &[250, 250]), 3 * (2 * 10 + 2 * 40));
        // 125 thousandths of a GPU for each core: 4 cores are enough for 500 of 2,000.
        let pods = WorkloadSnapshot { millis_per_cpu: ONE / 8, ..snapshot(Vec::new()) };
        check(&pods, &free(4_000, 2, &[]), 1_500);
        check(&pods, &free(16_000, 2, &[]), 0);
        check(&pods, &free(-5, 2, &[]), 2_000);
    }

    #[test]
    fn taking_from_a_device_leaves_its_rest_among_the_parts() {
        let requests = Resources { cpu_millis: 1_000, ..Resources::default() };
        let take = |millis, level| free(5_000, 1, &[300, 500]).after(&requests, Take::Part { millis, level });
        assert_eq!(take(300, 300), free(4_000, 1, &[500]));
        assert_eq!(take(300, 500), free(4_000, 1, &[200, 300]));
        assert_eq!(take(600, 1000), free(4_000, 0, &[300, 400, 500]));
        let whole = free(5_000, 3, &[300]).after(&requests, Take::Whole(2));
        assert_eq!(whole, free(4_000, 1, &[300]));
    }

    #[test]
    fn cost_is_the_growth_of_what_is_stranded_plus_the_price_of_the_type() {
        let pairs = snapshot(vec![(shape(10_000, 1000, 2), ONE)]);
        let node = free(100_000, 2, &[]);
        let before = stranded(&pairs, &node);
        let requests = Resources { gpus: 1, cpu_millis: 1_000, ..Resources::default() };
        // One of two is taken: the other is of no use for pairs.
        assert_eq!(cost(&pairs, 0, &node, before, &requests, Take::Whole(1)), 2_000 * ONE);
        assert_eq!(cost(&pairs, 5, &node, before, &requests, Take::Whole(1)), 2_000 * ONE + 8 * 5 * 1_000);
    }

    #[test]
    fn scarcity_is_the_share_of_demand_over_the_share_of_capacity() {
        let capacity: BTreeMap<GpuType, i64> = [("T4".into(), 100), ("G2".into(), 300)].into();
        let demand = vec![(vec![], 500), (vec!["T4".into()], 250), (vec!["G2".into(), "T4".into()], 250)];
        let scarcity = scarcity(&WorkloadSnapshot { demand, ..snapshot(Vec::new()) }, &capacity);
        // T4: a quarter of demand for a quarter of capacity, and a quarter for all; G2 only the latter.
        assert_eq!(scarcity[&GpuType::from("T4")], ONE + ONE / 4);
        assert_eq!(scarcity[&GpuType::from("G2")], ONE / 4);
    }
}
