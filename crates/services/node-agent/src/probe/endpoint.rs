//! Polls endpoints over HTTP.

use std::time::Duration;

use anyhow::ensure;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::report::{Found, Report};
use crate::finding::Notice;
use crate::http::Http;
use crate::metrics::Metrics;
use crate::source::Source;
use crate::source::{self, aws, azure, dcgm, gcp};

const AWS_TOKEN: &str = "/latest/api/token";
const AWS_TOKEN_HEADER: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token");
const AWS_TOKEN_TTL_HEADER: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
/// The longest lifetime, six hours: a token is fetched anew when it is refused.
const AWS_TOKEN_TTL_SECONDS: HeaderValue = HeaderValue::from_static("21600");
const GCP_HEADER: (HeaderName, HeaderValue) =
    (HeaderName::from_static("metadata-flavor"), HeaderValue::from_static("Google"));
const AZURE_HEADER: (HeaderName, HeaderValue) =
    (HeaderName::from_static("metadata"), HeaderValue::from_static("true"));

/// An endpoint, and how to read its answer.
pub(super) struct Endpoint {
    http: Http,
    kind: Kind,
}

type Notices = Result<Vec<Notice>, source::Error>;

enum Kind {
    Aws { path: &'static str, read: fn(Option<&[u8]>) -> Notices, token: Option<HeaderValue> },
    Gcp { path: &'static str, read: fn(&[u8]) -> Notices },
    Azure { machine: Option<String> },
    Dcgm,
}

impl Endpoint {
    pub(super) fn aws(http: &Http) -> Vec<(Source, Self)> {
        let endpoint = |path, read| Self { http: http.clone(), kind: Kind::Aws { path, read, token: None } };
        vec![
            (Source::AwsSpot, endpoint(aws::SPOT, aws::spot)),
            (Source::AwsRebalance, endpoint(aws::REBALANCE, aws::rebalance)),
            (Source::AwsScheduled, endpoint(aws::SCHEDULED, aws::scheduled)),
        ]
    }

    pub(super) fn gcp(http: &Http) -> Vec<(Source, Self)> {
        let endpoint = |path, read| Self { http: http.clone(), kind: Kind::Gcp { path, read } };
        vec![
            (Source::GcpPreempted, endpoint(gcp::PREEMPTED, gcp::preempted)),
            (Source::GcpMaintenance, endpoint(gcp::MAINTENANCE, gcp::maintenance)),
        ]
    }

    pub(super) fn azure(http: &Http) -> Vec<(Source, Self)> {
        vec![(Source::Azure, Self { http: http.clone(), kind: Kind::Azure { machine: None } })]
    }

    pub(super) fn dcgm(http: Http) -> Self {
        Self { http, kind: Kind::Dcgm }
    }

    /// Asks once.
    pub(super) async fn look(&mut self) -> anyhow::Result<Found> {
        let http = &self.http;
        match &mut self.kind {
            Kind::Aws { path, read, token } => {
                Ok(Found::Notices(read(ask_aws(http, path, token).await?.as_deref())?))
            }
            Kind::Gcp { path, read } => {
                let answer = http.ask(Method::GET, path, &[GCP_HEADER]).await?;
                let is_google = answer.headers.get(GCP_HEADER.0) == Some(&GCP_HEADER.1);
                ensure!(is_google, "the answer is not from Google's metadata server");
                Ok(Found::Notices(read(&answer.ok()?)?))
            }
            Kind::Azure { machine } => {
                let machine = if let Some(machine) = machine {
                    machine
                } else {
                    let answer = http.ask(Method::GET, azure::NAME, &[AZURE_HEADER]).await?;
                    machine.insert(azure::name(&answer.ok()?)?)
                };
                let answer = http.ask(Method::GET, azure::EVENTS, &[AZURE_HEADER]).await?;
                Ok(Found::Notices(azure::events(&answer.ok()?, machine)?))
            }
            Kind::Dcgm => {
                let answer = http.ask(Method::GET, "", &[]).await?;
                Ok(Found::Faults(dcgm::faults(&answer.ok()?)))
            }
        }
    }
}

/// Asks with a token, and with a new one if that is refused.
async fn ask_aws(
    http: &Http,
    path: &'static str,
    token: &mut Option<HeaderValue>,
) -> anyhow::Result<Option<Vec<u8>>> {
    if let Some(old) = token.take() {
        let answer = http.ask(Method::GET, path, &[(AWS_TOKEN_HEADER, old.clone())]).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            *token = Some(old);
            return Ok(answer.found()?);
        }
    }
    let ttl = (AWS_TOKEN_TTL_HEADER, AWS_TOKEN_TTL_SECONDS);
    let mut new = HeaderValue::from_bytes(&http.ask(Method::PUT, AWS_TOKEN, &[ttl]).await?.ok()?)?;
    new.set_sensitive(true);
    let answer = http.ask(Method::GET, path, &[(AWS_TOKEN_HEADER, new.clone())]).await?.found()?;
    *token = Some(new);
    Ok(answer)
}

/// Polls for ever. An endpoint that fails is polled as often as one that answers: it is on this machine, and
/// its next answer may be the notice. Only the log lines get rarer.
pub(super) async fn watch(
    source: Source,
    mut endpoint: Endpoint,
    every: Duration,
    reports: mpsc::Sender<Report>,
    metrics: Metrics,
) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    let mut failures = 0_u64;
    loop {
        ticks.tick().await;
        let looked = endpoint.look().await;
        metrics.polled(source, looked.is_ok());
        match looked {
            Ok(found) => {
                if failures > 0 {
                    info!(?source, failures, "It answers again.");
                    failures = 0;
                }
                if last.as_ref() != Some(&found) {
                    last = Some(found.clone());
                    if reports.send(Report { source, found }).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                failures += 1;
                if failures.is_power_of_two() {
                    warn!(
                        ?source,
                        failures,
                        error = format!("{error:#}"),
                        "It could not be asked; asking again."
                    );
                }
            }
        }
    }
}
