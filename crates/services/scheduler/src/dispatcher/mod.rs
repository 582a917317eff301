//! The scheduler's loop: takes in cluster changes, plans once, commits the plan, sends its effects. It has a
//! thread of its own, and is synchronous between two waits.
//!
//! ```text
//!   wait ─► take in for a moment ─► all listed, something changed? ─► plan ─► commit ─► send effects
//!     ▲                                                                                     │
//!     └──────────────────────── write why gangs wait ◄──────────────────────────────────────┘
//! ```
//!
//! The dispatcher owns the state of the cluster. Each part owns its memory, takes events and the state, and
//! returns effects; only the outbox sends them.
//!
//! | part | its memory |
//! |---|---|
//! | `inputs.rs` | the sources of events |
//! | `knowledge.rs` | which kinds are listed, and the state that the former leader left |
//! | `pace.rs` | when to plan |
//! | `holds.rs` | which Holds are written, and which gangs land on them |
//! | `retries.rs` | pods whose bind failed |
//! | `unwinding.rs` | gangs that cannot go on as they are |
//! | `absent.rs` | gangs that seem to miss members |
//! | `machines.rs`, `moves.rs` | machines that are kept for a gang, or go; gangs that move to others |
//! | `lifted.rs` | taints that evict count a little longer than they last |
//! | `notices.rs` | the reasons that people were shown |
//! | `observers.rs`, `lag.rs` | data for questions, and for operators |
//! | `outbox.rs` | the receivers of effects |

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

use cluster_apply::{BindOutcome, BindReport, EvictOutcome, EvictReport};
use cluster_model::plan::{Effect as ClusterEffect, EvictCause, Plan, WaitingGang};
use cluster_model::{ClusterChange, ClusterState};
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
use self::outbox::{DispatcherEffect, Notice};
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

/// The operator's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The planner's policy.
    pub policy: Policy,
    /// How long a gang may be bound in part without progress.
    pub unwind_after: Duration,
    /// Whether machines are bought.
    pub buys_machines: bool,
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
            machines: Machines::new(settings.buys_machines),
            lifted: Lifted::default(),
            notices: Notices::new(now),
            observers,
            outbox,
        }
    }

    /// Runs until it is told to stop; returns its outbox, so that the caller can wait for writes in flight.
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

    /// Takes in inputs until something is due; false if the loop is to end.
    async fn gather(&mut self, inputs: &mut Inputs) -> bool {
        let mut deadline = self.next_timer();
        let mut is_gathering = false;
        loop {
            let input = inputs.next(deadline, is_gathering).await;
            is_gathering = true;
            // What queues held until now counts as their use.
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
                    // Waiting gangs get new reasons.
                    self.pace.ask(Instant::now());
                }
                // Somebody asks for the present state. Before the first plan it is on its way anyway, and a
                // deadline in the past would keep the watches from being read.
                Input::Asked if !self.pace.has_planned() => {}
                Input::Asked => self.pace.ask(Instant::now()),
            }
            // The first input starts the gathering time; work that is already due does not wait for it.
            let gathered = self.pace.gather_until(Instant::now());
            deadline = Some(deadline.filter(|deadline| *deadline < gathered).unwrap_or(gathered));
        }
    }

    /// Does everything that is due; returns whether a plan was made.
    fn act(&mut self, now: Instant, backlog: usize) -> bool {
        self.retries.release_due(&mut self.state, now);
        self.lifted.clear(&mut self.state, now);
        self.outbox.send(self.absent.take_due(now).into_iter().map(DispatcherEffect::AskEnded));
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
                    // A queue that comes back under the same name has an empty status.
                    ClusterChange::QueueGone(queue) => {
                        let target = cluster_apply::Target::Queue(queue.clone());
                        self.outbox.send([Notice::Forget(target).into()]);
                    }
                    ClusterChange::PodGone(pod) => {
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

    /// Applies a cluster change from the watches, adapted for the planner.
    fn apply(&mut self, mut change: ClusterChange) {
        self.lifted.adapt(&mut change, Instant::now());
        self.machines.apply(&mut self.state, change);
    }

    /// Continues from the state that the former leader left. Call it once, when everything is known and nothing
    /// is planned.
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
        // The state's time never goes back, although the clock may.
        let made_at = Timestamp::now().max(self.state.now());
        let mut plan = placement::plan(&mut self.state, &self.policy, made_at);
        let took = started.elapsed();
        let (gangs, waiting) = (plan.placements.len(), plan.waiting.len());
        debug!(generation = plan.generation, gangs, waiting, took_seconds = took.as_secs_f64(), "Planned.");
        #[cfg(debug_assertions)]
        self.judge(&plan);
        let decide = self.machines.explain(&mut plan.waiting);
        self.outbox.send(decide.map(DispatcherEffect::from));
        self.observers.planned(&self.state, &self.policy, &plan, took);
        self.commit(&plan);
        self.pace.planned(&plan, self.state.generation(), started);
        self.unwinding.planned();
        self.waiting = plan.waiting;
        self.absent.planned(&self.state, &self.waiting, Instant::now());
    }

    /// Carries out a plan: in the state, and then in the cluster.
    fn commit(&mut self, plan: &Plan) {
        let committed = self.state.commit(plan);
        for misfit in committed.misfits {
            error!(error = %misfit, "The plan does not fit the state it was made from.");
        }
        // Before the binds: no object says that a gang waits once the gang has its nodes.
        self.outbox.send(self.notices.planned(plan).into_iter().map(DispatcherEffect::from));
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

    /// A bound pod stays assumed until the watch shows it on its node. A pod that was not bound is planned
    /// again.
    fn settle_bind(&mut self, report: BindReport) {
        self.observers.bound(&self.state, &report);
        match report.outcome {
            BindOutcome::Bound => {
                self.retries.ended(&report.pod);
                self.holds.landed(&report.pod);
            }
            // The process is about to end, and must not plan any more.
            BindOutcome::Fenced(_) => {}
            // Also for a pod that is gone: until the watch shows that too, it would be planned and bound over
            // and over.
            BindOutcome::Gone
            | BindOutcome::OnAnotherNode(_)
            | BindOutcome::Refused(_)
            | BindOutcome::Throttled(_)
            | BindOutcome::Unknown(_) => self.retries.not_bound(&self.state, report.pod, Instant::now()),
        }
    }

    /// A gang that leaves is seen in the watch. A gang that stays may be evicted again.
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

    /// Unwinds gangs that cannot go on as they are.
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
        self.outbox.send(notices.into_iter().map(DispatcherEffect::from));
    }

    fn send(&mut self, effects: Vec<ClusterEffect>) {
        self.holds.note(&effects);
        self.outbox.send(effects.into_iter().map(DispatcherEffect::from));
    }
}
