//! Logs of a run, for callers who may `get` the run and `get` logs of pods in its namespace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_types::logs::{AttemptLogs, MissingLog, RunLogs};
use api_types::rest::Problem;
use api_types::run::Attempt;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::LimitOf;
use super::runs::{RunPath, visible_run};
use crate::access::authentication::Caller;
use crate::access::authorization::Access;
use crate::access::identity::Identity;
use crate::http::problem::{ApiError, LoginProblems};
use crate::logs::choose::{AttemptPods, choose, first_failed, members_gone, was_told};
use crate::logs::merge::{Source, TimedLine, merge};
use crate::logs::read::{self, Error, Log, Part};
use crate::server::Server;

/// Members that are read at one time, for one answer.
const READS_AT_ONCE: usize = 16;
/// The longest time for all reads; the whole request has 30 s.
const READ_TIME_MAX: Duration = Duration::from_secs(20);

/// Which lines.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogsQuery {
    /// Only this attempt; without it, all attempts in the run's status.
    #[serde(default)]
    #[param(minimum = 1)]
    attempt: Option<u32>,
    /// Only of this member.
    #[serde(default)]
    member: Option<u32>,
    /// Only what was printed after this time, RFC 3339.
    #[serde(default)]
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// The most lines of each member, from the end.
    #[serde(default)]
    #[param(value_type = u16, minimum = 1, maximum = 10_000, required = false)]
    tail: LimitOf<1_000, 10_000>,
}

/// The logs of a run's members, merged by time, as far as Kubernetes still has them: at most 4 MiB, of up to 64
/// members.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/runs/{name}/logs",
    operation_id = "readLogs",
    tag = "runs",
    params(RunPath, LogsQuery),
    responses(
        (status = 200, description = "The lines.", body = RunLogs),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run, or no such attempt of it.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn read(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    path: Result<Path<RunPath>, PathRejection>,
    query: Result<Query<LogsQuery>, QueryRejection>,
) -> Result<Json<RunLogs>, ApiError> {
    let path = path?.0;
    let run = visible_run(&server, &identity, &path).await?;
    let namespace = path.namespace.as_str();
    server.authorizer().require(&identity, Access::logs(namespace)).await?;
    let Query(query) = query?;
    let _permit = server.try_read_logs()?;

    let status = run.status.as_ref();
    let attempts = status.map(|status| status.attempts.as_slice()).unwrap_or_default();
    let attempts = asked_for(attempts, query.attempt)?;
    let pods: Vec<AttemptPods<'_>> = {
        let index = server.cache()?.pods();
        let pods = |attempt: &Attempt| index.members(namespace, path.name.as_str(), attempt.number);
        attempts.into_iter().map(|attempt| (attempt, pods(attempt))).collect()
    };
    let choice = choose(&pods, query.member);
    let left_out = choice.left_out;
    let until = Instant::now() + READ_TIME_MAX;
    let part = Part { since: query.since, lines: lines(query.tail), bytes: choice.bytes_each, until };
    let (server, identity) = (&server, &identity);
    let reads = stream::iter(choice.members).map(|(source, pod)| async move {
        (source, read::log(server.client(), identity, namespace, &pod.name, part).await)
    });
    let logs: Vec<(Source, Result<Log, Error>)> = reads.buffer_unordered(READS_AT_ONCE).collect().await;
    let logs = Logs::of(logs, identity)?;
    let is_stopping = run.spec.stop;
    Ok(Json(RunLogs {
        phase: status.map(|status| status.phase).unwrap_or_default(),
        attempts: pods.iter().map(|attempt| logs.of_attempt(attempt, query.member, is_stopping)).collect(),
        members_left_out: left_out,
        lines: merge(logs.lines.into_iter().collect()),
    }))
}

fn asked_for(attempts: &[Attempt], asked: Option<u32>) -> Result<Vec<&Attempt>, ApiError> {
    let found: Vec<&Attempt> =
        attempts.iter().filter(|attempt| asked.is_none_or(|asked| attempt.number == asked)).collect();
    match (asked, found.is_empty()) {
        (Some(asked), true) => {
            let error = ApiError::not_found("attempt", &asked.to_string());
            Err(match attempts {
                [] => error.hint("the run has not begun yet"),
                [first, .., last] => {
                    error.hint(format!("attempts {} to {} are known", first.number, last.number))
                }
                [only] => error.hint(format!("only attempt {} is known", only.number)),
            })
        }
        _ => Ok(found),
    }
}

fn lines(tail: LimitOf<1_000, 10_000>) -> u32 {
    u32::try_from(tail.get()).unwrap_or(u32::MAX)
}

/// The logs that were read, by member.
struct Logs {
    lines: BTreeMap<Source, Vec<TimedLine>>,
    missing: Vec<(Source, String)>,
}

impl Logs {
    /// Separates the logs that could not be read. A missing right is an error: it applies to all members.
    fn of(logs: Vec<(Source, Result<Log, Error>)>, identity: &Identity) -> Result<Self, ApiError> {
        let mut sorted = Self { lines: BTreeMap::new(), missing: Vec::new() };
        for (source, log) in logs {
            match log {
                Ok(log) => {
                    if log.is_cut {
                        let why = format!("only its last {} lines fit", log.lines.len());
                        sorted.missing.push((source, why));
                    }
                    sorted.lines.insert(source, log.lines);
                }
                Err(Error::Nothing) => {}
                Err(Error::Failed(why)) => sorted.missing.push((source, why)),
                Err(Error::Refused(error)) => return Err(error.without_groups(identity)),
            }
        }
        sorted.missing.sort();
        Ok(sorted)
    }

    fn of_attempt(&self, of: &AttemptPods<'_>, member: Option<u32>, is_stopping: bool) -> AttemptLogs {
        let (attempt, pods) = of;
        let number = attempt.number;
        let last_line = |member| self.lines.get(&Source { attempt: number, member })?.last();
        let missing = self.missing.iter().filter(|(source, _)| source.attempt == number);
        // An attempt that has not started has none yet.
        let gone = pods.is_empty() && attempt.started_at.is_some();
        AttemptLogs {
            number,
            gone,
            members_gone: if gone { 0 } else { members_gone(of, member) },
            first_failed: first_failed(pods, last_line).filter(|_| !was_told(attempt, is_stopping)),
            missing: missing
                .map(|(source, why)| MissingLog { member: source.member, why: why.clone() })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
