//! `warpyard logs`: the logs of members, once or repeatedly.

use std::io::Write;
use std::time::Duration;

use api_client::{Client, LogFilter};
use api_types::logs::RunLogs;
use jiff::{SignedDuration, Timestamp};

use crate::args::{LogsArgs, OutputFormat};
use crate::exit::{Exit, Failure, Output};
use crate::print::print;
use crate::render_logs::Printer;
use crate::session::Session;
use crate::wait::is_passing;

/// How often new lines are asked for: each time costs the cluster one request per member.
const INTERVAL: Duration = Duration::from_secs(2);
/// Failures in a row that are tolerated while following: 30 × 2 s, in which a server restarts.
const FAILURES_MAX: u32 = 30;
/// The most lines of each member in one answer: the server's maximum.
const FOLLOWED_LINES_MAX: u16 = 10_000;
/// How much later than its time a line may arrive: machines have clocks of their own.
const LATE_SECONDS: i64 = 10;

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
                // The reader of stdout may have seen enough. The last lines may arrive after the end is known.
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

/// Shows new lines; the inner error means that stdout is closed.
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
