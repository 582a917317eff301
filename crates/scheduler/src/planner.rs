//! The loop: take in what changed, plan once, hand over what was decided. Synchronous between two waits, on a
//! thread of its own.
//!
//! ```text
//!   wait ─► take in for ≤ 10 ms ─► all listed, something changed? ─► plan ─► assume ─► bind
//!     ▲                                                               │
//!     └───────────────── tell people why gangs wait ◄─────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster_apply::{BindReport, BindRequest, Binder, Outcome, StatusWriter, Target, Value};
use cluster_model::plan::{Plan, WaitingGang};
use cluster_model::{Change, ClusterState, GangKey, PodKey};
use cluster_watch::{Kind, Message};
use jiff::Timestamp;
use placement::Policy;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};

use crate::absent::{Absent, Ended};
use crate::explain;
use crate::metrics::Metrics;

/// Changes are gathered for this long after the first one, so that a gang's pods are planned together.
const COALESCE: Duration = Duration::from_millis(10);
/// Reasons and queue numbers are looked at once in this time: people do not read faster, and it costs O(waiting).
const EXPLAIN_PACE: Duration = Duration::from_millis(250);
/// Plans are made again at least so often while one of them asked for it: `Instant`s have no room for centuries.
const LOOK_AGAIN_MAX: Duration = Duration::from_hours(24);
/// A pod whose bind failed stays assumed for this long, then is planned again; doubles with each failure in a row.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_mins(1);

/// The loop and what it remembers.
pub struct Planner {
    state: ClusterState,
    policy: Policy,
    synced: BTreeSet<Kind>,
    planned: Option<u64>,
    /// When to plan again though nothing happens: the last plan said so.
    look_again_at: Option<Instant>,
    outputs: Outputs,
    retries: Retries,
    absent: Absent,
    waiting: Vec<WaitingGang>,
    told: BTreeMap<GangKey, Told>,
    explain_at: Option<Instant>,
    explained: Instant,
    /// Runs that a former leader said wait; taken back unless the first plan says so too.
    leftovers: Vec<Target>,
}

/// Where decisions go.
pub struct Outputs {
    /// Binds.
    pub binder: Binder,
    /// Reasons and queue numbers.
    pub status: StatusWriter,
    /// Gangs that seem to miss members.
    pub questions: mpsc::UnboundedSender<GangKey>,
    /// Numbers for operators.
    pub metrics: Metrics,
}

/// Where changes come from.
pub struct Inputs {
    /// The watches.
    pub watches: mpsc::Receiver<Message>,
    /// What became of binds.
    pub reports: mpsc::UnboundedReceiver<BindReport>,
    /// Members of gangs that ended, for [`Outputs::questions`].
    pub answers: mpsc::UnboundedReceiver<Ended>,
    /// Ends the loop.
    pub stop: CancellationToken,
}

/// What a waiting gang's objects were told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    run: Option<Target>,
    pod: Target,
}

#[expect(clippy::large_enum_variant, reason = "nearly every input is a change")]
enum Input {
    Watch(Message),
    Report(BindReport),
    Answer(Ended),
    Timer,
    Stop,
}

impl Planner {
    /// A loop that knows nothing yet.
    pub fn new(outputs: Outputs, leftovers: Vec<Target>) -> Self {
        Self {
            state: ClusterState::default(),
            policy: Policy::default(),
            synced: BTreeSet::new(),
            planned: None,
            look_again_at: None,
            outputs,
            retries: Retries::default(),
            absent: Absent::default(),
            waiting: Vec::new(),
            told: BTreeMap::new(),
            explain_at: None,
            explained: Instant::now(),
            leftovers,
        }
    }

    /// Runs until it is told to stop; gives the binder back, so that binds in flight can be waited for.
    pub async fn run(mut self, mut inputs: Inputs, on_first_plan: impl FnOnce()) -> Binder {
        let mut on_first_plan = Some(on_first_plan);
        loop {
            let mut deadline = self.next_timer();
            loop {
                let input = inputs.next(deadline).await;
                // What was held until now counts for the queues that held it.
                self.state.advance(Timestamp::now());
                match input {
                    Input::Stop => return self.outputs.binder,
                    Input::Timer => break,
                    Input::Watch(message) => self.take_in(message),
                    Input::Report(report) => self.settle(report),
                    Input::Answer(answer) => self.note_ended(&answer),
                }
                // The first input starts the clock; what is known to be due does not wait for it.
                let coalesced = Instant::now() + COALESCE;
                deadline = Some(deadline.filter(|deadline| *deadline < coalesced).unwrap_or(coalesced));
            }
            let now = Instant::now();
            self.retry_due(now);
            for gang in self.absent.take_due(now) {
                // Without a receiver the process is ending.
                let _ = self.outputs.questions.send(gang);
            }
            let is_due = self.look_again_at.is_some_and(|at| at <= now);
            if self.synced.len() == Kind::ALL.len()
                && (is_due || self.planned != Some(self.state.generation()))
            {
                self.plan();
                if let Some(first) = on_first_plan.take() {
                    first();
                }
            }
            self.explain_if_due(now);
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let moments = [self.retries.next(), self.absent.next(), self.explain_at, self.look_again_at];
        moments.into_iter().flatten().min()
    }

    fn take_in(&mut self, message: Message) {
        match message {
            Message::Change(change) => {
                match &change {
                    // One that comes back under the same name has an empty status.
                    Change::QueueGone(queue) => self.outputs.status.forget(&Target::Queue(queue.clone())),
                    Change::PodGone(pod) => self.retries.ended(pod),
                    _ => {}
                }
                self.state.apply(change);
            }
            Message::Synced(kind) => {
                self.synced.insert(kind);
            }
        }
    }

    /// A bound pod stays assumed until the watch shows it on its node. One that was not bound is planned again.
    fn settle(&mut self, report: BindReport) {
        self.outputs.metrics.count_bind(&report);
        match report.outcome {
            Outcome::Bound => self.retries.ended(&report.pod),
            // The process is about to end, and nothing may be planned any more.
            Outcome::Fenced(_) => {}
            // Also what is gone: until the watch says so too, it would be planned and bound over and over.
            Outcome::Gone
            | Outcome::OnAnotherNode(_)
            | Outcome::Refused(_)
            | Outcome::Throttled(_)
            | Outcome::Unknown(_) => self.retries.failed(report.pod, Instant::now()),
        }
    }

    fn retry_due(&mut self, now: Instant) {
        for pod in self.retries.take_due(now) {
            if self.state.pod_id(&pod).is_none() {
                // Its last report came after its end.
                self.retries.ended(&pod);
            }
            self.state.forget(&pod);
        }
    }

    fn note_ended(&mut self, Ended { gang, members }: &Ended) {
        self.absent.answered(gang);
        if *members > 0 {
            self.state.note_ended(gang, *members);
        }
    }

    fn plan(&mut self) {
        let started = Instant::now();
        // The state's time never goes back, though the clock may.
        let made_at = Timestamp::now().max(self.state.now());
        let plan = placement::plan(&mut self.state, &self.policy, made_at);
        let took = started.elapsed();
        self.outputs.metrics.plan_seconds.observe(took.as_secs_f64());
        let (gangs, waiting) = (plan.placements.len(), plan.waiting.len());
        debug!(generation = plan.generation, gangs, waiting, took_seconds = took.as_secs_f64(), "Planned.");
        #[cfg(debug_assertions)]
        self.judge(&plan);
        self.hand_over(&plan);
        self.planned = Some(self.state.generation());
        // In whole milliseconds, rounded up: a moment too early would find nothing new.
        self.look_again_at = plan.look_again_at.map(|at| {
            let milliseconds = at.as_millisecond() - made_at.as_millisecond() + 1;
            started + Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)).min(LOOK_AGAIN_MAX)
        });
        self.waiting = plan.waiting;
        self.absent.update(&self.waiting, Instant::now());
        if self.explain_at.is_none() {
            self.explain_at = Some(self.explained + EXPLAIN_PACE);
        }
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

    fn hand_over(&mut self, plan: &Plan) {
        let mut binds = Vec::new();
        for placement in &plan.placements {
            info!(gang = %placement.gang, queue = %placement.queue, members = placement.members.len(), "Placed gang.");
            if let Some(told) = self.told.remove(&placement.gang) {
                self.take_back(&told);
            }
            for member in &placement.members {
                // A condition must not be written any more once the pod may have a node.
                self.outputs.status.forget(&Target::Pod(member.pod.clone()));
                match self.state.assume(&member.pod, &member.node) {
                    Ok(()) => binds.push(BindRequest { pod: member.pod.clone(), node: member.node.clone() }),
                    Err(error) => error!(%error, "The plan does not fit the state it was made from."),
                }
            }
        }
        if !binds.is_empty() {
            self.outputs.binder.bind(binds);
        }
    }

    fn explain_if_due(&mut self, now: Instant) {
        if self.explain_at.is_none_or(|due| due > now) {
            return;
        }
        self.explain_at = None;
        self.explained = now;
        self.outputs.metrics.show_waiting(&self.waiting);
        self.outputs.metrics.gangs_in_part.set(self.gangs_in_part());
        self.tell_waiting();
        for (queue, usage) in self.state.queues() {
            let status = explain::queue_status(queue, usage);
            self.outputs.status.submit(Target::Queue(queue.name.clone()), Value::Queue(status));
        }
    }

    /// Gangs of which some members have or had a node while others wait for theirs.
    fn gangs_in_part(&self) -> i64 {
        let waiting = self.state.waiting_gangs().filter_map(|key| self.state.gang(key));
        let in_part = waiting.filter(|gang| {
            let started = gang.bound() + gang.ended();
            // Without a size nothing says that they must start together.
            let size = self.state.pod(gang.lead()).pod().gang_size;
            started > 0 && size.is_some_and(|size| started < size)
        });
        i64::try_from(in_part.count()).unwrap_or(i64::MAX)
    }

    fn tell_waiting(&mut self) {
        let mut told = BTreeMap::new();
        for gang in &self.waiting {
            let run = gang.run.as_ref().map(|run| Target::Run(gang.gang.namespace.clone(), run.clone()));
            let now = Told { run, pod: Target::Pod(gang.first_pod.clone()) };
            if let Some(run) = &now.run {
                self.outputs.status.submit(run.clone(), Value::Waiting(Some(explain::waiting(gang))));
            }
            self.outputs.status.submit(now.pod.clone(), explain::condition(gang));
            if let Some(before) = self.told.remove(&gang.gang)
                && before.pod != now.pod
            {
                self.outputs.status.forget(&before.pod);
            }
            told.insert(gang.gang.clone(), now);
        }
        // What is left does not wait any more.
        let ended = std::mem::replace(&mut self.told, told);
        let waiting: BTreeSet<_> = self.told.values().filter_map(|told| told.run.as_ref()).collect();
        for told in ended.into_values() {
            // Another attempt of the same run may wait now.
            let run = told.run.filter(|run| !waiting.contains(run));
            self.take_back(&Told { run, pod: told.pod });
        }
        for run in self.leftovers.drain(..).filter(|run| !waiting.contains(run)) {
            self.outputs.status.submit(run, Value::Waiting(None));
        }
    }

    fn take_back(&self, told: &Told) {
        self.outputs.status.forget(&told.pod);
        if let Some(run) = &told.run {
            self.outputs.status.clear_run(run);
        }
    }
}

impl Inputs {
    async fn next(&mut self, deadline: Option<Instant>) -> Input {
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
            Some(answer) = self.answers.recv() => Input::Answer(answer),
            message = self.watches.recv() => message.map_or(Input::Stop, Input::Watch),
        }
    }
}

/// Pods whose bind failed, until they are planned again. Bounded by the number of pods, and of those that ended
/// within [`RETRY_MAX`].
#[derive(Debug, Default)]
struct Retries {
    due: BTreeSet<(Instant, PodKey)>,
    /// In a row, of pods that are neither bound nor gone.
    failures: BTreeMap<PodKey, u32>,
}

impl Retries {
    fn failed(&mut self, pod: PodKey, now: Instant) {
        let failures = self.failures.entry(pod.clone()).or_default();
        let wait = RETRY_MAX.min(RETRY_MIN * 2_u32.pow((*failures).min(6)));
        *failures += 1;
        self.due.insert((now + wait, pod));
    }

    /// The pod is bound, or gone.
    fn ended(&mut self, pod: &PodKey) {
        self.failures.remove(pod);
    }

    fn next(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    fn take_due(&mut self, now: Instant) -> Vec<PodKey> {
        let mut pods = Vec::new();
        while self.due.first().is_some_and(|(due, _)| *due <= now) {
            pods.extend(self.due.pop_first().map(|(_, pod)| pod));
        }
        pods
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use cluster_apply::{BindReport, Binder, Fenced, Outcome, StatusWriter, Writes};
    use cluster_model::{Change, PodKey};
    use cluster_watch::Message;
    use kube::client::Body;
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::{Outputs, Planner, RETRY_MIN, Retries};
    use crate::metrics::Metrics;

    /// A planner with an empty cluster, whose API server is never asked.
    fn planner() -> Planner {
        let service = tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, Infallible>>()
        });
        let writes = Writes::new(kube::Client::new(service, "default"), Duration::from_secs(4));
        let status = StatusWriter::start(writes.clone(), Fenced::default());
        let (reports, _) = mpsc::unbounded_channel();
        let binder = Binder::start(writes, 1, status.clone(), Fenced::default(), reports);
        let (questions, _) = mpsc::unbounded_channel();
        let (metrics, _) = Metrics::new();
        Planner::new(Outputs { binder, status, questions, metrics }, Vec::new())
    }

    #[tokio::test]
    async fn a_pod_that_is_gone_is_not_planned_again_at_once_and_leaves_nothing_behind() {
        let pod = PodKey::new("ns", "pod", "uid");
        let gone = BindReport {
            pod: pod.clone(),
            node: "node".into(),
            outcome: Outcome::Gone,
            took: Duration::ZERO,
        };
        let mut planner = planner();
        let before = Instant::now();
        planner.settle(gone.clone());
        let due = planner.retries.next().expect("it is planned again later");
        assert!(due >= before + RETRY_MIN);
        planner.take_in(Message::Change(Change::PodGone(pod)));
        assert!(planner.retries.failures.is_empty(), "the watch says that it is gone");
        planner.settle(gone);
        planner.retry_due(Instant::now() + 2 * RETRY_MIN);
        assert!(planner.retries.failures.is_empty(), "the report came after the watch");
        assert_eq!(planner.retries.next(), None);
    }

    #[test]
    fn a_failing_pod_is_tried_less_and_less_often_until_it_is_bound() {
        let pod = PodKey::new("ns", "pod", "uid");
        let mut retries = Retries::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..8 {
            retries.failed(pod.clone(), now);
            let due = retries.next().expect("one is due");
            assert!(retries.take_due(due - Duration::from_millis(1)).is_empty());
            assert_eq!(retries.take_due(due), std::slice::from_ref(&pod));
            waits.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        retries.ended(&pod);
        assert!(retries.failures.is_empty(), "nothing is kept of a pod that is bound or gone");
        retries.failed(pod, now);
        assert_eq!(retries.next(), Some(now + Duration::from_secs(1)));
    }
}
