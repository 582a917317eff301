//! The scheduler's loop: take in what changed, plan once, commit the plan, send its effects. Synchronous between two waits, on
//! a thread of its own.
//!
//! ```text
//!   wait ─► take in for a moment ─► all listed, something changed? ─► plan ─► commit ─► send effects
//!     ▲                                                                                     │
//!     └───────────────────────── tell people why gangs wait ◄──────────────────────────────┘
//! ```
//!
//! The dispatcher owns the state of the cluster. Each part owns what it remembers, takes events and the state, and returns
//! effects; only the outbox sends them.
//!
//! | part | what it remembers |
//! |---|---|
//! | `inputs.rs` | where events come from |
//! | `knowledge.rs` | what is listed, and what the leader before left |
//! | `pace.rs` | when to plan |
//! | `holds.rs` | which Holds are written, and which gangs land on them |
//! | `retries.rs` | pods whose bind failed |
//! | `unwinding.rs` | gangs that cannot go on as they are |
//! | `absent.rs` | gangs that seem to miss members |
//! | `machines.rs`, `moves.rs` | machines that are kept for a gang, or go; gangs that move to others |
//! | `lifted.rs` | taints that evict count a little longer than they last |
//! | `notices.rs` | what people were told |
//! | `observers.rs`, `lag.rs` | what is noted for those who ask, and for operators |
//! | `outbox.rs` | where effects go |

mod absent;
mod holds;
mod inputs;
mod knowledge;
mod lag;
mod lifted;
mod machines;
mod moves;
mod notices;
mod observers;
mod outbox;
mod pace;
mod retries;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod unwinding;

use std::time::Duration;

use cluster_apply::{BindReport, EvictOutcome, EvictReport, Outcome};
use cluster_model::plan::{Effect as ClusterEffect, EvictCause, Plan, WaitingGang};
use cluster_model::{Change, ClusterState};
use cluster_watch::Message;
use jiff::Timestamp;
use placement::Policy;
use tokio::time::Instant;
use tracing::{debug, error, info};

use self::absent::Absent;
use self::holds::HoldBook;
use self::inputs::Input;
use self::knowledge::Knowledge;
use self::lifted::Lifted;
use self::machines::Machines;
use self::notices::Notices;
use self::outbox::{Effect, Notice};
use self::pace::Pace;
use self::retries::Retries;
use self::unwinding::Unwinding;

pub use self::inputs::Inputs;
pub use self::knowledge::TakenOver;
pub use self::lag::Lag;
pub use self::observers::Observers;
pub use self::outbox::Outbox;

/// The loop and its parts.
pub struct Dispatcher {
    state: ClusterState,
    policy: Policy,
    /// Gangs that waited after the last plan.
    waiting: Vec<WaitingGang>,
    knowledge: Knowledge,
    pace: Pace,
    holds: HoldBook,
    retries: Retries,
    unwinding: Unwinding,
    absent: Absent,
    machines: Machines,
    lifted: Lifted,
    notices: Notices,
    observers: Observers,
    outbox: Outbox,
}

/// What an operator chose.
#[derive(Clone, Debug)]
pub struct Settings {
    /// By what is decided.
    pub policy: Policy,
    /// How long a gang stays bound in part when nothing gets on.
    pub unwind_after: Duration,
}

impl Dispatcher {
    /// A loop that knows nothing yet.
    pub fn new(settings: Settings, observers: Observers, outbox: Outbox) -> Self {
        let now = Instant::now();
        Self {
            state: ClusterState::default(),
            policy: settings.policy,
            waiting: Vec::new(),
            knowledge: Knowledge::default(),
            pace: Pace::new(now),
            holds: HoldBook::default(),
            retries: Retries::default(),
            unwinding: Unwinding::new(settings.unwind_after),
            absent: Absent::default(),
            machines: Machines::new(outbox.machines.is_some()),
            lifted: Lifted::default(),
            notices: Notices::new(now),
            observers,
            outbox,
        }
    }

    /// Runs until it is told to stop; gives its outbox back, so that writes in flight can be waited for.
    pub async fn run(mut self, mut inputs: Inputs, on_first_plan: impl FnOnce()) -> Outbox {
        let mut on_first_plan = Some(on_first_plan);
        while self.gather(&mut inputs).await {
            let has_planned = self.act(Instant::now(), inputs.watches.len());
            if let Some(first) = on_first_plan.take_if(|_| has_planned) {
                first();
            }
        }
        self.observers.end(&self.state);
        self.outbox
    }

    /// Takes in what comes, until something is due; false if the loop is to end.
    async fn gather(&mut self, inputs: &mut Inputs) -> bool {
        let mut deadline = self.next_timer();
        let mut is_gathering = false;
        loop {
            let input = inputs.next(deadline, is_gathering).await;
            is_gathering = true;
            // What was held until now counts for the queues that held it.
            self.state.advance(Timestamp::now());
            match input {
                Input::Stop => return false,
                Input::Timer => return true,
                Input::Watch(message) => self.take_in(message),
                Input::TakenOver(left) => self.knowledge.taken_over(left),
                Input::Bound(report) => self.settle_bind(report),
                Input::Evicted(report) => self.settle_eviction(&report),
                Input::Answer(answer) => self.absent.answered(&mut self.state, &answer),
                Input::Decided(decided) => {
                    let effects = self.machines.carry_out(&mut self.state, &decided);
                    self.outbox.send(effects);
                    // Gangs that wait are told something new.
                    self.pace.ask(Instant::now());
                }
                // Somebody wants to know how things are now. Before the first plan that is on its way anyhow, and
                // a moment that has passed would keep the watches from being read.
                Input::Asked if !self.pace.has_planned() => {}
                Input::Asked => self.pace.ask(Instant::now()),
            }
            // The first input starts the clock; what is known to be due does not wait for it.
            let gathered = self.pace.gather_until(Instant::now());
            deadline = Some(deadline.filter(|deadline| *deadline < gathered).unwrap_or(gathered));
        }
    }

    /// Does everything that is due; says whether a plan was made.
    fn act(&mut self, now: Instant, backlog: usize) -> bool {
        self.retries.release_due(&mut self.state, now);
        self.lifted.clear(&mut self.state, now);
        self.outbox.send(self.absent.take_due(now).into_iter().map(Effect::AskEnded));
        let plans = self.plan_at().is_some_and(|at| at <= now);
        if plans {
            if !self.pace.has_planned() {
                self.take_up();
            }
            self.plan();
        }
        if self.notices.next().is_some_and(|at| at <= now) {
            self.tell(now);
        }
        self.observers.measure_if_due(&self.state, now, backlog);
        if self.unwinding.next().is_some_and(|at| at <= now) {
            self.unwind(now);
        }
        plans
    }

    fn next_timer(&self) -> Option<Instant> {
        let moments = [
            self.retries.next(),
            self.lifted.next(),
            self.absent.next(),
            self.unwinding.next(),
            self.notices.next(),
            self.plan_at(),
        ];
        moments.into_iter().flatten().min()
    }

    fn plan_at(&self) -> Option<Instant> {
        self.knowledge.is_complete().then(|| self.pace.plan_at(self.state.generation())).flatten()
    }

    fn take_in(&mut self, message: Message) {
        match message {
            Message::Change(change) => {
                match &change {
                    // One that comes back under the same name has an empty status.
                    Change::QueueGone(queue) => {
                        let target = cluster_apply::Target::Queue(queue.clone());
                        self.outbox.send([Notice::Forget(target).into()]);
                    }
                    Change::PodGone(pod) => {
                        self.retries.ended(pod);
                        self.holds.landed(pod);
                    }
                    _ => {}
                }
                self.observers.change(&self.state, &change);
                self.apply(change);
            }
            Message::Synced(kind) => self.knowledge.synced(kind),
            Message::PodsAsOf(version) => self.knowledge.pods_as_of(version),
        }
    }

    /// Applies a change of the watches, as the planner is to know it.
    fn apply(&mut self, mut change: Change) {
        self.lifted.adapt(&mut change, Instant::now());
        self.machines.apply(&mut self.state, change);
    }

    /// Goes on with what the leader before left. To be called once, when everything is known and nothing is planned.
    fn take_up(&mut self) {
        let TakenOver { pods_as_of: _, runs, holds, accounts } = self.knowledge.take_left();
        for (queue, saved) in accounts {
            self.state.restore_accounts(&queue, &saved);
        }
        self.notices.take_up(runs);
        let (now, left) = (Timestamp::now().max(self.state.now()), holds.len());
        let effects = self.state.take_up_holds(holds, &self.policy, now);
        let kept = effects.iter().filter(|effect| matches!(effect, ClusterEffect::WriteHold(_))).count();
        info!(left, kept, "Took up the holds of the leader before.");
        self.send(effects);
    }

    fn plan(&mut self) {
        let started = Instant::now();
        // The state's time never goes back, though the clock may.
        let made_at = Timestamp::now().max(self.state.now());
        let mut plan = placement::plan(&mut self.state, &self.policy, made_at);
        let took = started.elapsed();
        let (gangs, waiting) = (plan.placements.len(), plan.waiting.len());
        debug!(generation = plan.generation, gangs, waiting, took_seconds = took.as_secs_f64(), "Planned.");
        #[cfg(debug_assertions)]
        self.judge(&plan);
        let decide = self.machines.explain(&mut plan.waiting);
        self.outbox.send(decide.map(Effect::from));
        self.observers.planned(&self.state, &self.policy, &plan, took);
        self.commit(&plan);
        self.pace.planned(&plan, self.state.generation(), started);
        self.unwinding.planned();
        self.waiting = plan.waiting;
        self.absent.planned(&self.state, &self.waiting, Instant::now());
    }

    /// Carries a plan out: on the state, and then in the cluster.
    fn commit(&mut self, plan: &Plan) {
        let committed = self.state.commit(plan);
        for misfit in committed.misfits {
            error!(error = %misfit, "The plan does not fit the state it was made from.");
        }
        // Before the binds: nobody is told that a gang waits once it has its nodes.
        self.outbox.send(self.notices.planned(plan).into_iter().map(Effect::from));
        self.send(committed.effects);
        let served = self.holds.clear_served(&self.state);
        self.send(served);
    }

    /// In debug builds the independent judge must agree with every plan.
    #[cfg(debug_assertions)]
    fn judge(&self, plan: &Plan) {
        let violations = plan_check::check_plan(&self.state, plan, &self.policy);
        for violation in &violations {
            error!(%violation, "The plan is wrong.");
        }
        assert!(violations.is_empty(), "the planner made a wrong plan, see the log");
    }

    /// A bound pod stays assumed until the watch shows it on its node. One that was not bound is planned again.
    fn settle_bind(&mut self, report: BindReport) {
        self.observers.bound(&self.state, &report);
        match report.outcome {
            Outcome::Bound => {
                self.retries.ended(&report.pod);
                self.holds.landed(&report.pod);
            }
            // The process is about to end, and nothing may be planned any more.
            Outcome::Fenced(_) => {}
            // Also what is gone: until the watch says so too, it would be planned and bound over and over.
            Outcome::Gone
            | Outcome::OnAnotherNode(_)
            | Outcome::Refused(_)
            | Outcome::Throttled(_)
            | Outcome::Unknown(_) => self.retries.not_bound(&self.state, report.pod, Instant::now()),
        }
    }

    /// A gang that leaves is seen in the watch. One that stays may be asked again.
    fn settle_eviction(&mut self, report: &EvictReport) {
        let (gang, outcome) = (&report.request.gang, report.outcome);
        if outcome == EvictOutcome::Refused {
            error!(%gang, "A gang cannot be evicted.");
        }
        match &report.request.cause {
            EvictCause::Claim { claimant, .. } => {
                holds::settle_claim(&mut self.state, gang, claimant, outcome);
            }
            EvictCause::Unwind { .. } => self.unwinding.ended(gang, outcome, Instant::now()),
            EvictCause::Move { .. } => self.machines.settle_move(&mut self.state, gang, outcome),
        }
    }

    /// Takes gangs off their nodes that cannot go on as they are.
    fn unwind(&mut self, now: Instant) {
        let failing = self.retries.failing_gangs(&self.state);
        let effects = self.unwinding.update(&self.state, &self.waiting, &failing, now);
        self.send(effects);
    }

    fn tell(&mut self, now: Instant) {
        let failing = self.retries.failing_gangs(&self.state);
        let in_part = unwinding::count_in_part(&self.state, &failing);
        self.observers.metrics.show_waiting(&self.waiting);
        self.observers.metrics.gangs_in_part.set(i64::try_from(in_part).unwrap_or(i64::MAX));
        let notices = self.notices.tell(&self.state, &self.waiting, &self.machines, now);
        self.outbox.send(notices.into_iter().map(Effect::from));
    }

    fn send(&mut self, effects: Vec<ClusterEffect>) {
        self.holds.note(&effects);
        self.outbox.send(effects.into_iter().map(Effect::from));
    }
}
