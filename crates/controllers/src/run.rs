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
pub mod build;
pub mod decide;
pub mod dereference;
pub mod environment;
pub mod job;
pub mod member;
pub mod status;
pub mod teardown;
#[cfg(test)]
pub(crate) mod testing;
pub mod validate;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use api_types::{Run, RunStatus};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use kube::api::PropagationPolicy;
use kube::runtime::controller::Action;
use kube::runtime::reflector::Store;
use tracing::{debug, info};

use self::build::{Applied, AttemptNames, Resources};
use self::decide::{Conclusion, Step};
use self::job::JobFacts;
use self::member::Member;
use self::status::Sight;
use self::validate::{Invalid, ValidatedRun};
use crate::members::{Members, RunKey};

/// A new Run needs six steps until it is followed, and the longest way from anywhere to rest is nine; more would be a
/// decision that does not get on.
const STEPS_MAX: u32 = 12;
/// How often a Run that is not over is looked at without any event.
const RECHECK: Duration = Duration::from_mins(1);
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
    /// There is a ledger: pods carry the meter's finalizer.
    pub metered: bool,
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
    let mut walk = Walk { context: &context, key: &key, run, fresh: None };
    let mut last = Step::Rest;
    for _ in 0..STEPS_MAX {
        let job = match walk.fresh.take() {
            Some(job) => Some(job),
            None => dereference::job(&context, &key, &walk.run).await?,
        };
        let step = decide::next(&walk.run, validity.as_ref().map(|_| ()), job.as_ref(), || {
            members_are_over(&context.members.of(&key), job.as_ref())
        });
        debug!(run = %key.name, namespace = %key.namespace, ?step, "Decided.");
        last = step.clone();
        if let ControlFlow::Break(action) = Box::pin(walk.take(step, job, validity.as_ref())).await? {
            return Ok(action);
        }
    }
    Err(Error::Endless { last: Box::new(last) })
}

/// Whether all pods of a Job are over, as far as they are seen. With none seen, they may be still to come.
fn members_are_over(pods: &[Member], job: Option<&JobFacts>) -> bool {
    let mut own = pods.iter().filter(|pod| job.is_some_and(|job| pod.job_uid == job.uid)).peekable();
    own.peek().is_some() && own.all(Member::is_over)
}

/// One reconcile on its way.
struct Walk<'a> {
    context: &'a Context,
    key: &'a RunKey,
    /// As the API server answered last.
    run: Run,
    /// The Job as the API server answered to the last step: newer than the cache.
    fresh: Option<JobFacts>,
}

impl Walk<'_> {
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
                self.write(status::with_first_attempt(&self.run, Timestamp::now())).await?;
            }
            Step::CreateChildren => self.create_children(validity).await?,
            Step::RecordJob { uid } => {
                self.write(status::with_job(&self.run, &uid)).await?;
                self.fresh = job;
            }
            Step::ResumeJob => {
                let uid = job.map(|job| job.uid).unwrap_or_default();
                self.fresh = Some(apply::resume_job(context, key, &name, &uid).await?);
                info!(run = %key.name, namespace = %key.namespace, job = %name, "Started the run's Job.");
            }
            Step::DeleteJob => {
                let uid = job.map(|job| job.uid).unwrap_or_default();
                self.fresh =
                    apply::delete_job(context, key, &name, &uid, PropagationPolicy::Foreground).await?;
                info!(run = %key.name, namespace = %key.namespace, job = %name, "Deleted the Job of a stopped run.");
                if self.fresh.is_none() {
                    return Ok(ControlFlow::Break(Action::requeue(SOON)));
                }
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
                self.write(status::follow(sight, Timestamp::now())).await?;
                return Ok(ControlFlow::Break(Action::requeue(RECHECK)));
            }
            Step::Conclude(conclusion) => {
                self.conclude(job.as_ref(), &conclusion).await?;
                self.fresh = job;
            }
            Step::ReleaseJob => {
                let uid = job.map(|job| job.uid).unwrap_or_default();
                apply::delete_service(context, &self.run, &name).await?;
                apply::release_job(context, key, &name, &uid).await?;
                self.write(status::acknowledged(&self.run)).await?;
                return Ok(ControlFlow::Break(Action::await_change()));
            }
            Step::Rest => {
                self.write(status::acknowledged(&self.run)).await?;
                return Ok(ControlFlow::Break(Action::await_change()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    async fn write(&mut self, status: RunStatus) -> Result<(), Error> {
        self.run = apply::update_status(self.context, self.run.clone(), status).await?;
        Ok(())
    }

    async fn create_children(&mut self, validity: Result<&ValidatedRun, &Invalid>) -> Result<(), Error> {
        match create(self.context, &self.run, validity).await {
            Ok(applied) => {
                self.fresh = Some(JobFacts::of(&applied.job));
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

    async fn conclude(&mut self, job: Option<&JobFacts>, conclusion: &Conclusion) -> Result<(), Error> {
        let (context, key) = (self.context, self.key);
        let mut pods = context.members.of(key);
        if status::lacks_evidence(Sight { run: &self.run, job, pods: &pods }, conclusion)
            && let Some(job) = job
        {
            pods.extend(dereference::live_members(context, key, &job.uid).await?);
        }
        let sight = Sight { run: &self.run, job, pods: &pods };
        self.write(status::conclude(sight, conclusion, Timestamp::now())).await?;
        info!(run = %key.name, namespace = %key.namespace, outcome = ?conclusion.outcome(), "The run is over.");
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
    let number = attempts.last().map_or(1, |attempt| attempt.number);
    let prepared = build::resources(valid, &AttemptNames::of(&valid.name, number), context.metered);
    Box::pin(apply::create(context, run, prepared)).await
}
