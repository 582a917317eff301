//! The sources of findings: each parses the content of its endpoint or file. Pure.

pub mod aws;
pub mod azure;
pub mod dcgm;
pub mod gcp;
pub mod kmsg;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// The most events that are read from one document. A machine has one or two.
pub(crate) const EVENTS_MAX: usize = 64;

/// The sources.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prometheus_client::encoding::EncodeLabelValue,
)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Source {
    AwsSpot,
    AwsRebalance,
    AwsScheduled,
    GcpPreempted,
    GcpMaintenance,
    Azure,
    KernelLog,
    Dcgm,
}

impl Source {
    pub(crate) fn is_of_gpus(self) -> bool {
        matches!(self, Self::KernelLog | Self::Dcgm)
    }
}

/// Why an answer could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The document is malformed.
    #[error("cannot read {what}")]
    Json {
        /// What it should be.
        what: &'static str,
        /// Where it differs.
        source: serde_json::Error,
    },
    /// A time in it has another format.
    #[error("cannot read the time in {what}")]
    Time {
        /// The document.
        what: &'static str,
        /// The error.
        source: jiff::Error,
    },
    /// The value is not a documented one.
    #[error("{what} has no documented value")]
    Value {
        /// What it should be.
        what: &'static str,
    },
}

/// Reads `21 Jan 2019 09:00:43 GMT`, with or without the day of the week before it.
pub(crate) fn mail_time(text: &str) -> Result<Timestamp, jiff::Error> {
    const PARSER: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
    PARSER.parse_timestamp(text.trim())
}
