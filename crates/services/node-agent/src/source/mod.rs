//! The sources of findings, each a pure reading of what its endpoint or file gave.

pub mod aws;
pub mod azure;
pub mod dcgm;
pub mod gcp;
pub mod kmsg;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// The most events of one document that are read. A machine has one or two.
pub(crate) const EVENTS_MAX: usize = 64;

/// Why an answer could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no such document.
    #[error("cannot read {what}")]
    Json {
        /// What it should be.
        what: &'static str,
        /// Where it differs.
        source: serde_json::Error,
    },
    /// A time in it is written in another way.
    #[error("cannot read the time in {what}")]
    Time {
        /// The document.
        what: &'static str,
        /// What is wrong with it.
        source: jiff::Error,
    },
    /// It is none of the values that are documented.
    #[error("{what} is neither of its documented values")]
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
