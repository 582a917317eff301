//! Whether a few gangs can all meet their deadlines, by their GPUs alone: a bounded search for an order in which each
//! starts as early as it can.
//!
//! If any schedule meets all deadlines, then some order does in which each gang starts as early as it can: an earlier
//! start hurts no other gang. So trying the orders is exhaustive. An order is given up as soon as one of the gangs
//! that are left is too late already.

use std::collections::BTreeMap;

use cluster_model::GpuType;

/// A gang that must have ended by its deadline. Times are seconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Task {
    pub deadline: i64,
    pub run_seconds: i64,
    pub gpus: i64,
    /// Any of these is acceptable.
    pub gpu_types: Vec<GpuType>,
}

impl Task {
    /// The last moment at which it can start.
    pub fn latest_start(&self) -> i64 {
        self.deadline.saturating_sub(self.run_seconds)
    }
}

/// Free GPUs over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Profile {
    /// What is free now.
    free: i64,
    /// How many more GPUs are free, or fewer, and when; by time.
    changes: Vec<(i64, i64)>,
}

impl Profile {
    /// `ends`: when GPUs become free, and how many, by time.
    pub fn new(free: i64, ends: impl IntoIterator<Item = (i64, i64)>) -> Self {
        Self { free, changes: ends.into_iter().collect() }
    }

    /// The earliest time from which this many GPUs are free for this long.
    fn earliest(&self, now: i64, gpus: i64, seconds: i64, steps: &mut u32) -> Option<i64> {
        let mut free = self.free;
        let mut start = (free >= gpus).then_some(now);
        for (index, (time, change)) in self.changes.iter().enumerate() {
            *steps = steps.saturating_sub(1);
            if start.is_some_and(|start| *time >= start.saturating_add(seconds)) {
                return start;
            }
            free += change;
            // Changes at the same time are one.
            if self.changes.get(index + 1).is_some_and(|(next, _)| next == time) {
                continue;
            }
            start = if free >= gpus { start.or(Some(*time)) } else { None };
        }
        start
    }

    fn take(&mut self, now: i64, start: i64, gpus: i64, seconds: i64) {
        if start == now {
            self.free -= gpus;
        } else {
            self.change(start, -gpus);
        }
        self.change(start.saturating_add(seconds), gpus);
    }

    fn change(&mut self, time: i64, gpus: i64) {
        let place = self.changes.partition_point(|(other, _)| *other <= time);
        self.changes.insert(place, (time, gpus));
    }
}

/// Whether all can meet their deadlines, in an order that is found within this many steps. If none is found in time,
/// the answer is no.
pub(super) fn is_feasible(
    now: i64,
    tasks: &[Task],
    profiles: &BTreeMap<GpuType, Profile>,
    steps: &mut u32,
) -> bool {
    let mut left: Vec<&Task> = tasks.iter().collect();
    // The least time to spare first: this order mostly succeeds.
    left.sort_by_key(|task| (task.latest_start(), *task));
    search(now, &left, profiles, steps)
}

fn search(now: i64, left: &[&Task], profiles: &BTreeMap<GpuType, Profile>, steps: &mut u32) -> bool {
    let mut starts: Vec<Vec<(i64, &GpuType)>> = Vec::with_capacity(left.len());
    for task in left {
        let start = |gpu_type| {
            let start = profiles.get(gpu_type)?.earliest(now, task.gpus, task.run_seconds, steps)?;
            (start <= task.latest_start()).then_some((start, gpu_type))
        };
        starts.push(task.gpu_types.iter().filter_map(start).collect());
        if *steps == 0 || starts.last().is_none_or(Vec::is_empty) {
            return false;
        }
    }
    for (index, task) in left.iter().enumerate() {
        // Of equal tasks one is as good as the other.
        if index > 0 && left[index - 1] == *task {
            continue;
        }
        let rest: Vec<&Task> = [&left[..index], &left[index + 1..]].concat();
        for (start, gpu_type) in &starts[index] {
            let mut profiles = profiles.clone();
            if let Some(profile) = profiles.get_mut(*gpu_type) {
                profile.take(now, *start, task.gpus, task.run_seconds);
            }
            if search(now, &rest, &profiles, steps) {
                return true;
            }
        }
    }
    left.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(gpus: i64, run_seconds: i64, deadline: i64) -> Task {
        Task { deadline, run_seconds, gpus, gpu_types: vec!["H100".into()] }
    }

    fn check(free: i64, ends: &[(i64, i64)], tasks: &[(i64, i64, i64)], expected: bool) {
        let profiles = [("H100".into(), Profile::new(free, ends.iter().copied()))].into();
        let list: Vec<Task> =
            tasks.iter().map(|(gpus, run, deadline)| task(*gpus, *run, *deadline)).collect();
        let mut steps = 100_000;
        assert_eq!(is_feasible(0, &list, &profiles, &mut steps), expected, "{free} {ends:?} {tasks:?}");
        assert!(steps > 0, "the search was not cut off");
    }

    #[test]
    fn deadlines_are_feasible_exactly_if_some_order_meets_them_all() {
        check(1, &[], &[], true);
        check(1, &[], &[(1, 5, 5)], true);
        check(1, &[], &[(1, 6, 5)], false);
        check(1, &[], &[(2, 1, 100)], false);
        check(1, &[], &[(1, 5, 10), (1, 5, 10)], true);
        check(1, &[], &[(1, 5, 10), (1, 6, 10)], false);
        check(0, &[(3, 1)], &[(1, 5, 8)], true);
        check(0, &[(4, 1)], &[(1, 5, 8)], false);
        // The longest first fails here: 3+3 on one, 2+2+2 on the other is the only way.
        check(2, &[], &[(1, 3, 6), (1, 3, 6), (1, 2, 6), (1, 2, 6), (1, 2, 6)], true);
        // The large one needs both at once, so the small ones go before it.
        check(2, &[], &[(2, 5, 10), (1, 5, 12), (1, 5, 5)], true);
        check(2, &[], &[(2, 5, 9), (1, 5, 12), (1, 5, 5)], false);
        // A gap before a change counts only if it is long enough.
        check(1, &[(2, 1), (2, 1)], &[(3, 1, 3)], true);
    }

    #[test]
    fn a_search_that_is_cut_off_says_no() {
        let profiles = [("H100".into(), Profile::new(0, (1..100).map(|time| (time, 1))))].into();
        let tasks = vec![task(50, 10, 1000); 8];
        assert!(is_feasible(0, &tasks, &profiles, &mut 10_000));
        assert!(!is_feasible(0, &tasks, &profiles, &mut 10));
    }
}
