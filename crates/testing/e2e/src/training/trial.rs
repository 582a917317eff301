//! One training as a Run, followed over its attempts.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use api_types::run::{Attempt, CheckpointVolume, EnvironmentVariable};
use api_types::{RunPhase, RunSpec, RunStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, LogParams};
use test_cluster::MACHINE_IMAGE;

use super::journal::Journal;
use super::script::Script;
use super::yard::{CLAIM, TEAM, Yard, selector};
use crate::objects::create_run;
use crate::observe::run_status;
use crate::wait;

/// From anywhere to the next step: a start on a busy machine takes some twenty seconds.
const BOUND: Duration = Duration::from_mins(2);

/// A Run, and what its members write.
pub struct Trial {
    /// The Run's name.
    pub name: String,
    /// What it trains.
    pub script: Script,
    /// Where its members write.
    pub folder: PathBuf,
}

impl Trial {
    /// Creates the Run; `change` may add to its spec.
    pub async fn start(
        yard: &Yard,
        name: &str,
        script: Script,
        change: impl FnOnce(&mut RunSpec),
    ) -> anyhow::Result<Self> {
        let folder = yard.records(name)?;
        let variable = |(name, value): (&str, String)| EnvironmentVariable { name: name.to_owned(), value };
        let mut spec = RunSpec {
            queue: Some(TEAM.to_owned()),
            members: script.members,
            gpus_per_member: 1,
            image: MACHINE_IMAGE.to_owned(),
            command: Script::command()?,
            // Without a request everything else on the machine goes first.
            cpu: Some("500m".to_owned()),
            env: script.variables(&folder)?.into_iter().map(variable).collect(),
            checkpoint: Some(CheckpointVolume { claim: CLAIM.to_owned() }),
            ..RunSpec::default()
        };
        change(&mut spec);
        create_run(&yard.client(), TEAM, name, spec).await?;
        Ok(Self { name: name.to_owned(), script, folder })
    }

    /// What members have written so far.
    pub fn journal(&self) -> anyhow::Result<Journal> {
        Journal::read(&self.folder, self.script.members)
    }

    /// The Run's status as it is now.
    pub async fn status(&self, yard: &Yard) -> anyhow::Result<RunStatus> {
        run_status(&yard.client(), TEAM, &self.name).await
    }

    /// The pods of an attempt, by rank.
    pub async fn pods(&self, yard: &Yard, attempt: u32) -> anyhow::Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(yard.client(), TEAM);
        let listed = pods.list(&ListParams::default().labels(&selector(&self.name))).await?;
        let attempt = attempt.to_string();
        let is_of = |pod: &Pod| pod.labels().get(api_types::names::ATTEMPT_LABEL) == Some(&attempt);
        let mut found: Vec<Pod> = listed.items.into_iter().filter(is_of).collect();
        found.sort_by_key(index);
        Ok(found)
    }

    /// Waits until an attempt has done this many steps.
    pub async fn steps_done(&self, yard: &Yard, attempt: u32, steps: u64) -> anyhow::Result<()> {
        let what = format!("attempt {attempt} does {steps} steps");
        let done = wait::until(&what, BOUND, || async {
            if let Some(ended) = self.attempt(yard, attempt).await?.filter(|it| it.outcome.is_some()) {
                bail!("attempt {attempt} ended before it had done {steps} steps: {ended:?}");
            }
            Ok((self.journal()?.steps_done(attempt) >= steps).then_some(()))
        });
        self.explained(yard, attempt, done.await).await
    }

    /// Waits until every member of an attempt runs.
    pub async fn running(&self, yard: &Yard, attempt: u32) -> anyhow::Result<()> {
        let what = format!("the members of attempt {attempt} run");
        let running = wait::until(&what, BOUND, || async {
            let status = self.status(yard).await?;
            let is_it = status.attempts.last().is_some_and(|last| last.number == attempt);
            Ok((is_it && status.phase == RunPhase::Running).then_some(()))
        });
        self.explained(yard, attempt, running.await).await
    }

    /// Waits until an attempt is over, and returns it.
    pub async fn ended(&self, yard: &Yard, attempt: u32) -> anyhow::Result<Attempt> {
        let what = format!("attempt {attempt} is over");
        let ended = wait::until(&what, BOUND, || async {
            Ok(self.attempt(yard, attempt).await?.filter(|attempt| attempt.outcome.is_some()))
        });
        self.explained(yard, attempt, ended.await).await
    }

    /// Waits until the Run has succeeded.
    pub async fn succeeded(&self, yard: &Yard) -> anyhow::Result<RunStatus> {
        // A step may take some hundred milliseconds more than it sleeps, where many members share few cores.
        let steps = u32::try_from(self.script.steps()).unwrap_or(u32::MAX);
        let bound = BOUND + Duration::from_secs_f64(self.script.step_seconds + 0.3) * steps;
        let ended = wait::until("the run is over", bound, || async {
            Ok(Some(self.status(yard).await?).filter(|status| status.phase.is_final()))
        });
        let last = self.journal()?.last_attempt();
        let status = self.explained(yard, last, ended.await).await?;
        if status.phase != RunPhase::Succeeded {
            let failed: anyhow::Result<RunStatus> = Err(anyhow::anyhow!("the run ended with {status:?}"));
            return self.explained(yard, last, failed).await;
        }
        Ok(status)
    }

    /// An attempt as the status has it, if it has begun.
    pub async fn attempt(&self, yard: &Yard, number: u32) -> anyhow::Result<Option<Attempt>> {
        Ok(self.status(yard).await?.attempts.into_iter().find(|attempt| attempt.number == number))
    }

    /// Adds the Run's state and its members' last output to an error.
    async fn explained<T>(&self, yard: &Yard, attempt: u32, result: anyhow::Result<T>) -> anyhow::Result<T> {
        let Err(error) = result else { return result };
        let mut text = format!("{:#?}\n", self.status(yard).await);
        let pods: Api<Pod> = Api::namespaced(yard.client(), TEAM);
        for pod in self.pods(yard, attempt).await.unwrap_or_default() {
            let parameters = LogParams { tail_lines: Some(15), ..LogParams::default() };
            let log = pods.logs(&pod.name_any(), &parameters).await;
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
            let log = log.unwrap_or_else(|error| error.to_string());
            let _ = writeln!(text, "{} {phase}: {log}", pod.name_any());
        }
        Err(error).context(text)
    }
}

/// Which member a pod is.
pub fn index(pod: &Pod) -> u32 {
    let text = pod.annotations().get("batch.kubernetes.io/job-completion-index");
    text.and_then(|text| text.parse().ok()).unwrap_or(u32::MAX)
}
