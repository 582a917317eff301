//! One future: running gangs end, ordered machines come, past arrivals come again, and the planner plans, until the
//! gang starts.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::plan::Plan;
use cluster_model::{ClusterChange, ClusterState, GangKey, Pod, PodKey};
use jiff::Timestamp;
use placement::{Policy, plan};

use crate::arrivals::{Replay, as_new};
use crate::coming::Expected;
use crate::laws::Laws;
use crate::random::Random;

/// Plans that are made in one future at most: two weeks of the longest steps, and as many again for the first hours.
const PLANS_MAX: u32 = 4_000;
/// Events within one step happen together, at its end. Steps grow with their distance, since nobody reads the seconds
/// of tomorrow, and stay short compared with the run times of gangs.
const STEPS_PER_AGE: i64 = 32;
const STEP_SECONDS_MAX: i64 = 600;
/// How long a gang that gives way takes to be gone.
const GRACE_SECONDS: i64 = 30;

pub(crate) struct Future<'a, 'b> {
    pub state: ClusterState,
    pub policy: &'a Policy,
    pub laws: &'b mut Laws<'a>,
    pub replay: Replay<'a>,
    pub expected: Expected<'a>,
    pub random: Random,
    /// When gangs that run end, and when those that give way are gone, by time, then name.
    due: BTreeSet<(i64, GangKey)>,
    ends: BTreeMap<GangKey, i64>,
    leaving: BTreeMap<GangKey, i64>,
    wake_at: Option<i64>,
}

impl<'a, 'b> Future<'a, 'b> {
    pub fn new(
        state: ClusterState,
        policy: &'a Policy,
        laws: &'b mut Laws<'a>,
        (replay, expected): (Replay<'a>, Expected<'a>),
        random: Random,
    ) -> Self {
        let mut this = Self {
            state,
            policy,
            laws,
            replay,
            expected,
            random,
            due: BTreeSet::new(),
            ends: BTreeMap::new(),
            leaving: BTreeMap::new(),
            wake_at: None,
        };
        let running: Vec<GangKey> = this.state.running_gangs().cloned().collect();
        let now = this.state.now().as_second();
        for gang in running {
            if this.state.gang(&gang).is_some_and(cluster_model::Gang::is_leaving) {
                this.leaves(gang, now);
            } else {
                this.runs(gang, now);
            }
        }
        this
    }

    /// When the gang starts, at most `until`.
    pub fn start_of(mut self, gang: &GangKey, until: i64) -> i64 {
        let begin = self.state.now().as_second();
        let mut now = begin;
        for _ in 0..PLANS_MAX {
            if self.plan(now, gang) {
                return now;
            }
            let step_end = now + ((now - begin) / STEPS_PER_AGE).min(STEP_SECONDS_MAX);
            loop {
                let due = self.due.first().map(|(at, _)| *at);
                let next = [due, self.replay.next_at(), self.expected.next_at(), self.wake_at];
                now = match next.into_iter().flatten().min() {
                    Some(next) if next.max(step_end) <= until => next.max(step_end),
                    _ => return until,
                };
                if self.pass(now) {
                    break;
                }
            }
        }
        // Later than all that was looked at.
        until
    }

    /// Everything that is due happens. Returns whether a gang may start now that could not before. A gang that
    /// arrived and is like one that waits cannot, if none left.
    fn pass(&mut self, now: i64) -> bool {
        self.state.advance(time(now));
        let mut may_start = self.wake_at.is_some_and(|at| at <= now);
        self.wake_at = self.wake_at.filter(|at| *at > now);
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            let Some((at, gang)) = self.due.pop_first() else { break };
            if self.ends.get(&gang) == Some(&at) {
                self.ends.remove(&gang);
                self.remove(&gang);
                may_start = true;
            } else if self.leaving.get(&gang) == Some(&at) {
                self.leaving.remove(&gang);
                self.wait_again(&gang);
                may_start = true;
            }
        }
        may_start |= self.expected.arrive(&mut self.state, now);
        let classes_before = if may_start { 0 } else { self.state.waiting_class_count() };
        while self.replay.next_at().is_some_and(|at| at <= now) {
            for pod in self.replay.pop() {
                self.state.apply(ClusterChange::Pod(pod));
            }
        }
        may_start || self.state.waiting_class_count() > classes_before
    }

    /// Whether the gang starts now.
    fn plan(&mut self, now: i64, gang: &GangKey) -> bool {
        if self.state.waiting_gangs().len() == 0 && self.state.held_gangs().len() == 0 {
            return false;
        }
        let plan = plan(&mut self.state, self.policy, time(now));
        let starts = plan.placements.iter().any(|placement| placement.gang == *gang);
        if !starts {
            self.act(now, &plan);
        }
        starts
    }

    fn act(&mut self, now: i64, plan: &Plan) {
        // A plan fits the state that it is committed to. If it did not, the forecast would only be worse.
        let _committed = self.state.commit(plan);
        for placement in &plan.placements {
            for member in &placement.members {
                let Some(id) = self.state.pod_id(&member.pod) else { continue };
                let (node, devices) = (Some(member.node.clone()), member.devices.clone());
                let started = Some(time(now));
                let bound = Pod { node, devices, started, ..self.state.pod(id).pod().clone() };
                self.state.apply(ClusterChange::Pod(bound));
            }
            self.runs(placement.gang.clone(), now);
        }
        let mut has_opened = false;
        for placement in &plan.placements {
            has_opened |= self.expected.started(&mut self.state, &placement.gang);
        }
        for eviction in &plan.evictions {
            self.ends.remove(&eviction.gang);
            for pod in self.pods_of(&eviction.gang) {
                self.state.apply(ClusterChange::Pod(Pod { terminating: true, ..pod }));
            }
            self.leaves(eviction.gang.clone(), now);
        }
        let look_again_at = plan.look_again_at.map(|at| at.as_second().max(now + 1));
        self.wake_at = if has_opened { Some(now + 1) } else { look_again_at };
    }

    /// Draws the end of a gang that has started, unless it is drawn already; its time limit cuts it.
    fn runs(&mut self, gang: GangKey, now: i64) {
        let Some(known) = self.state.gang(&gang).filter(|_| !self.ends.contains_key(&gang)) else { return };
        let started = known.started().map_or(now, Timestamp::as_second);
        let (gpus, so_far) = (known.gpus_placed(), now - started);
        let limit = self.state.pod(known.lead()).pod().terms.time_limit_seconds;
        let drawn = self.laws.draw(&gang.namespace, gpus, so_far, &mut self.random);
        let length = limit.map_or(drawn, |limit| drawn.min(i64::from(limit)));
        let end = (started + length).max(now + 1);
        self.ends.insert(gang.clone(), end);
        self.due.insert((end, gang));
    }

    fn leaves(&mut self, gang: GangKey, now: i64) {
        self.leaving.insert(gang.clone(), now + GRACE_SECONDS);
        self.due.insert((now + GRACE_SECONDS, gang));
    }

    fn remove(&mut self, gang: &GangKey) {
        for pod in self.pods_of(gang) {
            self.state.apply(ClusterChange::PodGone(pod.key));
        }
    }

    /// A gang that gave way is back in its queue, as old as it was.
    fn wait_again(&mut self, gang: &GangKey) {
        let pods = self.pods_of(gang);
        self.remove(gang);
        for pod in pods {
            let PodKey { namespace, name, uid } = pod.key.clone();
            let key = PodKey::new(namespace, name, format!("{uid}+"));
            self.state.apply(ClusterChange::Pod(Pod { key, ..as_new(&pod) }));
        }
    }

    fn pods_of(&self, gang: &GangKey) -> Vec<Pod> {
        let members = self.state.gang(gang).into_iter().flat_map(cluster_model::Gang::members);
        members.map(|id| self.state.pod(id).pod().clone()).collect()
    }
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}
