//! Reads the log of one member from Kubernetes, as the caller and within bounds.

use std::time::Duration;

use futures::AsyncReadExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::core::Request as KubeRequest;
use kube::{Client, Resource};
use tokio::time::Instant;

use super::merge::{TimedLine, parse};
use crate::access::identity::Identity;
use crate::http::problem::ApiError;

/// The container of a member that runs the user's command.
const CONTAINER: &str = "main";
/// The longest wait for one member: a machine that does not answer must not delay the others.
const TIME_MAX: Duration = Duration::from_secs(8);
/// How often a log that is too long is read again with fewer lines.
const TRIES: u32 = 3;

/// The part of a log to read.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Only what was printed after this.
    pub since: Option<Timestamp>,
    /// The most lines, from the end.
    pub lines: u32,
    /// The most bytes.
    pub bytes: usize,
    /// The deadline of the answer.
    pub until: Instant,
}

/// The log of a member, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// In their order.
    pub lines: Vec<TimedLine>,
    /// Whether lines before these did not fit.
    pub is_cut: bool,
}

/// Why a log cannot be read.
#[derive(Debug)]
pub enum Error {
    /// The caller may not.
    Refused(ApiError),
    /// The member has no log, because it has not started or its pod is gone.
    Nothing,
    /// A failure between here and the member's machine.
    Failed(String),
}

/// Reads the end of a pod's log. If it has too many bytes, fewer lines are requested: its end matters most, and
/// Kubernetes would cut that off.
pub async fn log(
    client: &Client,
    identity: &Identity,
    namespace: &str,
    pod: &str,
    part: Part,
) -> Result<Log, Error> {
    let late = |_| Error::Failed("its machine did not answer in time".to_owned());
    let until = part.until.min(Instant::now() + TIME_MAX);
    tokio::time::timeout_at(until, read_end(client, identity, namespace, pod, part)).await.map_err(late)?
}

async fn read_end(
    client: &Client,
    identity: &Identity,
    namespace: &str,
    pod: &str,
    part: Part,
) -> Result<Log, Error> {
    let mut lines = part.lines;
    let mut log = Log::default();
    for _ in 0..TRIES {
        let text = read(client, identity, namespace, pod, Part { lines, ..part }).await?;
        let is_full = text.len() >= part.bytes;
        log.lines = parse(&String::from_utf8_lossy(&text));
        log.is_cut |= is_full;
        if !is_full {
            break;
        }
        // Some room for lines that are longer than those that fitted.
        lines = u32::try_from(log.lines.len() * 3 / 4).unwrap_or(u32::MAX).max(1);
    }
    log.lines.retain(|line| part.since.is_none_or(|since| line.at > since));
    Ok(log)
}

async fn read(
    client: &Client,
    identity: &Identity,
    namespace: &str,
    pod: &str,
    part: Part,
) -> Result<Vec<u8>, Error> {
    let parameters = LogParams {
        container: Some(CONTAINER.to_owned()),
        limit_bytes: i64::try_from(part.bytes).ok(),
        // Kubernetes takes whole seconds; older lines are removed afterwards.
        since_time: part.since.and_then(|since| Timestamp::from_second(since.as_second()).ok()),
        tail_lines: Some(part.lines.into()),
        timestamps: true,
        ..LogParams::default()
    };
    let broken = |error: &dyn std::fmt::Display| Error::Failed(format!("cannot build the request: {error}"));
    let pods = KubeRequest::new(Pod::url_path(&(), Some(namespace)));
    let mut request = pods.logs(pod, &parameters).map_err(|error| broken(&error))?;
    request.headers_mut().extend(identity.impersonation_headers().map_err(|error| broken(&error))?);
    let answer = client.request_stream(request).await.map_err(refusal)?;
    let mut text = Vec::new();
    // Enforced here too, because Kubernetes may not keep the bound.
    let mut bounded = Box::pin(answer.take(part.bytes as u64));
    match bounded.read_to_end(&mut text).await {
        Ok(_) => Ok(text),
        Err(error) => Err(Error::Failed(format!("the log broke off: {error}"))),
    }
}

/// kube-apiserver's message for a node without an address.
const NO_ADDRESS: &str = "no preferred addresses found";

fn refusal(error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) => match status.code {
            401 | 403 => Error::Refused(ApiError::from_kube_write(kube::Error::Api(status))),
            // It has no container yet, or no longer.
            400 | 404 => Error::Nothing,
            _ if status.message.contains(NO_ADDRESS) => {
                Error::Failed("its node has no kubelet to ask: fake nodes keep no logs".to_owned())
            }
            _ => Error::Failed(status.message.clone()),
        },
        _ => Error::Failed("cannot ask Kubernetes at the moment".to_owned()),
    }
}
