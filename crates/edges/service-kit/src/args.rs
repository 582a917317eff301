//! Arguments that every binary takes, to be flattened into its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::lease::LeaseTimes;

/// How to reach the cluster, how to log, where to answer health checks.
#[derive(Args, Clone, Debug)]
pub struct CommonArgs {
    /// Kubeconfig of the API server; without it, the service account of the pod.
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// How log lines are written to stderr; `RUST_LOG` says which.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Address of /healthz, /readyz and /metrics; port 0 picks a free one and logs it.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub health_listen: SocketAddr,
}

/// The form of a log line.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The times of a leader election.
#[derive(Args, Clone, Debug)]
pub struct LeaseArgs {
    /// How long the lease is valid without renewal; whole seconds.
    #[arg(long, default_value = "8s", value_parser = parse_duration)]
    pub lease_duration: Duration,
    /// A leader that could not renew for this long steps down; shorter than the lease.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub lease_renew_deadline: Duration,
    /// Time between two tries to take or renew the lease.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    pub lease_retry: Duration,
}

impl LeaseArgs {
    /// The checked times.
    pub fn times(&self) -> Result<LeaseTimes, crate::lease::Error> {
        LeaseTimes::new(self.lease_duration, self.lease_renew_deadline, self.lease_retry)
    }
}

/// Reads `250ms`, `8s`, `2m`, `1h` or `30d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let fail = || format!("cannot read the duration `{text}`: write it as 250ms, 8s, 2m, 1h or 30d");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(fail)?;
    let number: u64 = text[..digits].parse().map_err(|_| fail())?;
    let unit_millis = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(fail()),
    };
    number.checked_mul(unit_millis).map(Duration::from_millis).ok_or_else(fail)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse_duration;

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, millis) in [
            ("250ms", 250),
            ("8s", 8_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("30d", 2_592_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "8", "s", "8w", "-1s", "1.5s", "99999999999999999999s", "18446744073709551615h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
