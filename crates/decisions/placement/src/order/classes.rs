//! The gangs that wait, by tier and class.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cluster_model::{ClassOfGangs, ClusterState, GangKey, GpuType, Pod, QueueName, Resources, WaitingClass};
use jiff::Timestamp;

use crate::backfill::would_help;
use crate::gang::Request;
use crate::quota::{self, Need};

/// Gangs that differ only in name and age: if one finds no room, none does.
pub(super) struct Class {
    /// Their queue; `None` if they have none that is valid.
    pub queue: Option<QueueName>,
    /// GPUs of each.
    pub gpus: i64,
    /// What each needs, for each acceptable GPU type.
    pub needs: Vec<Vec<Need>>,
    /// How long each may run.
    pub limit_seconds: Option<i64>,
    /// How long gangs like these ran.
    pub usual_seconds: i64,
    /// When each must have ended.
    pub deadline: Option<Timestamp>,
    /// The oldest of those not looked at yet, then the first by name.
    pub next: Option<(Timestamp, GangKey)>,
    /// Where to find those after it.
    id: Option<ClassOfGangs>,
}

impl Class {
    /// How long each is expected to run, at most as long as it may.
    pub fn expected_seconds(&self) -> i64 {
        self.limit_seconds.map_or(self.usual_seconds, |limit| limit.min(self.usual_seconds))
    }

    /// How long each should be given, for its deadline: as long as it may run, else as long as usual.
    pub fn needed_seconds(&self) -> i64 {
        self.limit_seconds.unwrap_or(self.usual_seconds)
    }

    /// How long a gang can still wait without missing its deadline; below zero if it is too late.
    pub fn laxity_seconds(&self, now: Timestamp) -> Option<i64> {
        let left = self.deadline?.as_second().saturating_sub(now.as_second());
        Some(left.saturating_sub(self.needed_seconds()))
    }

    /// Goes on to the next gang.
    pub fn go_on(&mut self, planned: &ClusterState) {
        self.next = self.next.take().and_then(|gang| self.after(planned, &gang).cloned());
    }

    /// The gangs not looked at yet.
    pub fn gangs<'a>(&'a self, planned: &'a ClusterState) -> impl Iterator<Item = &'a (Timestamp, GangKey)> {
        std::iter::successors(self.next.as_ref(), |gang| self.after(planned, gang))
    }

    fn after<'a>(
        &self,
        planned: &'a ClusterState,
        gang: &(Timestamp, GangKey),
    ) -> Option<&'a (Timestamp, GangKey)> {
        planned.waiting_after(self.id?, gang)
    }
}

/// Gangs that finish their start, by priority, age and name.
pub(super) fn finishing(state: &ClusterState) -> VecDeque<GangKey> {
    let finishes = |key: &&GangKey| {
        let gang = state.gang(key).expect("a gang that waits is known");
        gang.finishes_its_start(state.pod(gang.lead()).pod().gang_size)
    };
    state.waiting_gangs().take_while(finishes).cloned().collect()
}

/// All gangs but those. The cost depends on the number of classes.
pub(super) fn tiers(
    state: &ClusterState,
    finishing: &VecDeque<GangKey>,
    now: Timestamp,
) -> BTreeMap<Reverse<i32>, Vec<Class>> {
    let finishing: BTreeSet<&GangKey> = finishing.iter().collect();
    let mut tiers: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for class in state.waiting_classes() {
        // One that finishes its start is alone in its class.
        let Some((since, first)) = class.first().filter(|(_, first)| !finishing.contains(first)) else {
            continue;
        };
        let read = read(state, class, (*since, first.clone()), now);
        tiers.entry(Reverse(class.priority())).or_default().push(read);
    }
    tiers
}

/// How many classes are searched for gangs that waited too long; each look costs O(nodes).
const OVERDUE_LOOKS_MAX: u32 = 16;

/// Takes out gangs that waited for at least this long and that it would help to come first: the oldest first, then by
/// name, at most this many.
pub(super) fn take_overdue(
    planned: &ClusterState,
    classes: &mut [Class],
    now: Timestamp,
    after_seconds: i64,
    gangs_max: usize,
) -> VecDeque<GangKey> {
    let mut overdue = VecDeque::new();
    let is_overdue = |since: &Timestamp| now.as_second().saturating_sub(since.as_second()) >= after_seconds;
    let mut open: Vec<&mut Class> = classes.iter_mut().filter(|class| class.queue.is_some()).collect();
    for _ in 0..OVERDUE_LOOKS_MAX {
        open.retain(|class| class.next.as_ref().is_some_and(|(since, _)| is_overdue(since)));
        let oldest = (0..open.len()).min_by(|one, other| open[*one].next.cmp(&open[*other].next));
        let Some(oldest) = oldest.filter(|_| overdue.len() < gangs_max) else { break };
        let class = &mut *open[oldest];
        let gang = class.next.clone().map(|(_, gang)| gang);
        match gang.filter(|gang| would_help(planned, &Request::read(planned, gang))) {
            Some(gang) => {
                overdue.push_back(gang);
                class.go_on(planned);
            }
            // Those like it are not helped either.
            None => drop(open.swap_remove(oldest)),
        }
    }
    overdue
}

fn read(state: &ClusterState, class: &WaitingClass, first: (Timestamp, GangKey), now: Timestamp) -> Class {
    let gang = state.gang(&first.1).expect("a gang that waits is known");
    let lead = state.pod(gang.lead()).pod();
    let members = || gang.pending().map(|id| state.pod(id).pod());
    let mut asks = Resources::default();
    members().for_each(|pod| asks += pod.requests);
    let with_gpus = if asks.gpus > 0 { members().find(|pod| pod.requests.gpus > 0) } else { None };
    Class {
        queue: class.queue().filter(|_| state.queue_chain_of(lead).is_ok()).cloned(),
        gpus: asks.gpus,
        needs: needs(state, &asks, with_gpus),
        limit_seconds: lead.terms.time_limit_seconds.map(i64::from),
        usual_seconds: state.history().expected_seconds(&lead.key.namespace, asks.gpus, now),
        deadline: lead.terms.deadline,
        next: Some(first),
        id: class.id(),
    }
}

/// What each gang needs for each acceptable GPU type.
fn needs(state: &ClusterState, asks: &Resources, with_gpus: Option<&Pod>) -> Vec<Vec<Need>> {
    let types: Vec<Option<&GpuType>> = match with_gpus {
        None => vec![None],
        Some(member) if member.gpu_types.is_empty() => state.capacity().keys().map(Some).collect(),
        Some(member) => member.gpu_types.iter().map(Some).collect(),
    };
    types.into_iter().map(|gpu_type| quota::needs(asks, gpu_type)).collect()
}
