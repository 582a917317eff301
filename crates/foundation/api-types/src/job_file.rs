//! The ten-line job file. Only `run` and `gpus` are required; everything else has a default.
//!
//! ```yaml
//! name: llama-ft
//! gpus: 8x H100
//! nodes: 4
//! time: 24h
//! run: torchrun train.py
//! ```

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::duration;
use crate::gpu_request::GpuRequest;
use crate::names::{RESERVED_ANNOTATION_PREFIX, RESERVED_VARIABLE_PREFIX};
use crate::run::{CheckpointVolume, EnvironmentVariable, PodAnnotation, PriorityTier, RunSpec};
use crate::{price, text};

/// The schema of a Run has the same bounds.
const GRACE_SECONDS: RangeInclusive<u32> = 1..=3600;
const START_DEADLINE_SECONDS: RangeInclusive<u32> = 10..=86_400;

/// What a researcher writes.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct JobFile {
    /// The run's name. Without it, one is made up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: Option<String>,
    /// GPUs of each member: a count, or a count and a type, such as `8x H100`.
    pub gpus: GpuRequest,
    /// How many members start together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub nodes: Option<u32>,
    /// How long it may run, such as `24h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The `PersistentVolumeClaim` for checkpoints: with it the run continues after an interruption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub checkpoints: Option<String>,
    /// Whether spot machines may be bought for it: they cost less, and the cloud may take them back. `false`: it is
    /// not placed on spot machines at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot: Option<bool>,
    /// The most that the machines bought for it may cost per hour, all together, such as `120` or `"29.40"`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "maxPrice",
        deserialize_with = "text::optional"
    )]
    #[schemars(schema_with = "text::optional_schema")]
    pub max_price: Option<String>,
    /// When it must have ended, such as `2026-12-01T08:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// How long a member may take to save and leave after it was told to, such as `2m`. Without it, 30 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<String>,
    /// How long a member may take to start after all members got nodes, such as `2h` for a very large image. Without it,
    /// 30 min.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "startDeadline")]
    pub start_deadline: Option<String>,
    /// How often the run is tried again after failures of its own. Failures of machines cost no retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub retries: Option<u32>,
    /// Exit codes that end the run at once, even if retries are left.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "failOn")]
    #[schemars(length(max = 32), inner(range(min = 1, max = 255)))]
    pub fail_on: Vec<i32>,
    /// The run may start with as few members as this if that is sooner, and grows again.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "minNodes")]
    #[schemars(range(min = 1, max = 10_000))]
    pub min_nodes: Option<u32>,
    /// The queue that is charged. Without it, the queue of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityTier>,
    /// The container image. Without it, the platform's default image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// A shell command that runs before `run`, in every member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// The shell command that every member runs. `torchrun` needs no flags: the rendezvous variables are set.
    pub run: String,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "text::map")]
    #[schemars(schema_with = "text::map_schema")]
    pub env: BTreeMap<String, String>,
    /// CPU of each member, such as `32` or `500m`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text::optional")]
    #[schemars(schema_with = "text::optional_schema")]
    pub cpu: Option<String>,
    /// Memory of each member, such as `256Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text::optional")]
    #[schemars(schema_with = "text::optional_schema")]
    pub memory: Option<String>,
    /// Annotations for the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "text::map")]
    #[schemars(schema_with = "text::map_schema")]
    pub annotations: BTreeMap<String, String>,
}

/// Why a job file does not compile.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// `time` is not a duration.
    #[error("time: {0}")]
    Time(#[from] duration::Error),
    /// `grace` is not a duration from 1 s to 1 h.
    #[error("grace: {0}")]
    Grace(String),
    /// `startDeadline` is not a duration from 10 s to 24 h.
    #[error("startDeadline: {0}")]
    StartDeadline(String),
    /// `maxPrice` is not a price.
    #[error("maxPrice: must be an amount for an hour with at most six decimals, such as 120 or \"29.40\"")]
    MaxPrice,
    /// `deadline` is not a time.
    #[error(
        "deadline: must be a time with its zone, such as 2026-12-01T08:00:00Z or 2026-12-01T09:00:00+01:00"
    )]
    Deadline,
    /// `minNodes` is more than `nodes`, or 0.
    #[error("minNodes: must be from 1 to the number of nodes")]
    MinNodes,
    /// `run` is empty.
    #[error("run: is empty, so there is nothing to do")]
    EmptyRun,
    /// `nodes` is zero.
    #[error("nodes: must be at least 1")]
    NoNodes,
    /// An annotation or variable that Warpyard sets itself.
    #[error("{field}: `{name}` is set by warpyard itself: leave it out")]
    Reserved {
        /// `annotations` or `env`.
        field: &'static str,
        /// Its name.
        name: String,
    },
    /// `gpus` names a type but asks for none.
    #[error("gpus: names a type but asks for 0 GPUs; leave the type out, or ask for at least 1")]
    TypeWithoutGpus,
}

impl JobFile {
    /// The Run that this file asks for.
    pub fn compile(&self, default_image: &str) -> Result<RunSpec, Error> {
        if self.run.trim().is_empty() {
            return Err(Error::EmptyRun);
        }
        if self.nodes == Some(0) {
            return Err(Error::NoNodes);
        }
        if self.gpus.count == 0 && self.gpus.gpu_type.is_some() {
            return Err(Error::TypeWithoutGpus);
        }
        if let Some(name) = self.annotations.keys().find(|name| name.starts_with(RESERVED_ANNOTATION_PREFIX))
        {
            return Err(Error::Reserved { field: "annotations", name: name.clone() });
        }
        if let Some(name) = self.env.keys().find(|name| name.starts_with(RESERVED_VARIABLE_PREFIX)) {
            return Err(Error::Reserved { field: "env", name: name.clone() });
        }
        // Every field is named, so that a new one cannot be forgotten.
        let Self {
            gpus,
            nodes,
            time,
            checkpoints,
            spot,
            retries,
            fail_on,
            queue,
            priority,
            image,
            env,
            cpu,
            memory,
            annotations,
            // The object's own name, not in its spec.
            name: _,
            // Checked and joined below.
            max_price: _,
            deadline: _,
            grace: _,
            start_deadline: _,
            min_nodes: _,
            setup: _,
            run: _,
        } = self;
        Ok(RunSpec {
            queue: queue.clone(),
            members: nodes.unwrap_or(1),
            gpus_per_member: gpus.count,
            gpu_type: gpus.gpu_type.clone(),
            priority: priority.unwrap_or_default(),
            time_limit_seconds: time.as_deref().map(duration::parse_seconds).transpose()?,
            checkpoint: checkpoints.clone().map(|claim| CheckpointVolume { claim }),
            spot: *spot,
            max_price: self.max_price()?,
            deadline: self.deadline()?,
            grace_seconds: self.grace_seconds()?,
            start_deadline_seconds: self.start_deadline_seconds()?,
            retries: retries.unwrap_or(0),
            fail_on: fail_on.clone(),
            min_members: self.min_members()?,
            image: image.clone().unwrap_or_else(|| default_image.to_owned()),
            command: vec!["/bin/sh".to_owned(), "-c".to_owned(), self.script()],
            env: env.iter().map(|(name, value)| environment_variable(name, value)).collect(),
            cpu: cpu.clone(),
            memory: memory.clone(),
            annotations: annotations.iter().map(|(name, value)| pod_annotation(name, value)).collect(),
            stop: false,
            pause: false,
            restarts: 0,
            resume_step: None,
        })
    }

    fn grace_seconds(&self) -> Result<Option<u32>, Error> {
        let Some(grace) = self.grace.as_deref() else { return Ok(None) };
        let seconds = seconds_within(grace, &GRACE_SECONDS, "must be from 1s to 1h");
        seconds.map(Some).map_err(Error::Grace)
    }

    fn start_deadline_seconds(&self) -> Result<Option<u32>, Error> {
        let Some(deadline) = self.start_deadline.as_deref() else { return Ok(None) };
        let seconds = seconds_within(deadline, &START_DEADLINE_SECONDS, "must be from 10s to 24h");
        seconds.map(Some).map_err(Error::StartDeadline)
    }

    fn max_price(&self) -> Result<Option<String>, Error> {
        let Some(price) = &self.max_price else { return Ok(None) };
        price::micros(price).map(|_| Some(price.clone())).ok_or(Error::MaxPrice)
    }

    fn deadline(&self) -> Result<Option<String>, Error> {
        let Some(deadline) = &self.deadline else { return Ok(None) };
        let at: Timestamp = deadline.parse().map_err(|_| Error::Deadline)?;
        Ok(Some(at.to_string()))
    }

    fn min_members(&self) -> Result<Option<u32>, Error> {
        match self.min_nodes {
            Some(least) if least == 0 || least > self.nodes.unwrap_or(1) => Err(Error::MinNodes),
            least => Ok(least),
        }
    }

    /// Set-up first; `exec` is left to the user, so that `run` may be several commands.
    fn script(&self) -> String {
        match &self.setup {
            Some(setup) => format!("set -e\n{setup}\n{}", self.run),
            None => self.run.clone(),
        }
    }
}

fn seconds_within(text: &str, bounds: &RangeInclusive<u32>, otherwise: &str) -> Result<u32, String> {
    let seconds = duration::parse_seconds(text).map_err(|error| error.to_string())?;
    let seconds = u32::try_from(seconds).ok().filter(|seconds| bounds.contains(seconds));
    seconds.ok_or_else(|| otherwise.to_owned())
}

fn environment_variable(name: &str, value: &str) -> EnvironmentVariable {
    EnvironmentVariable { name: name.to_owned(), value: value.to_owned() }
}

fn pod_annotation(name: &str, value: &str) -> PodAnnotation {
    PodAnnotation { name: name.to_owned(), value: value.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{Error, JobFile};

    fn parse(json: &str) -> JobFile {
        serde_json::from_str(json).expect("the test's job file is valid")
    }

    #[test]
    fn two_lines_are_enough() {
        let spec = parse(r#"{"gpus": 1, "run": "python train.py"}"#).compile("pytorch:2").expect("compiles");
        assert_eq!((spec.members, spec.gpus_per_member, spec.gpu_type.as_deref()), (1, 1, None));
        assert_eq!(spec.image, "pytorch:2");
        assert_eq!(spec.command, ["/bin/sh", "-c", "python train.py"]);
    }

    #[test]
    fn setup_runs_first_and_stops_the_job_when_it_fails() {
        let spec = parse(r#"{"gpus": "8x H100", "nodes": 4, "time": "24h", "setup": "pip install .", "run": "torchrun train.py"}"#)
            .compile("image")
            .expect("compiles");
        assert_eq!(spec.command[2], "set -e\npip install .\ntorchrun train.py");
        assert_eq!(spec.time_limit_seconds, Some(86_400));
        assert_eq!((spec.members, spec.gpus_per_member, spec.gpu_type.as_deref()), (4, 8, Some("H100")));
    }

    #[test]
    fn a_price_and_a_deadline_go_into_the_run_in_one_spelling() {
        let job = r#"{"gpus": 8, "nodes": 2, "spot": true, "maxPrice": 120, "deadline": "2026-12-01T09:00:00+01:00", "run": "x"}"#;
        let spec = parse(job).compile("image").expect("compiles");
        assert_eq!(spec.max_price.as_deref(), Some("120"));
        assert_eq!(spec.deadline.as_deref(), Some("2026-12-01T08:00:00Z"));
    }

    #[test]
    fn durations_go_into_the_run_in_seconds() {
        let job = r#"{"gpus": 1, "grace": "2m", "startDeadline": "2h", "run": "x"}"#;
        let spec = parse(job).compile("image").expect("compiles");
        assert_eq!((spec.grace_seconds, spec.start_deadline_seconds), (Some(120), Some(7200)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_line_to_mend() {
        for (json, expect) in [
            (r#"{"gpus": 1, "run": " "}"#, Error::EmptyRun),
            (r#"{"gpus": 1, "nodes": 0, "run": "x"}"#, Error::NoNodes),
            (r#"{"gpus": "0x H100", "run": "x"}"#, Error::TypeWithoutGpus),
            (
                r#"{"gpus": 1, "run": "x", "startDeadline": "5s"}"#,
                Error::StartDeadline("must be from 10s to 24h".to_owned()),
            ),
            (
                r#"{"gpus": 1, "run": "x", "startDeadline": "25h"}"#,
                Error::StartDeadline("must be from 10s to 24h".to_owned()),
            ),
            (r#"{"gpus": 1, "run": "x", "grace": "2h"}"#, Error::Grace("must be from 1s to 1h".to_owned())),
            (r#"{"gpus": 1, "run": "x", "maxPrice": "12 EUR"}"#, Error::MaxPrice),
            (r#"{"gpus": 1, "run": "x", "deadline": "tomorrow"}"#, Error::Deadline),
            (r#"{"gpus": 1, "run": "x", "deadline": "2026-12-01T08:00:00"}"#, Error::Deadline),
            (
                r#"{"gpus": 1, "run": "x", "annotations": {"warpyard.dev/gang-size": "7"}}"#,
                Error::Reserved { field: "annotations", name: "warpyard.dev/gang-size".to_owned() },
            ),
            (
                r#"{"gpus": 1, "run": "x", "env": {"WARPYARD_RUN": "y"}}"#,
                Error::Reserved { field: "env", name: "WARPYARD_RUN".to_owned() },
            ),
        ] {
            assert_eq!(parse(json).compile("image"), Err(expect), "{json}");
        }
    }

    #[test]
    fn whole_numbers_need_no_quotes_but_fractions_and_booleans_do() {
        let job = parse(r#"{"gpus": 1, "run": "x", "cpu": 32, "env": {"EPOCHS": 3, "RATE": "1e-4"}}"#);
        assert_eq!(job.cpu.as_deref(), Some("32"));
        assert_eq!(job.env["EPOCHS"], "3");
        for line in [r#""cpu": 0.5"#, r#""env": {"PYTHON": 3.10}"#, r#""env": {"DEBUG": true}"#] {
            let error = serde_json::from_str::<JobFile>(&format!(r#"{{"gpus": 1, "run": "x", {line}}}"#));
            assert!(error.expect_err("ambiguous").to_string().contains("in quotes"), "{line}");
        }
    }

    #[test]
    fn an_unknown_line_is_an_error_and_not_ignored() {
        let error =
            serde_json::from_str::<JobFile>(r#"{"gpus": 1, "run": "x", "gpu": 2}"#).expect_err("unknown");
        assert!(error.to_string().contains("unknown field `gpu`"), "{error}");
    }
}
