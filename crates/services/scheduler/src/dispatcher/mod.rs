//! The loop: take in what changed, plan once, hand over what was decided. Synchronous between two waits, on a
//! thread of its own.
//!
//! ```text
//!   wait ─► take in for a moment ─► all listed, something changed? ─► plan ─► hold, evict, assume, bind
//!     ▲                                                               │
//!     └───────────────── tell people why gangs wait ◄─────────────────┘
//! ```
//!
//! | | |
//! |---|---|
//! | `observe.rs` | what is noted for those who ask, and for operators |
//! | `hand_over.rs` | placements become binds |
//! | `lifted.rs` | taints that evict count a little longer than they last |
//! | `machines.rs` | machines that are bought: kept for their gang, closed before they go |
//! | `moves.rs` | who leaves bought machines for cheaper ones |
//! | `rooms.rs` | evictions and holds go to those who write them, and end when they have served |
//! | `restore.rs` | what the leader before left under way |
//! | `settle.rs` | what became of binds |
//! | `tell.rs` | what people are told |

mod hand_over;
mod lifted;
mod machines;
mod moves;
mod observe;
mod restore;
mod rooms;
mod settle;
mod tell;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api_types::Hold;
use cluster_apply::{
    BindReport, Binder, EventWriter, EvictReport, Evictor, HoldWriter, StatusWriter, Target,
};
#[cfg(debug_assertions)]
use cluster_model::plan::Plan;
use cluster_model::plan::WaitingGang;
use cluster_model::{Change, ClusterState, Gang, GangKey, QueueName, SavedAccounts};
use cluster_watch::{Kind, Message};
use futures::FutureExt;
use jiff::Timestamp;
use placement::Policy;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use self::lifted::Lifted;
use self::machines::Machines;
use self::rooms::Rooms;
use self::settle::Retries;
use self::tell::{EXPLAIN_PACE, Told};
use crate::absent::{Absent, Ended};
use crate::lag::Lag;
use crate::machines::{CapacityBackend, Decided};
use crate::metrics::Metrics;
use crate::record::Record;
use crate::spans::Spans;
use crate::tell::desk::Desk;
use crate::tell::learned::Teller;
use crate::unwind::{Unwinding, is_in_part};

/// Changes are gathered for this long after the first one, so that a gang's pods are planned together.
const COALESCE: Duration = Duration::from_millis(10);
/// While they are gathered they are taken in at once, after a pause of this long: a thread that wakes for each of a thousand
/// binds in a second spends more on waking than on taking in. Long lists fill the channels in some 100 ms.
const PAUSE: Duration = Duration::from_millis(5);
/// After a plan they are gathered for so many times as long as it took, so that planning takes a tenth of the time: while
/// thousands leave and start one after the other, every plan looks at all of them …
const REST_FACTOR: u32 = 9;
/// … but for no longer than this.
const REST_MAX: Duration = Duration::from_millis(500);
/// Plans are made again at least so often while one of them asked for it: `Instant`s have no room for centuries.
const LOOK_AGAIN_MAX: Duration = Duration::from_hours(24);

/// The loop and what it remembers.
pub struct Planner {
    state: ClusterState,
    policy: Policy,
    synced: BTreeSet<Kind>,
    planned: Option<u64>,
    /// When to plan again though nothing happens: the last plan said so.
    look_again_at: Option<Instant>,
    /// Until then changes are gathered, unless somebody asks: the last plan was work.
    rests_until: Instant,
    /// When somebody asked for a plan of now.
    asked_at: Option<Instant>,
    outputs: Outputs,
    retries: Retries,
    rooms: Rooms,
    machines: Machines,
    lifted: Lifted,
    unwinding: Unwinding,
    absent: Absent,
    waiting: Vec<WaitingGang>,
    told: BTreeMap<GangKey, Told>,
    explain_at: Option<Instant>,
    explained: Instant,
    measured: Option<Instant>,
    lag: Lag,
    /// How far pods are known.
    pods_as_of: u64,
    /// What is known once nobody else writes any more.
    taken_over: Option<TakenOver>,
}

/// What an operator chose.
#[derive(Clone, Debug)]
pub struct Settings {
    /// By what is decided.
    pub policy: Policy,
    /// How long a gang stays bound in part when nothing gets on.
    pub unwind_after: Duration,
}

/// What the leader before left, listed when it could not write any more.
#[derive(Debug, Default)]
pub struct TakenOver {
    /// A version of pods after all that it wrote: nothing is planned before pods are known so far.
    pub pods_as_of: u64,
    /// Runs that it said wait; taken back unless the first plan says so too.
    pub runs: Vec<Target>,
    /// Room that it kept.
    pub holds: Vec<Hold>,
    /// What queues had used and saved.
    pub accounts: Vec<(QueueName, SavedAccounts)>,
}

/// Where decisions go.
pub struct Outputs {
    /// Binds.
    pub binder: Binder,
    /// Pods that are told to go.
    pub evictor: Evictor,
    /// Room that is kept.
    pub holds: HoldWriter,
    /// Who buys machines, if anybody does.
    pub machines: Option<Arc<dyn CapacityBackend>>,
    /// What people should see.
    pub events: EventWriter,
    /// The epoch in which we lead.
    pub epoch: i64,
    /// Reasons and queue numbers.
    pub status: StatusWriter,
    /// Gangs that seem to miss members.
    pub questions: mpsc::UnboundedSender<GangKey>,
    /// Numbers for operators.
    pub metrics: Metrics,
    /// Those who ask why and when.
    pub teller: Teller,
    /// The file that the history goes to, if there is one.
    pub record: Option<Record>,
    /// Traces for a collector, if there is one.
    pub spans: Option<Spans>,
}

impl Outputs {
    /// Begins nothing more, and waits for what is under way, for as long as the server takes to give it up.
    pub async fn stop(self) {
        let Self { binder, evictor, holds, events, status, .. } = self;
        tokio::join!(binder.stop(), evictor.stop(), holds.stop(), events.stop(), status.stop());
    }
}

/// Where changes come from.
pub struct Inputs {
    /// The watches.
    pub watches: mpsc::Receiver<Message>,
    /// What the leader before left, once.
    pub taken_over: mpsc::Receiver<TakenOver>,
    /// What became of binds.
    pub reports: mpsc::UnboundedReceiver<BindReport>,
    /// What became of evictions.
    pub evictions: mpsc::UnboundedReceiver<EvictReport>,
    /// Members of gangs that ended, for [`Outputs::questions`].
    pub answers: mpsc::UnboundedReceiver<Ended>,
    /// What is to be done about machines.
    pub decided: mpsc::Receiver<Decided>,
    /// Where somebody may ask for a plan of now.
    pub desk: Arc<Desk>,
    /// Ends the loop.
    pub stop: CancellationToken,
}

#[expect(clippy::large_enum_variant, reason = "nearly every input is a change")]
enum Input {
    Watch(Message),
    TakenOver(TakenOver),
    Report(BindReport),
    Evicted(EvictReport),
    Answer(Ended),
    Decided(Decided),
    Asked,
    Timer,
    Stop,
}

impl Planner {
    /// A loop that knows nothing yet.
    pub fn new(settings: Settings, outputs: Outputs) -> Self {
        Self {
            state: ClusterState::default(),
            policy: settings.policy,
            synced: BTreeSet::new(),
            planned: None,
            look_again_at: None,
            rests_until: Instant::now(),
            asked_at: None,
            outputs,
            retries: Retries::default(),
            rooms: Rooms::default(),
            machines: Machines::default(),
            lifted: Lifted::default(),
            unwinding: Unwinding::new(settings.unwind_after),
            absent: Absent::default(),
            waiting: Vec::new(),
            told: BTreeMap::new(),
            explain_at: None,
            explained: Instant::now(),
            measured: None,
            lag: Lag::default(),
            pods_as_of: 0,
            taken_over: None,
        }
    }

    /// Runs until it is told to stop; gives its outputs back, so that writes in flight can be waited for.
    pub async fn run(mut self, mut inputs: Inputs, on_first_plan: impl FnOnce()) -> Outputs {
        let mut on_first_plan = Some(on_first_plan);
        loop {
            let mut deadline = self.next_timer();
            let mut is_gathering = false;
            loop {
                let input = inputs.next(deadline, is_gathering).await;
                is_gathering = true;
                // What was held until now counts for the queues that held it.
                self.state.advance(Timestamp::now());
                match input {
                    Input::Stop => {
                        self.observe_end();
                        return self.outputs;
                    }
                    Input::Timer => break,
                    Input::Watch(message) => self.take_in(message),
                    Input::TakenOver(taken_over) => self.taken_over = Some(taken_over),
                    Input::Report(report) => self.settle(report),
                    Input::Evicted(report) => self.settle_eviction(&report),
                    Input::Answer(answer) => self.note_ended(&answer),
                    Input::Decided(decided) => self.carry_out(&decided),
                    // Somebody wants to know how things are now. Before the first plan that is on its way anyhow, and
                    // a moment that has passed would keep the watches from being read.
                    Input::Asked if self.planned.is_none() => {}
                    Input::Asked => self.asked_at = Some(Instant::now()),
                }
                // The first input starts the clock; what is known to be due does not wait for it.
                let coalesced = Instant::now() + COALESCE;
                let coalesced =
                    if self.asked_at.is_some() { coalesced } else { coalesced.max(self.rests_until) };
                deadline = Some(deadline.filter(|deadline| *deadline < coalesced).unwrap_or(coalesced));
            }
            let now = Instant::now();
            self.retry_due(now);
            self.clear_lifted(now);
            for gang in self.absent.take_due(now) {
                // Without a receiver the process is ending.
                let _ = self.outputs.questions.send(gang);
            }
            if self.plan_at().is_some_and(|at| at <= now) {
                if self.planned.is_none() {
                    self.restore();
                }
                self.plan();
                if let Some(first) = on_first_plan.take() {
                    first();
                }
            }
            self.explain_if_due(now);
            self.measure_if_due(now, inputs.watches.len());
            if self.unwinding.next().is_some_and(|at| at <= now) {
                self.unwind(now);
            }
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let moments = [
            self.retries.next(),
            self.lifted.next(),
            self.absent.next(),
            self.unwinding.next(),
            self.explain_at,
            self.plan_at(),
        ];
        moments.into_iter().flatten().min()
    }

    /// When to plan next, as things stand. After the rest of the last plan, whatever is due: a plan that comes at once,
    /// again and again, would keep the inputs from being read.
    fn plan_at(&self) -> Option<Instant> {
        if !self.knows_everything() {
            return None;
        }
        let changed = (self.planned != Some(self.state.generation())).then_some(self.rests_until);
        let due = self.look_again_at.map(|at| at.max(self.rests_until));
        [self.asked_at, changed, due].into_iter().flatten().min()
    }

    /// Everything is listed, and the leader before could not change anything that we have not heard of.
    fn knows_everything(&self) -> bool {
        self.synced.len() == Kind::ALL.len()
            && self.taken_over.as_ref().is_some_and(|it| it.pods_as_of <= self.pods_as_of)
    }

    fn take_in(&mut self, message: Message) {
        match message {
            Message::Change(change) => {
                match &change {
                    // One that comes back under the same name has an empty status.
                    Change::QueueGone(queue) => self.outputs.status.forget(&Target::Queue(queue.clone())),
                    Change::PodGone(pod) => {
                        self.retries.ended(pod);
                        self.rooms.landed(pod);
                    }
                    _ => {}
                }
                self.observe_change(&change);
                self.apply(change);
            }
            Message::Synced(kind) => {
                self.synced.insert(kind);
            }
            Message::PodsAsOf(version) => self.pods_as_of = self.pods_as_of.max(version),
        }
    }

    /// Applies a change of the watches, as the planner is to know it.
    fn apply(&mut self, mut change: Change) {
        self.lifted.adapt(&mut change, Instant::now());
        let first_machine_of = self.machines.adapt(&mut change);
        self.state.apply(change);
        if let Some(mark) = first_machine_of {
            self.let_in(&mark);
        }
    }

    fn plan(&mut self) {
        let started = Instant::now();
        // The state's time never goes back, though the clock may.
        let made_at = Timestamp::now().max(self.state.now());
        let mut plan = placement::plan(&mut self.state, &self.policy, made_at);
        let took = started.elapsed();
        self.outputs.metrics.plan_seconds.observe(took.as_secs_f64());
        let (gangs, waiting) = (plan.placements.len(), plan.waiting.len());
        debug!(generation = plan.generation, gangs, waiting, took_seconds = took.as_secs_f64(), "Planned.");
        #[cfg(debug_assertions)]
        self.judge(&plan);
        self.add_machines(&mut plan.waiting);
        self.observe_plan(&plan, took);
        self.make_room(&plan);
        self.hand_over(&plan);
        self.clear_rooms();
        self.planned = Some(self.state.generation());
        // In whole milliseconds, rounded up: a moment too early would find nothing new.
        self.look_again_at = plan.look_again_at.map(|at| {
            let milliseconds = at.as_millisecond() - made_at.as_millisecond() + 1;
            started + Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)).min(LOOK_AGAIN_MAX)
        });
        self.asked_at = None;
        self.rests_until = Instant::now() + REST_MAX.min(started.elapsed() * REST_FACTOR);
        self.waiting = plan.waiting;
        let state = &self.state;
        // What an answer said of members that ended may be over.
        let in_doubt = |gang: &Gang| gang.ended() > 0 || is_in_part(state, gang);
        let in_doubt = |gang: &GangKey| state.gang(gang).is_some_and(in_doubt);
        self.absent.update(&self.waiting, in_doubt, Instant::now());
        if self.explain_at.is_none() {
            self.explain_at = Some(self.explained + EXPLAIN_PACE);
        }
    }

    /// In debug builds the independent judge must agree with every plan.
    #[cfg(debug_assertions)]
    fn judge(&self, plan: &Plan) {
        let violations = plan_check::check_plan(&self.state, plan, &self.policy);
        for violation in &violations {
            tracing::error!(%violation, "The plan is wrong.");
        }
        assert!(violations.is_empty(), "the planner made a wrong plan, see the log");
    }
}

impl Inputs {
    /// The next input, or that the deadline has come. Who gathers and finds nothing pauses before it looks again.
    async fn next(&mut self, deadline: Option<Instant>, is_gathering: bool) -> Input {
        if is_gathering {
            let now = Instant::now();
            let is_due = !self.stop.is_cancelled() && deadline.is_some_and(|deadline| deadline <= now);
            if is_due {
                return Input::Timer;
            }
            // Without a budget, which would look like nothing once in 128 inputs.
            if let Some(input) = tokio::task::unconstrained(self.wait(None)).now_or_never() {
                return input;
            }
            let pause = now + PAUSE;
            // A pause until the deadline would keep what comes meanwhile from the plan.
            if deadline.is_none_or(|deadline| pause < deadline) {
                tokio::time::sleep_until(pause).await;
            }
        }
        self.wait(deadline).await
    }

    async fn wait(&mut self, deadline: Option<Instant>) -> Input {
        let timer = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // In this order: an end is not delayed by changes, and neither is a plan that is due.
            biased;
            () = self.stop.cancelled() => Input::Stop,
            () = timer => Input::Timer,
            Some(report) = self.reports.recv() => Input::Report(report),
            Some(report) = self.evictions.recv() => Input::Evicted(report),
            Some(answer) = self.answers.recv() => Input::Answer(answer),
            Some(taken_over) = self.taken_over.recv() => Input::TakenOver(taken_over),
            Some(decided) = self.decided.recv() => Input::Decided(decided),
            () = self.desk.plan_again() => Input::Asked,
            message = self.watches.recv() => message.map_or(Input::Stop, Input::Watch),
        }
    }
}
