//! `warpyard logs`: what members print, once, or again and again.

use std::io::Write;
use std::str::FromStr;
use std::time::Duration;

use api_client::{Client, Error, LogFilter};
use api_types::duration;
use api_types::logs::RunLogs;
use jiff::{SignedDuration, Timestamp};

use crate::args::{LogsArgs, OutputFormat};
use crate::commands::print;
use crate::exit::{Exit, Failure, Output};
use crate::render_logs::Printer;
use crate::session::Session;

/// How often what is followed is asked for: each time costs the cluster one request for each member.
const INTERVAL: Duration = Duration::from_secs(2);
/// Failures in a row that are put up with while following: 30 × 2 s, in which a server restarts.
const FAILURES_MAX: u32 = 30;
/// The most lines of each member between two looks: the most that the server gives.
const FOLLOWED_LINES_MAX: u16 = 10_000;
/// Lines may come so much later than their time says: machines have clocks of their own.
const LATE_SECONDS: i64 = 10;

/// From when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinceSpec {
    /// So many seconds ago.
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
            .map_err(|_| format!("`{text}` is no time: write 10m, 2h30m or 2026-11-01T10:00:00Z"))
    }
}

impl SinceSpec {
    fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(seconds) => {
                now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN)
            }
            Self::At(at) => at,
        }
    }
}

/// Runs the command.
pub async fn logs(session: &Session, format: OutputFormat, args: &LogsArgs) -> Result<Output, Failure> {
    let (namespace, name) = session.run_name(&args.run.run)?;
    let client = session.client()?;
    let filter = LogFilter {
        attempt: args.attempt,
        member: args.member,
        since: args.since.map(|since| since.resolve(Timestamp::now()).to_string()),
        tail: Some(args.tail),
    };
    if args.follow {
        return follow(&client, namespace, name, filter, format).await;
    }
    let logs = client.read_logs(namespace, name, &filter).await?;
    let mut printer = Printer::default();
    Ok(match format {
        OutputFormat::Table => {
            let notes = printer.notes(&logs);
            let lines = printer.lines(&logs);
            let nothing = if lines.is_empty() && notes.is_empty() { "Nothing was printed.\n" } else { "" };
            Output::data(lines).note(notes + nothing)
        }
        _ => Output::data(print(format, &logs, || format!("{namespace}/{name}"))?),
    })
}

async fn follow(
    client: &Client,
    namespace: &str,
    name: &str,
    mut filter: LogFilter,
    format: OutputFormat,
) -> Result<Output, Failure> {
    if !matches!(format, OutputFormat::Table | OutputFormat::Json) {
        return Err(Failure::new(Exit::Usage, "-f prints lines, or one JSON object for each")
            .hint("leave -o out, or give -o json"));
    }
    let mut printer = Printer::default();
    let (mut failures, mut was_over) = (0, false);
    loop {
        match client.read_logs(namespace, name, &filter).await {
            Ok(logs) => {
                failures = 0;
                eprint!("{}", printer.notes(&logs));
                // Whoever reads may have seen enough. What was printed last may come after the end is known.
                if show(&mut printer, format, &logs)?.is_err() || was_over {
                    return Ok(Output::data(""));
                }
                was_over = logs.phase.is_final();
                if let Some(seen) = printer.seen_until() {
                    let late = SignedDuration::from_secs(LATE_SECONDS);
                    filter.since = seen.saturating_sub(late).ok().map(|since| since.to_string());
                    filter.tail = Some(FOLLOWED_LINES_MAX);
                }
            }
            Err(error) if is_passing(&error) && failures < FAILURES_MAX => failures += 1,
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Output { exit: Exit::Interrupted, ..Output::data("") }),
        }
    }
}

/// Shows what is new; the inner error is that nobody reads any more.
fn show(printer: &mut Printer, format: OutputFormat, logs: &RunLogs) -> Result<std::io::Result<()>, Failure> {
    let text = match format {
        OutputFormat::Json => {
            let mut text = String::new();
            for line in printer.unseen(logs) {
                text += &serde_json::to_string(line).map_err(|error| {
                    Failure::new(Exit::Failed, format!("cannot print the answer: {error}"))
                })?;
                text.push('\n');
            }
            text
        }
        _ => printer.lines(logs),
    };
    let mut out = std::io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn is_passing(error: &Error) -> bool {
    match error {
        Error::Transport { .. } => true,
        Error::Problem(problem) => problem.status == 503,
        _ => false,
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
