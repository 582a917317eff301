//! Deadlines that can still be met are kept within reach.
//!
//! A gang with a deadline and a known run time waits its turn like any other, as long as there is time. No gang
//! passes it that would use that time up: a gang may start only if those with deadlines, of the same or a higher
//! tier, can all still meet them afterwards. So a gang with much time to spare is passed by many, one with little is
//! passed by none, and among several with deadlines any order is taken that meets them all (`schedule.rs`).
//!
//! The most urgent [`TASKS_MAX`] are protected; of these, one by one, those that can all be met together. A deadline
//! holds up nothing if it cannot be met any more, or if its gang's quota does not let the gang start. Whether it can
//! be met is computed in GPUs by type, with expected ends; that free GPUs may be scattered is not seen here.

mod schedule;

use std::collections::BTreeMap;

use cluster_model::plan::WaitReason;
use cluster_model::{ClusterState, GangKey, GpuType};
use jiff::Timestamp;

use self::schedule::{Profile, Task, is_feasible};
use crate::gang::Request;
use crate::order::classes::Class;
use crate::quota;

/// How many deadlines are protected at once. All orders of eight can be searched; for more, the order by laxity
/// within each queue must be enough.
const TASKS_MAX: usize = 8;

/// Steps of one search, about a millisecond, and of all searches in one plan.
const STEPS_MAX: u32 = 100_000;
const STEPS_OF_PLAN_MAX: u32 = 20_000_000;

/// The deadlines that no start may make impossible, in one plan.
pub(super) struct Deadlines {
    now: i64,
    kept: Vec<(GangKey, Task)>,
    /// When GPUs in use will be free: those of gangs that ran before, read with the first deadline, and those of
    /// gangs that start in this plan.
    ends: Option<Vec<End>>,
    steps_left: u32,
    /// The time at which a gang that is held back may have waited in vain.
    look_again_at: Option<i64>,
}

struct End {
    at: i64,
    gpu_type: GpuType,
    gpus: i64,
}

impl Deadlines {
    pub fn new(now: Timestamp) -> Self {
        Self {
            now: now.as_second(),
            kept: Vec::new(),
            ends: None,
            steps_left: STEPS_OF_PLAN_MAX,
            look_again_at: None,
        }
    }

    /// Protects the deadlines of one more tier.
    pub fn add_tier(&mut self, planned: &ClusterState, classes: &[Class]) {
        let now = Timestamp::from_second(self.now).unwrap_or(Timestamp::MAX);
        let mut urgent: Vec<(i64, &Class)> = classes
            .iter()
            .filter(|class| class.gpus > 0)
            .filter_map(|class| Some((class.laxity_seconds(now)?, class)))
            .filter(|(laxity, _)| *laxity >= 0)
            .collect();
        urgent.sort_by(|(laxity, class), (other, than)| (laxity, &class.next).cmp(&(other, &than.next)));
        let gangs = urgent
            .into_iter()
            .flat_map(|(_, class)| class.gangs(planned).map(move |(_, gang)| (class, gang)));
        for (class, gang) in gangs.take(TASKS_MAX) {
            if self.kept.len() == TASKS_MAX {
                return;
            }
            let Some(task) = task(planned, class, gang) else { continue };
            self.kept.push((gang.clone(), task));
            if !self.can_be_met(planned, None) {
                self.kept.pop();
            }
        }
    }

    /// A deadline that is out of reach if a gang starts as placed in `attempt`; none if all stay within reach.
    pub fn missed_by(&mut self, attempt: &ClusterState, request: &Request) -> Option<WaitReason> {
        if request.is_granted || self.kept.iter().all(|(gang, _)| *gang == request.key) {
            return None;
        }
        if self.can_be_met(attempt, Some(request)) {
            return None;
        }
        let (gang, task) =
            self.kept.iter().filter(|(gang, _)| *gang != request.key).min_by_key(|(_, task)| task)?;
        let too_late = task.latest_start().saturating_add(1);
        self.look_again_at = Some(self.look_again_at.map_or(too_late, |at| at.min(too_late)));
        let deadline = Timestamp::from_second(task.deadline).unwrap_or(Timestamp::MAX);
        Some(WaitReason::KeepsDeadline { gang: gang.clone(), deadline })
    }

    /// Records that a gang starts, as placed in `planned`.
    pub fn started(&mut self, planned: &ClusterState, request: &Request) {
        self.kept.retain(|(gang, _)| *gang != request.key);
        let now = self.now;
        let end = self.ends.is_some().then(|| end_of(planned, &request.key, Some(now), now)).flatten();
        if let Some(ends) = &mut self.ends {
            ends.extend(end);
        }
    }

    pub fn look_again_at(&self) -> Option<Timestamp> {
        Timestamp::from_second(self.look_again_at?).ok()
    }

    /// Whether all that are kept can be met, if this gang has started in `state` in addition to those before.
    fn can_be_met(&mut self, state: &ClusterState, starts: Option<&Request>) -> bool {
        let now = self.now;
        let tasks: Vec<Task> = self
            .kept
            .iter()
            .filter(|(gang, _)| starts.is_none_or(|request| request.key != *gang))
            .map(|(_, task)| task.clone())
            .collect();
        let ends = self.ends.get_or_insert_with(|| {
            let running =
                state.running_gangs().filter(|gang| starts.is_none_or(|request| request.key != **gang));
            running.filter_map(|gang| end_of(state, gang, None, now)).collect()
        });
        let starts = starts.and_then(|request| end_of(state, &request.key, Some(now), now));
        let profiles = profiles(state, &tasks, ends.iter().chain(starts.as_ref()));
        let mut steps = STEPS_MAX.min(self.steps_left);
        let given = steps;
        let feasible = is_feasible(now, &tasks, &profiles, &mut steps);
        self.steps_left -= given - steps;
        feasible
    }
}

/// The task of a gang that could start, as far as its queues decide.
fn task(planned: &ClusterState, class: &Class, gang: &GangKey) -> Option<Task> {
    let request = Request::read(planned, gang);
    if !request.problems.is_empty() {
        return None;
    }
    let types = request.gpu_types(planned).into_iter().flatten();
    let gpu_types: Vec<GpuType> =
        types.filter(|gpu_type| quota::exceeded(planned, &request, Some(gpu_type)).is_empty()).collect();
    (!gpu_types.is_empty()).then_some(Task {
        deadline: class.deadline?.as_second(),
        run_seconds: class.needed_seconds(),
        gpus: request.needs.gpus,
        gpu_types,
    })
}

/// When the GPUs of a gang that has nodes will be free; `None` if it has no GPUs or if that is unknown. A gang that
/// `starts` and may run for ever is not relied on to end. A gang that runs is expected to end as usual, or to run for
/// as long again.
fn end_of(state: &ClusterState, key: &GangKey, starts: Option<i64>, now: i64) -> Option<End> {
    let gang = state.gang(key)?;
    let lead = state.pod(gang.lead()).pod();
    let with_gpus = gang
        .members()
        .map(|id| state.pod(id))
        .find(|pod| pod.at().is_some() && pod.pod().requests.gpus > 0)?;
    let gpu_type = state.node(with_gpus.at()?).gpu_type()?;
    let gpus = gang.gpus_placed();
    let started = starts.or_else(|| gang.started().map(Timestamp::as_second)).unwrap_or(now);
    let at = match lead.terms.time_limit_seconds {
        // A gang that should have ended is about to.
        Some(limit) => started.saturating_add(i64::from(limit)).max(now.saturating_add(1)),
        None if starts.is_some() => return None,
        None => {
            let at = Timestamp::from_second(now).unwrap_or(Timestamp::MAX);
            let usual = state.history().expected_seconds(&lead.key.namespace, gpus, at);
            started.saturating_add(usual).max(now.saturating_add((now - started).max(1)))
        }
    };
    Some(End { at, gpu_type, gpus })
}

/// The free GPUs over time, of the types that the tasks take. Only as far as it matters: nothing more is looked at
/// once enough is free for all tasks at once, or once all deadlines have passed.
fn profiles<'a>(
    state: &ClusterState,
    tasks: &[Task],
    ends: impl Iterator<Item = &'a End>,
) -> BTreeMap<GpuType, Profile> {
    let asked: i64 = tasks.iter().map(|task| task.gpus).sum();
    let last = tasks.iter().map(Task::latest_start).max().unwrap_or(i64::MIN);
    let mut by_type: BTreeMap<GpuType, (i64, Vec<(i64, i64)>)> = BTreeMap::new();
    for gpu_type in tasks.iter().flat_map(|task| &task.gpu_types) {
        by_type.entry(gpu_type.clone()).or_default();
    }
    for (id, kind) in state.kinds() {
        if let Some((free, _)) = kind.gpu_type.as_ref().and_then(|gpu_type| by_type.get_mut(gpu_type)) {
            *free += state.gpus_free_of(id);
        }
    }
    for end in ends.filter(|end| end.at <= last) {
        if let Some((_, changes)) = by_type.get_mut(&end.gpu_type) {
            changes.push((end.at, end.gpus));
        }
    }
    let profile = |(gpu_type, (free, mut changes)): (GpuType, (i64, Vec<(i64, i64)>))| {
        changes.sort_unstable();
        let mut sum = free;
        let enough = changes.iter().position(|(_, gpus)| {
            sum += gpus;
            sum >= asked
        });
        changes.truncate(enough.map_or(changes.len(), |index| index + 1));
        (gpu_type, Profile::new(free, changes))
    };
    by_type.into_iter().map(profile).collect()
}
