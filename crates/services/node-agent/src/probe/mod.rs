//! Polls the sources. A source's findings are reported when they change; while it does not answer, its last
//! findings stay valid.

mod endpoint;
mod kernel_log;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::args::{Args, Cloud};
use crate::finding::View;
use crate::http::{self, Http, METADATA_BYTES_MAX, METRICS_BYTES_MAX};
use crate::metrics::Metrics;
use crate::policy::Seen;
pub use crate::source::Source;
use endpoint::Endpoint;
pub use report::{Found, Report};

/// Reports that wait to be read. There are at most four sources, each of which reports once per poll.
const REPORTS_MAX: usize = 64;

/// The last findings of every source.
#[derive(Debug)]
pub struct Reports {
    last: BTreeMap<Source, Option<Found>>,
    boot: String,
}

impl Reports {
    /// No findings yet.
    pub fn new(sources: &[Source], boot: &str) -> Self {
        Self { last: sources.iter().map(|source| (*source, None)).collect(), boot: boot.to_owned() }
    }

    /// Takes in a source's report.
    pub fn take_in(&mut self, report: Report) {
        self.last.insert(report.source, Some(report.found));
    }

    /// Everything known from all sources.
    pub fn seen(&self) -> Seen {
        let mut seen = Seen { boot: self.boot.clone(), ..Seen::default() };
        for (source, found) in &self.last {
            let has_answered = found.is_some();
            if source.is_of_gpus() {
                let view = seen.faults.get_or_insert(View { found: Vec::new(), complete: true });
                view.complete &= has_answered;
                if let Some(Found::Faults(faults)) = found {
                    view.found.extend_from_slice(faults);
                }
            } else {
                let view = seen.notices.get_or_insert(View { found: Vec::new(), complete: true });
                view.complete &= has_answered;
                if let Some(Found::Notices(notices)) = found {
                    view.found.extend_from_slice(notices);
                }
            }
        }
        seen
    }
}

/// The sources to watch.
pub struct Probes {
    endpoints: Vec<(Source, Endpoint, Duration)>,
    kernel_log: Option<PathBuf>,
}

impl Probes {
    /// Makes the probes that the arguments ask for.
    pub fn new(args: &Args) -> Result<Self, http::Error> {
        let at = |url: &Url, bytes_max| Http::new(url.clone(), args.poll_timeout, bytes_max);
        let metadata = at(&args.metadata_url, METADATA_BYTES_MAX)?;
        let cloud = match args.cloud {
            Cloud::None => Vec::new(),
            Cloud::Aws => Endpoint::aws(&metadata),
            Cloud::Gcp => Endpoint::gcp(&metadata),
            Cloud::Azure => Endpoint::azure(&metadata),
        };
        let mut endpoints: Vec<_> =
            cloud.into_iter().map(|(source, endpoint)| (source, endpoint, args.poll)).collect();
        if let Some(url) = &args.dcgm_url {
            endpoints.push((Source::Dcgm, Endpoint::dcgm(at(url, METRICS_BYTES_MAX)?), args.dcgm_poll));
        }
        Ok(Self { endpoints, kernel_log: args.kmsg.clone() })
    }

    /// Which sources these are.
    pub fn sources(&self) -> Vec<Source> {
        let endpoints = self.endpoints.iter().map(|(source, ..)| *source);
        endpoints.chain(self.kernel_log.as_ref().map(|_| Source::KernelLog)).collect()
    }

    /// Starts the watches; they last as long as the set.
    pub fn start(self, metrics: &Metrics) -> (JoinSet<()>, mpsc::Receiver<Report>) {
        let (reports, receiver) = mpsc::channel(REPORTS_MAX);
        let mut tasks = JoinSet::new();
        for (source, endpoint, every) in self.endpoints {
            tasks.spawn(endpoint::watch(source, endpoint, every, reports.clone(), metrics.clone()));
        }
        if let Some(path) = self.kernel_log {
            tasks.spawn(kernel_log::watch(path, reports, metrics.clone()));
        }
        (tasks, receiver)
    }
}
