//! The start of shown logs.

use std::str::FromStr;

use api_types::duration;
use jiff::{SignedDuration, Timestamp};

/// The start of shown logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinceSpec {
    /// This many seconds ago.
    Ago(i64),
    /// After this.
    At(Timestamp),
}

impl FromStr for SinceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = |_| text.parse().map(Self::At);
        duration::parse_seconds(text)
            .map(Self::Ago)
            .or_else(at)
            .map_err(|_| format!("`{text}` is not a time: write 10m, 2h30m or 2026-11-01T10:00:00Z"))
    }
}

impl SinceSpec {
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(seconds) => {
                now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN)
            }
            Self::At(at) => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::SinceSpec;

    #[test]
    fn since_is_a_time_or_so_long_ago() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a time");
        for (text, expect) in [
            ("10m", "2026-01-01T11:50:00Z"),
            ("1d12h", "2025-12-31T00:00:00Z"),
            ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
            ("2026-01-01T10:00:00.5+01:00", "2026-01-01T09:00:00.5Z"),
        ] {
            let since: SinceSpec = text.parse().expect(text);
            assert_eq!(since.resolve(now).to_string(), expect);
        }
        for text in ["", "yesterday", "10", "2026-01-01"] {
            assert!(text.parse::<SinceSpec>().is_err(), "{text}");
        }
    }
}
