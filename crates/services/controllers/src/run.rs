//! The Run controller: one reconcile is a short walk of steps, each decided afresh from the objects.
//!
//! ```text
//!   ┌► dereference (Job, pods) ─► validate ─► decide ─► build ─► apply ─► update_status ─┐
//!   └────────────────────── until nothing is left but waiting ◄──────────────────────────┘
//! ```
//!
//! It takes no hint of what changed and keeps nothing between two calls: it may die at any `?`, and the next call,
//! in this process or another, goes on from the objects alone.

pub mod apply;
pub mod attempts;
pub mod backoff;
pub mod build;
pub mod decide;
pub mod dereference;
pub mod elastic;
pub mod environment;
pub mod failure;
pub mod interruption;
pub mod job;
pub mod lost;
pub mod member;
pub mod reporting;
pub mod saved;
pub mod sight;
pub mod status;
pub mod teardown;
#[cfg(test)]
pub(crate) mod testing;
pub mod validate;
mod volumes;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use api_types::run::AttemptOutcome;
use api_types::{Run, RunStatus};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::PropagationPolicy;
use kube::runtime::controller::Action;
use kube::runtime::reflector::Store;
use tracing::{debug, info};

use self::build::{Applied, AttemptPlan, Resources, Surroundings};
use self::decide::{Conclusion, Step};
use self::interruption::Interruption;
use self::job::JobFacts;
use self::sight::{Sight, World};
use self::validate::{Invalid, ValidatedRun};
use crate::members::{Members, RunKey};
use crate::nodes::{self, Nodes, NodesByName};

/// A new Run needs six steps until it is followed, and the longest way from anywhere to rest is nine; more would be a
/// decision that does not get on.
const STEPS_MAX: u32 = 12;
/// How often a Run that is not over is looked at without any event.
const RECHECK: Duration = Duration::from_mins(1);
/// The same while members are leaving: a machine that is silent says nothing when its time is up.
const RECHECK_TOLD: Duration = Duration::from_secs(5);
/// How soon to look again for something that is about to go.
const SOON: Duration = Duration::from_secs(1);

/// What a reconcile works with.
pub struct Context {
    /// The client for reads and writes.
    pub client: kube::Client,
    /// Jobs, as the watch has them.
    pub jobs: Store<Job>,
    /// Pods of each Run, as the watch has them.
    pub members: Members,
    /// Nodes, as the watch has them.
    pub nodes: Nodes,
    /// What the platform has around its Runs.
    pub around: Surroundings,
}

/// Why a reconcile stopped half-way; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not do it.
    #[error("failed to {attempted} `{name}`")]
    Api {
        /// What was attempted.
        attempted: &'static str,
        /// On which object.
        name: String,
        /// What it said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server will never do it; the Run is over.
    #[error("{message}")]
    Refused {
        /// The word for the Run's status.
        reason: String,
        /// The sentence for the Run's status.
        message: String,
    },
    /// Something of an earlier Run of the same name still has the name.
    #[error("`{name}` of an earlier run of the same name is not gone yet")]
    NotGoneYet {
        /// The object's name.
        name: String,
    },
    /// The object has no name, namespace or UID, which the API server never sends.
    #[error("the run has no {0}")]
    Incomplete(&'static str),
    /// A reconcile panicked; its message is on stderr.
    #[error("the reconcile panicked")]
    Panicked,
    /// The steps do not come to an end.
    #[error("gave up after {STEPS_MAX} steps; the last was {last:?}")]
    Endless {
        /// The last step.
        last: Box<Step>,
    },
}

impl Error {
    fn api(attempted: &'static str, name: &str) -> impl FnOnce(kube::Error) -> Self {
        let name = name.to_owned();
        move |source| Self::Api { attempted, name, source: Box::new(source) }
    }

    /// What the API server, or the way to it, said.
    pub fn answer(&self) -> Option<String> {
        let Self::Api { source, .. } = self else { return None };
        Some(match source.as_ref() {
            kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
            other => other.to_string(),
        })
    }

    /// The API server's words, if it forbids this for now.
    fn forbidden(&self) -> Option<String> {
        let Self::Api { source, .. } = self else { return None };
        match source.as_ref() {
            kube::Error::Api(status) if status.code == 403 => Some(status.message.clone()),
            _ => None,
        }
    }

    /// Whether we decided on an object that has changed since: no fault, the watch brings the new one.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source, .. } if apply::is_code(source, 409))
    }
}

/// Takes a Run as far as it can go now.
pub async fn reconcile(run: Arc<Run>, context: Arc<Context>) -> Result<Action, Error> {
    let run = Arc::unwrap_or_clone(run);
    let key = RunKey {
        namespace: run.namespace().ok_or(Error::Incomplete("namespace"))?,
        name: run.metadata.name.clone().ok_or(Error::Incomplete("name"))?,
    };
    if run.metadata.deletion_timestamp.is_some() {
        teardown::run(&context, &key, &run).await?;
        return Ok(Action::await_change());
    }
    let validity = validate::validate(&run);
    let nodes = context.nodes.now();
    let room = room(&context, &run, &nodes);
    let mut walk = Walk { context: &context, key: &key, nodes: &nodes, room, run, fresh: None };
    let mut last = Step::Rest;
    for _ in 0..STEPS_MAX {
        let job = match walk.fresh.take() {
            Some(Answer(job)) => job,
            None => dereference::job(&context, &key, &walk.run).await?,
        };
        let pods = context.members.of(&key);
        let sight = Sight { run: &walk.run, job: job.as_ref(), pods: &pods };
        let step = decide::next(sight, validity.as_ref().map(|_| ()), &walk.world());
        debug!(run = %key.name, namespace = %key.namespace, ?step, "Decided.");
        last = step.clone();
        if let ControlFlow::Break(action) = Box::pin(walk.take(step, job, validity.as_ref())).await? {
            return Ok(action);
        }
    }
    Err(Error::Endless { last: Box::new(last) })
}

/// How many more members of an elastic Run there is room for.
fn room(context: &Context, run: &Run, nodes: &NodesByName) -> u32 {
    if run.spec.min_members.is_none() {
        return 0;
    }
    elastic::room(&run.spec, nodes, &context.members.gpus_by_node())
}

/// One reconcile on its way.
struct Walk<'a> {
    context: &'a Context,
    key: &'a RunKey,
    nodes: &'a NodesByName,
    /// How many more members there is room for, if the Run is elastic.
    room: u32,
    /// As the API server answered last.
    run: Run,
    /// The Job as the API server answered to the last step, or that it is gone: newer than the cache.
    fresh: Option<Answer>,
}

/// What the API server said about a Job: `None` if it is gone.
struct Answer(Option<JobFacts>);

impl Walk<'_> {
    fn world(&self) -> World<'_> {
        World {
            nodes: self.nodes,
            is_deaf: nodes::are_mostly_silent(self.nodes),
            room: self.room,
            now: Timestamp::now(),
        }
    }

    /// Takes one step; breaks when nothing is left but to wait. `job` is what the step was decided from.
    async fn take(
        &mut self,
        step: Step,
        job: Option<JobFacts>,
        validity: Result<&ValidatedRun, &Invalid>,
    ) -> Result<ControlFlow<Action>, Error> {
        let (context, key) = (self.context, self.key);
        let attempt = self.run.status.as_ref().and_then(|status| status.attempts.last());
        let name = attempt.map(|attempt| attempt.job_name.clone()).unwrap_or_default();
        match step {
            Step::AddFinalizer => self.run = apply::add_finalizer(context, &self.run).await?,
            Step::RecordAttempt => {
                let members = elastic::next_members(&self.run, &self.world());
                self.write(status::with_attempt(&self.run, members, Timestamp::now())).await?;
            }
            Step::CreateChildren => self.create_children(validity).await?,
            Step::RecordJob { uid } => {
                self.write(status::with_job(&self.run, &uid)).await?;
                self.fresh = Some(Answer(job));
            }
            Step::RecordTold(interruption) => {
                self.write(attempts::tell(&self.run, &interruption, Timestamp::now())).await?;
                self.fresh = Some(Answer(job));
                let Interruption { reason, message } = interruption;
                info!(run = %key.name, namespace = %key.namespace, job = %name, reason, message, "The attempt has to end.");
            }
            Step::SuspendJob => {
                let uid = job.map(|job| job.uid).unwrap_or_default();
                let told = apply::suspend_job(context, key, &name, &uid, Timestamp::now()).await?;
                self.fresh = Some(Answer(Some(told)));
            }
            Step::ResumeJob => {
                let seen = job.unwrap_or_default();
                self.fresh = Some(Answer(Some(apply::resume_job(context, key, &name, &seen).await?)));
                info!(run = %key.name, namespace = %key.namespace, job = %name, "Started the run's Job.");
            }
            Step::DeleteJob => {
                let uid = job.map(|job| job.uid).unwrap_or_default();
                let left =
                    apply::delete_job(context, key, &name, &uid, PropagationPolicy::Foreground).await?;
                info!(run = %key.name, namespace = %key.namespace, job = %name, "Deleted the Job of a stopped run.");
                if left.is_none() {
                    return Ok(ControlFlow::Break(Action::requeue(SOON)));
                }
                self.fresh = Some(Answer(left));
            }
            Step::DiscardJob { uid } => {
                apply::delete_job(context, key, &name, &uid, PropagationPolicy::Background).await?;
                apply::release_job(context, key, &name, &uid).await?;
                info!(run = %key.name, namespace = %key.namespace, job = %name, "Discarded a Job that never started.");
                // The cache still has it; asking it again now would only repeat this.
                return Ok(ControlFlow::Break(Action::requeue(SOON)));
            }
            Step::AwaitName => return Ok(ControlFlow::Break(Action::requeue(SOON))),
            Step::Follow => {
                let pods = context.members.of(key);
                let sight = Sight { run: &self.run, job: job.as_ref(), pods: &pods };
                let usual = if sight.is_told() { RECHECK_TOLD } else { RECHECK };
                let resized = elastic::next_look(sight, Timestamp::now());
                let recheck = resized.map_or(usual, |resized| usual.min(resized.max(SOON)));
                self.write(status::follow(sight, Timestamp::now())).await?;
                if let Some(news) = saved::news(&self.run, &pods) {
                    saved::tell(context, key, news).await;
                }
                return Ok(ControlFlow::Break(Action::requeue(recheck)));
            }
            Step::Conclude(conclusion) => {
                self.conclude(job.as_ref(), &conclusion).await?;
                self.fresh = Some(Answer(job));
            }
            Step::ReleaseAttempt => self.release_attempt(&name, job.as_ref()).await?,
            Step::Pause => {
                self.write(status::paused(&self.run, Timestamp::now())).await?;
                return Ok(ControlFlow::Break(Action::await_change()));
            }
            Step::AwaitDue => {
                let due = self.run.status.as_ref().and_then(|status| status.next_attempt_at.as_ref());
                let wait =
                    due.and_then(|due| Duration::try_from(due.0.duration_since(Timestamp::now())).ok());
                return Ok(ControlFlow::Break(Action::requeue(wait.unwrap_or_default().max(SOON))));
            }
            Step::ReleaseJob => {
                let uid = job.map(|job| job.uid).unwrap_or_default();
                apply::delete_service(context, &self.run, &name).await?;
                apply::release_job(context, key, &name, &uid).await?;
                self.write(status::acknowledged(&self.run)).await?;
                // The cache still has it; a restart that waits is looked at when it has not.
                return Ok(ControlFlow::Break(Action::requeue(SOON)));
            }
            Step::Rest => {
                self.write(status::acknowledged(&self.run)).await?;
                return Ok(ControlFlow::Break(Action::await_change()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Lets go of an attempt after which another one follows. What an interrupted one left is of no use to anybody; the
    /// pods of one that failed have logs.
    async fn release_attempt(&mut self, name: &str, job: Option<&JobFacts>) -> Result<(), Error> {
        let (context, key) = (self.context, self.key);
        let outcome = self.run.status.as_ref().and_then(|status| status.attempts.last()?.outcome);
        let Some(job) = job else { return Ok(()) };
        apply::delete_service(context, &self.run, name).await?;
        let is_interrupted = outcome == Some(AttemptOutcome::Interrupted);
        if is_interrupted {
            apply::delete_job(context, key, name, &job.uid, PropagationPolicy::Background).await?;
        }
        apply::release_job(context, key, name, &job.uid).await?;
        self.fresh = Some(Answer((!is_interrupted).then(|| JobFacts { held: false, ..job.clone() })));
        Ok(())
    }

    /// Writes the status, with what each attempt lost as far as its members have said.
    async fn write(&mut self, mut status: RunStatus) -> Result<(), Error> {
        if let Some(progress) = self.run.status.as_ref().and_then(|status| status.progress.as_ref()) {
            lost::note(&mut status.attempts, &progress.loads);
        }
        self.run = apply::update_status(self.context, self.run.clone(), status).await?;
        Ok(())
    }

    async fn create_children(&mut self, validity: Result<&ValidatedRun, &Invalid>) -> Result<(), Error> {
        match create(self.context, &self.run, validity).await {
            Ok(applied) => {
                self.fresh = Some(Answer(Some(JobFacts::of(&applied.job))));
                Ok(())
            }
            Err(Error::Refused { reason, message }) => {
                self.conclude(None, &Conclusion::Refused { reason, message }).await
            }
            Err(error) => {
                // A namespace out of its object quota, for example: said to the user, and tried again.
                if let Some(message) = error.forbidden() {
                    self.write(status::cannot_create(&self.run, message)).await?;
                }
                Err(error)
            }
        }
    }

    /// Pods that have gone since they ended have told when: to the second, as the bill has it.
    fn take_last_exit(&mut self) {
        let attempt = self.run.status.as_mut().and_then(|status| status.attempts.last_mut());
        let Some(attempt) = attempt.filter(|attempt| attempt.outcome.is_none()) else { return };
        let exit = attempt.job_uid.as_ref().and_then(|uid| self.context.members.last_exit(uid)).map(Time);
        attempt.ended_at = attempt.ended_at.clone().max(exit);
    }

    async fn conclude(&mut self, job: Option<&JobFacts>, conclusion: &Conclusion) -> Result<(), Error> {
        let (context, key) = (self.context, self.key);
        let mut pods = context.members.of(key);
        self.take_last_exit();
        if status::lacks_evidence(Sight { run: &self.run, job, pods: &pods }, conclusion)
            && let Some(job) = job
        {
            pods.extend(dereference::live_members(context, key, &job.uid).await?);
        }
        let sight = Sight { run: &self.run, job, pods: &pods };
        self.write(status::conclude(sight, conclusion, self.nodes, Timestamp::now())).await?;
        if let Some(status) = &self.run.status {
            let (phase, outcome) = (status.phase, status.attempts.last().and_then(|attempt| attempt.outcome));
            info!(run = %key.name, namespace = %key.namespace, ?outcome, ?phase, "The attempt is over.");
        }
        if job.is_none()
            && let Some(attempt) = self.run.status.as_ref().and_then(|status| status.attempts.last())
        {
            // No Job is left to be released, so the Service goes here; a crash before this leaves it until the Run
            // goes.
            apply::delete_service(context, &self.run, &attempt.job_name).await?;
        }
        Ok(())
    }
}

async fn create(
    context: &Context,
    run: &Run,
    validity: Result<&ValidatedRun, &Invalid>,
) -> Result<Resources<Applied>, Error> {
    let valid = validity.map_err(|invalid| Error::Refused {
        reason: invalid.reason().to_owned(),
        message: invalid.to_string(),
    })?;
    let attempts = run.status.as_ref().map(|status| status.attempts.as_slice()).unwrap_or_default();
    let attempt = attempts.last().ok_or(Error::Incomplete("attempt"))?;
    let plan = AttemptPlan::of(valid, attempt, attempts::time_left(run));
    let prepared = build::resources(valid, &plan, &context.around);
    Box::pin(apply::create(context, run, prepared)).await
}
