//! `warpyard cost`: one run, once or repeatedly; or a report with all its pages.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use api_client::{Client, CostFilter, Error};
use api_types::rest::{CostGrouping, CostReport, RunCostView};

use crate::args::{CostArgs, OutputFormat, SumBy};
use crate::day::today;
use crate::exit::{Exit, Failure, Output};
use crate::print::{names, print};
use crate::session::Session;
use crate::{money, render_cost, wait};

/// The largest page the server gives.
const PAGE_MAX: u16 = 1_000;
/// 100 pages of 1,000 rows: more than anybody reads, 20 MB as CSV.
const PAGES_MAX: usize = 100;
/// How often a watched cost is asked for; the meter posts every few seconds.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Failures in a row that are tolerated while watching: 30 × 2 s, in which a database restarts.
const FAILURES_MAX: u32 = 30;
/// `show` waits for a ledger no longer than the server waits for a connection to it.
const ASIDE_TIME_MAX: Duration = Duration::from_secs(2);

/// Runs the command.
pub async fn cost(session: &Session, format: OutputFormat, args: &CostArgs) -> Result<Output, Failure> {
    let Some(run) = &args.run else { return report(session, format, args).await };
    let (namespace, name) = session.run_name(run)?;
    let client = session.client()?;
    if args.watch {
        return watch(&client, namespace, name, format).await;
    }
    let view = client.run_cost(namespace, name).await?;
    Ok(match format {
        OutputFormat::Table => Output::data(render_cost::run_cost(&view)).note(run_remarks(&view)),
        _ => Output::data(print(format, &view, || format!("{namespace}/{name}"))?),
    })
}

/// The run's cost; `None` without a ledger, an answer in time, or the right to see it.
pub async fn if_known(client: &Client, namespace: &str, name: &str) -> Option<RunCostView> {
    tokio::time::timeout(ASIDE_TIME_MAX, client.run_cost(namespace, name)).await.ok()?.ok()
}

async fn report(session: &Session, format: OutputFormat, args: &CostArgs) -> Result<Output, Failure> {
    let filter = filter(session.namespace(), args);
    let client = session.client()?;
    if format == OutputFormat::Csv {
        return csv(&client, filter).await;
    }
    let mut report = client.cost_report(&filter).await.map_err(|error| names_hidden(error.into(), args))?;
    let mut next = CostFilter { continue_token: report.continue_token.take(), ..filter.clone() };
    for _ in 1..PAGES_MAX {
        if next.continue_token.is_none() {
            break;
        }
        let page = client.cost_report(&next).await?;
        report.items.extend(page.items);
        next.continue_token = page.continue_token;
    }
    report.continue_token = next.continue_token;
    let keys = || names(report.items.iter().filter_map(|row| row.key.clone()));
    Ok(match format {
        OutputFormat::Table => Output::data(render_cost::report(&report)).note(footer(&report, &filter)),
        _ => Output::data(print(format, &report, keys)?),
    })
}

/// The server's pages, one after the other under one header.
async fn csv(client: &Client, mut filter: CostFilter) -> Result<Output, Failure> {
    let mut text = String::new();
    for _ in 0..PAGES_MAX {
        let page = client.cost_csv(&filter).await?;
        let rows = page.text.split_once('\n').map_or("", |(_, rows)| rows);
        text.push_str(if text.is_empty() { &page.text } else { rows });
        filter.continue_token = page.continue_token;
        if filter.continue_token.is_none() {
            return Ok(Output::data(text));
        }
    }
    Ok(Output::data(text).note(there_is_more()))
}

async fn watch(
    client: &Client,
    namespace: &str,
    name: &str,
    format: OutputFormat,
) -> Result<Output, Failure> {
    if !matches!(format, OutputFormat::Table | OutputFormat::Json) {
        return Err(Failure::new(Exit::Usage, "--watch prints tables, or one JSON object on each line")
            .hint("leave -o out, or give -o json"));
    }
    let mut failures = 0;
    let mut screen = Screen { redraws: std::io::stdout().is_terminal(), lines: 0 };
    loop {
        match client.run_cost(namespace, name).await {
            Ok(view) => {
                failures = 0;
                // The reader of stdout may have seen enough.
                if screen.show(format, &view)?.is_err() || is_over(client, &view).await? {
                    return Ok(Output::data("").note(run_remarks(&view)));
                }
            }
            Err(error) if is_passing(&error) && failures < FAILURES_MAX => failures += 1,
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = tokio::time::sleep(WATCH_INTERVAL) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Output { exit: Exit::Interrupted, ..Output::data("") }),
        }
    }
}

/// The last output, which is redrawn on a terminal.
struct Screen {
    redraws: bool,
    lines: usize,
}

impl Screen {
    /// Shows a view; the inner error means that stdout is closed.
    fn show(&mut self, format: OutputFormat, view: &RunCostView) -> Result<std::io::Result<()>, Failure> {
        let text = match format {
            OutputFormat::Json => serde_json::to_string(view)
                .map(|line| line + "\n")
                .map_err(|error| Failure::new(Exit::Failed, format!("cannot print the answer: {error}")))?,
            _ if self.redraws => render_cost::run_cost(view),
            _ => render_cost::watch_line(view),
        };
        let mut out = std::io::stdout().lock();
        let redraw = self.redraws && format == OutputFormat::Table && self.lines > 0;
        // Up to where it began, and clear from there.
        let back = if redraw { format!("\u{1b}[{}A\u{1b}[J", self.lines) } else { String::new() };
        self.lines = text.lines().count();
        Ok(out
            .write_all(back.as_bytes())
            .and_then(|()| out.write_all(text.as_bytes()))
            .and_then(|()| out.flush()))
    }
}

/// Whether the cost grows no more, and the run is over or gone.
async fn is_over(client: &Client, view: &RunCostView) -> Result<bool, Failure> {
    if !money::is_zero(&view.total.per_hour) {
        return Ok(false);
    }
    match client.get_run(&view.namespace, &view.name).await {
        Ok(run) => Ok(run.summary.phase.is_final()),
        Err(Error::Problem(problem)) if problem.status == 404 => Ok(true),
        Err(error) if is_passing(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_passing(error: &Error) -> bool {
    match error {
        // There is no ledger, and waiting does not help.
        Error::Problem(problem) if problem.code == "NoLedger" => false,
        error => wait::is_passing(error),
    }
}

/// The question to the server. The help of [`crate::args::Command::Cost`] says when it names a namespace.
fn filter(namespace: Option<&str>, args: &CostArgs) -> CostFilter {
    let by = args.by.unwrap_or(if args.queue.is_some() { SumBy::Queue } else { SumBy::Run });
    let shows_names = matches!(by, SumBy::Run | SumBy::User | SumBy::Namespace) || args.user.is_some();
    let whole_queue = args.queue.is_some() && !shows_names;
    let today = today();
    CostFilter {
        by: grouping(by),
        since: args.since.map(|day| day.first(today).to_string()),
        until: args.until.map(|day| day.last(today).to_string()),
        namespace: namespace.filter(|_| !args.all_namespaces && !whole_queue).map(str::to_owned),
        queue: args.queue.clone(),
        user: args.user.clone(),
        limit: Some(PAGE_MAX),
        continue_token: None,
    }
}

/// Converts to the API's type: clap can derive values only for a type of this crate.
fn grouping(by: SumBy) -> CostGrouping {
    match by {
        SumBy::Run => CostGrouping::Run,
        SumBy::User => CostGrouping::User,
        SumBy::Queue => CostGrouping::Queue,
        SumBy::Namespace => CostGrouping::Namespace,
        SumBy::Day => CostGrouping::Day,
        SumBy::Class => CostGrouping::Class,
    }
}

/// Replaces the server's hint by one about the command line.
fn names_hidden(failure: Failure, args: &CostArgs) -> Failure {
    if args.queue.is_some() && args.all_namespaces && failure.exit == Exit::Auth {
        return failure
            .hint("leave -A out to see your namespace's part, or ask with --by queue, day or class");
    }
    failure
}

/// The footer: the subject of the table, and remarks on gaps.
fn footer(report: &CostReport, filter: &CostFilter) -> String {
    let mut text = format!("{} to {} (UTC)", report.since, report.until);
    let parts = [("namespace", &filter.namespace), ("queue", &filter.queue), ("user", &filter.user)];
    for (what, name) in parts {
        text.extend(name.as_ref().map(|name| format!(", {what} {name}")));
    }
    let mut text = crate::render::clean(&text) + ".\n";
    if report.items.iter().any(|row| row.key.is_none()) {
        text.push_str("`-` is use without a name: idle nodes, or pods outside runs and queues.\n");
    }
    if report.continue_token.is_some() {
        text.push_str(&there_is_more());
    }
    text + &render_cost::remarks(report.currency.as_deref(), &report.total)
}

fn run_remarks(view: &RunCostView) -> String {
    // A run that has used nothing needs no price.
    render_cost::so_far(view)
        .map(|_| render_cost::remarks(view.currency.as_deref(), &view.total))
        .unwrap_or_default()
}

fn there_is_more() -> String {
    format!(
        "There are more than {} rows: see --queue, --user, --since and --until.\n",
        PAGES_MAX * usize::from(PAGE_MAX)
    )
}

#[cfg(test)]
mod tests {
    use api_types::rest::CostGrouping;
    use clap::Parser;

    use super::filter;
    use crate::args::{Cli, Command};

    fn asked(arguments: &[&str]) -> (CostGrouping, Option<String>) {
        let arguments = ["warpyard", "cost"].into_iter().chain(arguments.iter().copied());
        let Command::Cost(args) = Cli::try_parse_from(arguments).expect("valid").command else {
            panic!("not cost")
        };
        let filter = filter(Some("nlp"), &args);
        (filter.by, filter.namespace)
    }

    #[test]
    fn a_queue_is_summed_whole_and_names_are_those_of_the_own_namespace() {
        let own = Some("nlp".to_owned());
        for (arguments, expect) in [
            (vec![], (CostGrouping::Run, own.clone())),
            (vec!["-A"], (CostGrouping::Run, None)),
            (vec!["--by", "day"], (CostGrouping::Day, own.clone())),
            (vec!["--user", "alice"], (CostGrouping::Run, own.clone())),
            (vec!["--queue", "q"], (CostGrouping::Queue, None)),
            (vec!["--queue", "q", "--by", "class"], (CostGrouping::Class, None)),
            (vec!["--queue", "q", "--by", "user"], (CostGrouping::User, own.clone())),
            (vec!["--queue", "q", "--user", "alice"], (CostGrouping::Queue, own)),
            (vec!["--queue", "q", "--by", "user", "-A"], (CostGrouping::User, None)),
        ] {
            assert_eq!(asked(&arguments), expect, "{arguments:?}");
        }
    }
}
