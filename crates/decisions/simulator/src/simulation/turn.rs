//! One moment: what is due happens, in a fixed order; then a plan is made and acted on.

use cluster_model::plan::{Effect, EvictCause, EvictRequest, GangPlacement, Plan};
use cluster_model::{ClusterChange, Node, NodeName};
use trace_format::Event;

use super::agenda::Due;
use super::attempt::{Attempt, Phase};
use super::{Happening, IDLE_WAKES_MAX, Simulation, Tidying, Watch, pods, time};

impl Simulation {
    /// When something happens next.
    pub(super) fn next_at(&self) -> Option<i64> {
        let arrival = self.arrivals.front().map(|job| self.jobs[*job as usize].submitted.as_second());
        let is_idle = arrival.is_none() && self.agenda.is_idle();
        // Only wakes and checkpoints are left: wakes may still start gangs that wait for a grace, but not for ever.
        if is_idle && (self.live.is_empty() || self.idle_wakes > IDLE_WAKES_MAX || self.wake_at.is_none()) {
            return None;
        }
        let tidy_at = self.tidy_at.filter(|_| !self.live.is_empty());
        let plan_at = self.needs_plan.then_some(self.now);
        let due = [arrival, self.agenda.next_at(), self.wake_at, tidy_at, plan_at];
        let next = due.into_iter().flatten().min()?.max(self.now);
        let is_late = self.options.until.is_some_and(|until| next > until.as_second());
        (!is_late).then_some(next)
    }

    pub(super) fn pass_moment(&mut self, at: i64, watch: &mut dyn Watch) {
        self.now = at;
        self.tally.moments += 1;
        self.books.reach(at);
        self.state.advance(time(at));
        while let Some(due) = self.agenda.pop(at) {
            self.happen(due, watch);
        }
        while let Some(job) = self.arrivals.front().copied().filter(|job| self.is_due(*job)) {
            self.arrivals.pop_front();
            self.arrive(job, watch);
        }
        if self.wake_at.is_some_and(|wake| wake <= at) {
            self.wake_at = None;
            self.needs_plan = true;
            self.idle_wakes += 1;
        }
        if self.needs_plan {
            self.needs_plan = false;
            self.plan(watch);
        }
        if let Some((_, tidying)) = self.tidy_at.filter(|tidy| *tidy <= at).zip(self.options.tidying) {
            self.tidy_at = Some(at + i64::from(tidying.every_seconds.max(1)));
            self.tidy(tidying, watch);
        }
    }

    /// Moves gangs off nodes that could be switched off.
    fn tidy(&mut self, tidying: Tidying, watch: &mut dyn Watch) {
        let plan = (tidying.plan)(&mut self.state, &self.policy, time(self.now));
        self.carry_out(&plan, watch);
        // Holds have a place in the next plan, and that says when to look again.
        self.needs_plan |= !plan.evictions.is_empty();
    }

    fn is_due(&self, job: u32) -> bool {
        self.jobs[job as usize].submitted.as_second() <= self.now
    }

    fn happen(&mut self, due: Due, watch: &mut dyn Watch) {
        match due {
            Due::End { job, version } if self.is_current(job, version) => self.end(job, watch),
            Due::Gone { job, version } if self.is_current(job, version) => self.requeue(job, true, watch),
            Due::Checkpoint { job, version } if self.is_current(job, version) => self.checkpoint(job),
            Due::Event(event) => self.event(*event, watch),
            Due::End { .. } | Due::Gone { .. } | Due::Checkpoint { .. } => {}
        }
    }

    fn is_current(&self, job: u32, version: u32) -> bool {
        self.live.get(&job).is_some_and(|attempt| attempt.version == version)
    }

    fn arrive(&mut self, number: u32, watch: &mut dyn Watch) {
        let job = &self.jobs[number as usize];
        let gang = self.names.gang(job);
        watch.happened(time(self.now), &Happening::Submitted { number, job });
        let attempt = Attempt::new(job, self.now);
        self.books.waits(self.now, job, true);
        self.tally.first_arrival.get_or_insert(self.now);
        self.tally.at_last_arrival = self.books.busy_and_present(self.now);
        self.by_gang.insert(gang, number);
        self.live.insert(number, attempt);
        self.create_pods(number, 1);
    }

    /// Pods of an attempt. They are as old as the time that the job has waited in all: a job that gave way keeps its
    /// place, and the time it ran does not count as waiting.
    fn create_pods(&mut self, number: u32, attempt: u32) {
        let job = &self.jobs[number as usize];
        let created = time(self.now - i64::from(self.records[number as usize].waited_seconds));
        for member in 0..job.members {
            let pod = self.names.pod(job, attempt, member, created);
            self.state.apply(ClusterChange::Pod(pod));
        }
        self.needs_plan = true;
    }

    fn remove_pods(&mut self, number: u32, attempt: u32) {
        let job = &self.jobs[number as usize];
        for member in 0..job.members {
            self.state.apply(ClusterChange::PodGone(self.names.key(job, attempt, member)));
        }
        self.needs_plan = true;
    }

    fn end(&mut self, number: u32, watch: &mut dyn Watch) {
        let Some(mut attempt) = self.live.remove(&number) else { return };
        self.leave_nodes(number, &attempt);
        self.remove_pods(number, attempt.number);
        let job = &self.jobs[number as usize];
        self.tally.spent += attempt.finish(job, self.now);
        self.tally.last_end = self.now;
        self.by_gang.remove(&self.names.gang(job));
        let record = &mut self.records[number as usize];
        record.ended = Some(since(record.submitted, self.now));
        watch.happened(time(self.now), &Happening::Ended { number, job });
    }

    /// A job is interrupted and goes back to its queue.
    fn requeue(&mut self, number: u32, preempted: bool, watch: &mut dyn Watch) {
        let Some(mut attempt) = self.live.remove(&number) else { return };
        self.leave_nodes(number, &attempt);
        self.remove_pods(number, attempt.number);
        let job = &self.jobs[number as usize];
        let spent_before = attempt.clone().finish(job, self.now);
        let lost = attempt.interrupt(job, self.now);
        self.tally.spent += spent_before - lost;
        self.tally.lost += lost;
        if preempted {
            self.tally.preempted += lost;
        }
        let record = &mut self.records[number as usize];
        let count = if preempted { &mut record.preemptions } else { &mut record.failures };
        *count = count.saturating_add(1);
        record.lost_gpu_seconds += lost / 1000;
        self.books.waits(self.now, job, true);
        watch.happened(time(self.now), &Happening::Requeued { number, job, lost_gpu_seconds: lost / 1000 });
        let next = attempt.number;
        self.live.insert(number, attempt);
        self.create_pods(number, next);
    }

    fn leave_nodes(&mut self, number: u32, attempt: &Attempt) {
        let job = &self.jobs[number as usize];
        for node in attempt.nodes.iter().flatten() {
            self.books.member(self.now, *node, number, job, false);
        }
        if attempt.phase == Phase::Waiting {
            self.books.waits(self.now, job, false);
        }
    }

    /// The job has saved its state: it would lose less from now on, and the planner may know.
    fn checkpoint(&mut self, number: u32) {
        let job = &self.jobs[number as usize];
        let Some(attempt) = self.live.get_mut(&number).filter(|it| it.phase == Phase::Running) else {
            return;
        };
        attempt.saved_at = self.now;
        let (version, attempt) = (attempt.version, attempt.number);
        for member in 0..job.members {
            let key = self.names.key(job, attempt, member);
            let change = pods::changed(&self.state, &key, |pod| pod.checkpointed = Some(time(self.now)));
            if let Some(change) = change {
                self.state.apply(change);
            }
        }
        if let Some(every) = job.checkpoint_seconds {
            self.agenda.note(self.now + i64::from(every), Due::Checkpoint { job: number, version });
        }
    }

    fn event(&mut self, event: Event, watch: &mut dyn Watch) {
        self.needs_plan = true;
        match event {
            Event::NodeUp(node) => self.node_up(node),
            Event::NodeDown(name) => self.node_down(&name, watch),
            Event::NodeLeaves { node: name, notice_seconds } => {
                if let Some(node) = self.books.node_object(&name).cloned() {
                    self.node_up(Node { schedulable: false, ..node });
                }
                let gone = self.now + i64::from(notice_seconds);
                self.agenda.note(gone, Due::Event(Box::new(Event::NodeDown(name))));
            }
            Event::Queue(queue) => self.set_queue(queue),
        }
    }

    pub(super) fn node_up(&mut self, node: Node) {
        self.books.node_up(self.now, &node);
        self.state.apply(ClusterChange::Node(node));
    }

    fn node_down(&mut self, name: &NodeName, watch: &mut dyn Watch) {
        for job in self.books.jobs_on(name) {
            self.requeue(job, false, watch);
        }
        self.books.node_down(self.now, name);
        self.state.apply(ClusterChange::NodeGone(name.clone()));
    }

    fn plan(&mut self, watch: &mut dyn Watch) {
        if self.state.waiting_gangs().len() == 0 && self.state.held_gangs().len() == 0 {
            return;
        }
        self.tally.plans += 1;
        let plan = placement::plan(&mut self.state, &self.policy, time(self.now));
        self.carry_out(&plan, watch);
        if !plan.placements.is_empty() || !plan.evictions.is_empty() {
            self.idle_wakes = 0;
        }
        self.look_again(&plan);
        watch.planned(&mut self.state, &plan);
    }

    /// Commits a plan, and does in the world what that asks for.
    fn carry_out(&mut self, plan: &Plan, watch: &mut dyn Watch) {
        let committed = self.state.commit(plan).whole();
        for effect in committed.expect("a plan is made for the state that it is committed to") {
            match effect {
                Effect::Bind(placement) => self.start(&placement, watch),
                Effect::Evict(request) => self.evict(&request, watch),
                // The model knows of holds itself: they are written for the next leader, and there is none here.
                Effect::WriteHold(_) | Effect::DeleteHold { .. } => {}
                Effect::CallOff(_) => unreachable!("a plan unwinds nothing"),
            }
        }
    }

    fn look_again(&mut self, plan: &Plan) {
        self.wake_at = plan.look_again_at.map(|at| at.as_second().max(self.now + 1));
    }

    fn start(&mut self, placement: &GangPlacement, watch: &mut dyn Watch) {
        let number = self.by_gang[&placement.gang];
        let job = &self.jobs[number as usize];
        let attempt = self.live.get_mut(&number).expect("a job with pods is on its way");
        let before = attempt.placed();
        for member in &placement.members {
            let node = self.books.node(&member.node).expect("a plan names nodes that are there");
            let change = pods::changed(&self.state, &member.pod, |pod| {
                pods::bind(pod, &member.node, time(self.now));
                pod.devices.clone_from(&member.devices);
            });
            let Some(ClusterChange::Pod(pod)) = change else { continue };
            let index = pod.member_index.unwrap_or(0) as usize;
            self.state.apply(ClusterChange::Pod(pod));
            attempt.nodes[index] = Some(node);
            self.books.member(self.now, node, number, job, true);
        }
        let is_new = attempt.phase == Phase::Waiting;
        if is_new {
            self.books.waits(self.now, job, false);
            let record = &mut self.records[number as usize];
            record.started.get_or_insert(since(record.submitted, self.now));
            record.waited_seconds =
                record.waited_seconds.saturating_add(since(attempt.waiting_since, self.now));
        }
        let again = if attempt.number > 1 { self.options.restart_seconds } else { 0 };
        let start_up = self.options.start_up_seconds + again;
        let end = attempt.start(job, self.now, start_up, before);
        let version = attempt.version;
        self.agenda.note(end, Due::End { job: number, version });
        // The planner looks at checkpoints only to choose victims.
        let eviction = self.policy.eviction;
        let may_evict = eviction.by_priority
            || eviction.reclaim
            || eviction.by_expected_work
            || self.policy.consolidation.moves_max > 0;
        if let Some(every) = job.checkpoint_seconds.filter(|every| *every > 0 && may_evict) {
            let at = self.now + i64::from(start_up) + i64::from(every);
            self.agenda.note(at, Due::Checkpoint { job: number, version });
        }
        watch.happened(time(self.now), &Happening::Started { number, job, placement });
    }

    /// The job is told to give way; its nodes are free when it is gone.
    fn evict(&mut self, request: &EvictRequest, watch: &mut dyn Watch) {
        let EvictCause::Claim { claimant, rule, .. } = &request.cause else {
            unreachable!("a plan evicts for claimants only")
        };
        let number = self.by_gang[&request.gang];
        let job = &self.jobs[number as usize];
        let Some(attempt) = self.live.get_mut(&number).filter(|it| it.phase == Phase::Running) else {
            return;
        };
        attempt.phase = Phase::Leaving;
        let (version, attempt) = (attempt.version, attempt.number);
        for member in 0..job.members {
            let key = self.names.key(job, attempt, member);
            let change = pods::changed(&self.state, &key, |pod| pod.terminating = true);
            if let Some(change) = change {
                self.state.apply(change);
            }
        }
        let gone = self.now + i64::from(self.options.eviction_grace_seconds);
        self.agenda.note(gone, Due::Gone { job: number, version });
        watch.happened(time(self.now), &Happening::Evicted { number, job, claimant, rule: *rule });
    }
}

/// Seconds from one moment to a later one.
fn since(from: i64, to: i64) -> u32 {
    u32::try_from((to - from).max(0)).unwrap_or(u32::MAX)
}
