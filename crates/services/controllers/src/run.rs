//! The Run controller. One reconcile is a short series of steps, each decided anew from the objects.
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
mod blueprint;
pub mod build;
mod cause;
mod context;
pub mod decide;
pub mod dereference;
pub mod elastic;
pub mod environment;
pub mod failure;
pub mod interruption;
pub mod job;
pub mod lost;
pub mod member;
pub mod memory;
pub mod reporting;
pub mod rest;
pub mod saved;
pub mod sight;
pub mod starting;
pub mod status;
pub mod stuck;
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
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::PropagationPolicy;
use kube::runtime::controller::Action;
use tracing::{debug, info};

pub use self::context::{Context, Error};

use self::build::{Applied, AttemptPlan, Resources};
use self::context::STEPS_MAX;
use self::decide::{Conclusion, Step};
use self::interruption::Interruption;
use self::job::JobFacts;
use self::sight::{Sight, World};
use self::validate::{Invalid, ValidatedRun};
use crate::members::RunKey;
use crate::nodes::{self, NodesByName};

/// How often a Run that is not over is reconciled without any event.
const RECHECK: Duration = Duration::from_mins(1);
/// The same while members are leaving: a silent machine causes no event when its time is up.
const RECHECK_TOLD: Duration = Duration::from_secs(5);
/// How soon to look again for an object that is about to go.
const SOON: Duration = Duration::from_secs(1);

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
    if rest::is_done(&run, &context.jobs) {
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

/// For how many more members of an elastic Run there is room.
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
    /// For how many more members there is room, if the Run is elastic.
    room: u32,
    /// The Run as the API server returned it last.
    run: Run,
    /// The Job, or its absence, from the last step's answer: newer than the cache.
    fresh: Option<Answer>,
}

/// The API server's answer about a Job: `None` if it is gone.
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

    /// Takes one step; breaks if only waiting is left. `job` is the Job that the step was decided from.
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
                // The cache still has it; reading the cache again now would only repeat this step.
                return Ok(ControlFlow::Break(Action::requeue(SOON)));
            }
            Step::AwaitName => return Ok(ControlFlow::Break(Action::requeue(SOON))),
            Step::Follow => {
                let pods = context.members.of(key);
                let sight = Sight { run: &self.run, job: job.as_ref(), pods: &pods };
                let usual = if sight.is_told() { RECHECK_TOLD } else { RECHECK };
                let now = Timestamp::now();
                let due = elastic::next_look(sight, now).into_iter().chain(starting::next_look(sight, now));
                let recheck = due.min().map_or(usual, |due| usual.min(due.max(SOON)));
                self.write(status::follow(sight, now)).await?;
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

    /// Releases an attempt that another one follows. The Job of an interrupted attempt is deleted; that of a
    /// failed one stays, because its pods have logs.
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

    /// Writes the status, with the work that each attempt lost, as far as members have reported it.
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
                // For example, a namespace whose object quota is used up: shown to the user, and tried again.
                if let Some(message) = error.forbidden() {
                    self.write(status::cannot_create(&self.run, message)).await?;
                }
                Err(error)
            }
        }
    }

    /// Uses the end that deleted pods had shown: to the second, as on the bill.
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
