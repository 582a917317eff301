//! The commands: each asks the server and renders its answer.

use std::time::Duration;

use api_client::{Client, RunFilter};
use api_types::rest::{Page, QueueView, RunSummary, RunView, Why};
use clap::CommandFactory;
use jiff::Timestamp;

use crate::args::{BoardArgs, CapacityArgs, Cli, Command, LsArgs, OutputFormat, RunArgs, SubmitArgs};
use crate::exit::{Exit, Failure, Output};
use crate::print::{full_name, names, print, submitted};
use crate::session::Session;
use crate::{asks, cost, job_file, logs, render, render_board, render_capacity, render_run, simulate, wait};

/// The largest page the server gives.
const PAGE_MAX: u32 = 500;
/// All queues are listed: 2,000 in a large cluster, 100,000 at most.
const QUEUE_PAGES_MAX: usize = 200;
/// How often a forecast that is not ready is asked for again, and after which wait.
const FORECAST_TRIES: u32 = 4;
const FORECAST_PAUSE: Duration = Duration::from_millis(500);

/// Runs one command.
pub async fn run(cli: Cli) -> Result<Output, Failure> {
    let Cli { global, command } = cli;
    let format = global.output;
    match command {
        Command::Schema => return Ok(Output::data(job_file::job_file_schema_json())),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "warpyard", &mut script);
            return Ok(Output::data(String::from_utf8_lossy(&script)));
        }
        Command::Simulate(args) => return simulate::simulate(format, &args),
        _ => {}
    }
    if format == OutputFormat::Csv && !matches!(&command, Command::Cost(args) if args.run.is_none()) {
        return Err(Failure::new(Exit::Usage, "only reports of `warpyard cost` are printed as csv")
            .hint("-o json has everything; for spreadsheets: warpyard cost --by run -o csv"));
    }
    let session = Session::open(global)?;
    let warning = session.warning().unwrap_or_default();
    let output = match command {
        Command::Login => login(&session, format).await,
        Command::Whoami => whoami(&session, format).await,
        Command::Submit(args) => submit(&session, format, &args).await,
        Command::Ls(args) => ls(&session, format, &args).await,
        Command::Show(args) => show(&session, format, &args).await,
        Command::Why(args) => why(&session, format, &args).await,
        Command::Logs(args) => logs::logs(&session, format, &args).await,
        Command::Stop(args) => asks::stop(&session, format, &args).await,
        Command::Pause(args) => asks::pause(&session, format, &args).await,
        Command::Resume(args) => asks::resume(&session, format, &args).await,
        Command::Retry(args) => asks::retry(&session, format, &args).await,
        Command::Queues => queues(&session, format).await,
        Command::Queue(args) => board(&session, format, &args).await,
        Command::Capacity(args) => capacity(&session, format, &args).await,
        Command::Snapshot => snapshot(&session).await,
        Command::Cost(args) => cost::cost(&session, format, &args).await,
        Command::Schema | Command::Completion { .. } | Command::Simulate(_) => unreachable!("answered above"),
    }?;
    Ok(output.note(warning))
}

async fn login(session: &Session, format: OutputFormat) -> Result<Output, Failure> {
    let (client, config) = session.login()?;
    let you = client.who_am_i().await?;
    let path = session.save(&config)?;
    let stdout = if format == OutputFormat::Table {
        String::new()
    } else {
        print(format, &you, || you.username.clone())?
    };
    let place = config.namespace.as_ref().map_or(String::new(), |name| format!(", namespace {name}"));
    let note = format!(
        "Logged in to {} as {}{place}; remembered in {}.\n",
        client.server(),
        render::clean(&you.username),
        path.display()
    );
    Ok(Output::data(stdout).note(note))
}

async fn whoami(session: &Session, format: OutputFormat) -> Result<Output, Failure> {
    let you = session.client()?.who_am_i().await?;
    Ok(Output::data(match format {
        OutputFormat::Table => {
            let groups = if you.groups.is_empty() { "-".to_owned() } else { you.groups.join(", ") };
            format!("User    {}\nGroups  {}\n", render::clean(&you.username), render::clean(&groups))
        }
        _ => print(format, &you, || you.username.clone())?,
    }))
}

async fn submit(session: &Session, format: OutputFormat, args: &SubmitArgs) -> Result<Output, Failure> {
    let namespace = session.required_namespace()?;
    let job_file = job_file::read(&args.file)?;
    let client = session.client()?;
    let run = client.submit_run(namespace, &job_file, args.dry_run).await?;
    if args.dry_run {
        let output = show_run(format, &run)?;
        return Ok(output.note("Checked; nothing was created.\n"));
    }
    let name = full_name(&run.summary);
    let Some(bound) = args.wait else {
        return Ok(Output::data(submitted(format, &run)?).note(next_steps(&run.summary)));
    };
    eprintln!("Submitted {name}.");
    let end = wait::for_end(&client, namespace, &run.summary.name, bound).await;
    // The name is data even if the run did not succeed.
    match end {
        Ok(run) => Ok(Output::data(submitted(format, &run)?)),
        Err(failure) => Ok(Output { stdout: submitted(format, &run)?, ..failure.into_output() }),
    }
}

async fn ls(session: &Session, format: OutputFormat, args: &LsArgs) -> Result<Output, Failure> {
    let namespace = session.namespace().filter(|_| !args.all_namespaces).map(str::to_owned);
    let with_namespace = namespace.is_none();
    let client = session.client()?;
    let filter = RunFilter {
        namespace,
        queue: args.queue.clone(),
        phase: args.state,
        archived: args.all,
        limit: None,
        continue_token: None,
    };
    let page = list_runs(&client, filter, args.limit).await?;
    let note = match (&page.continue_token, page.items.is_empty()) {
        (Some(_), _) => format!("There are more than {}: see --limit, --state and --queue.\n", args.limit),
        (None, true) => "No runs.\n".to_owned(),
        (None, false) => String::new(),
    };
    let stdout = match format {
        OutputFormat::Table if page.items.is_empty() => String::new(),
        OutputFormat::Table => render::runs(&page.items, with_namespace, Timestamp::now()),
        _ => print(format, &page, || names(page.items.iter().map(full_name)))?,
    };
    Ok(Output::data(stdout).note(note))
}

async fn list_runs(client: &Client, mut filter: RunFilter, limit: u32) -> Result<Page<RunSummary>, Failure> {
    let mut items = Vec::new();
    // Bounded by `limit`: every page but the last is full.
    loop {
        let missing = limit.saturating_sub(u32::try_from(items.len()).unwrap_or(u32::MAX));
        filter.limit = u16::try_from(missing.min(PAGE_MAX)).ok();
        let page = client.list_runs(&filter).await?;
        let is_empty = page.items.is_empty();
        items.extend(page.items);
        if page.continue_token.is_none() || is_empty || items.len() >= limit as usize {
            return Ok(Page { items, continue_token: page.continue_token });
        }
        filter.continue_token = page.continue_token;
    }
}

async fn show(session: &Session, format: OutputFormat, args: &RunArgs) -> Result<Output, Failure> {
    let (namespace, name) = session.run_name(&args.run)?;
    let client = session.client()?;
    if format != OutputFormat::Table {
        return show_run(format, &client.get_run(namespace, name).await?);
    }
    let (run, cost) = tokio::join!(client.get_run(namespace, name), cost::if_known(&client, namespace, name));
    Ok(Output::data(render_run::run(&run?, cost.as_ref(), Timestamp::now())))
}

async fn why(session: &Session, format: OutputFormat, args: &RunArgs) -> Result<Output, Failure> {
    let (namespace, name) = session.run_name(&args.run)?;
    let why = explain(&session.client()?, namespace, name).await?;
    let stdout = match format {
        OutputFormat::Table => render::why(&why, Timestamp::now()),
        _ => print(format, &why, || format!("{namespace}/{name}"))?,
    };
    let output = Output::data(stdout);
    if why.reasons.iter().any(|reason| reason.never) {
        let note = "\nhint: this run can never start as it is: change the job file and submit it again\n";
        return Ok(Output { exit: Exit::Never, ..output.note(note) });
    }
    Ok(output)
}

/// A first forecast takes a moment, so the question is repeated for a short time.
async fn explain(client: &Client, namespace: &str, name: &str) -> Result<Why, Failure> {
    let mut why = client.explain_run(namespace, name).await?;
    for _ in 0..FORECAST_TRIES {
        if why.outlook.as_ref().is_none_or(|outlook| outlook.forecast.is_some()) {
            break;
        }
        tokio::time::sleep(FORECAST_PAUSE).await;
        why = client.explain_run(namespace, name).await?;
    }
    Ok(why)
}

async fn queues(session: &Session, format: OutputFormat) -> Result<Output, Failure> {
    let client = session.client()?;
    let mut items: Vec<QueueView> = Vec::new();
    let mut continue_token: Option<String> = None;
    for _ in 0..QUEUE_PAGES_MAX {
        let page = client.list_queues(u16::try_from(PAGE_MAX).ok(), continue_token.as_deref()).await?;
        items.extend(page.items);
        continue_token = page.continue_token;
        if continue_token.is_none() {
            break;
        }
    }
    let note = if items.is_empty() { "No queues that you may see.\n" } else { "" };
    let page = Page { items, continue_token };
    let stdout = match format {
        OutputFormat::Table if page.items.is_empty() => String::new(),
        OutputFormat::Table => render::queues(&page.items),
        _ => print(format, &page, || names(page.items.iter().map(|queue| queue.name.clone())))?,
    };
    Ok(Output::data(stdout).note(note))
}

async fn board(session: &Session, format: OutputFormat, args: &BoardArgs) -> Result<Output, Failure> {
    let board = session.client()?.board(args.limit).await?;
    let note = render_board::note(&board, args.limit);
    let stdout = match format {
        OutputFormat::Table => render_board::board(&board, Timestamp::now()),
        _ => print(format, &board, || {
            names(board.runs.iter().map(|run| format!("{}/{}", run.namespace, run.name)))
        })?,
    };
    Ok(Output::data(stdout).note(note))
}

async fn capacity(session: &Session, format: OutputFormat, args: &CapacityArgs) -> Result<Output, Failure> {
    let view = session.client()?.capacity(args.limit).await?;
    let gangs = || view.buying.iter().filter_map(|launch| launch.gang.as_ref());
    let stdout = match format {
        OutputFormat::Table => render_capacity::capacity(&view, Timestamp::now()),
        _ => print(format, &view, || names(gangs().map(|gang| format!("{}/{}", gang.namespace, gang.name))))?,
    };
    Ok(Output::data(stdout).note(render_capacity::note(&view, args.limit)))
}

/// Printed unchanged, whatever the format: it is for `simulate`.
async fn snapshot(session: &Session) -> Result<Output, Failure> {
    let snapshot = session.client()?.snapshot().await?;
    let text = String::from_utf8(snapshot);
    Ok(Output::data(text.map_err(|_| Failure::new(Exit::Failed, "the server's snapshot is not text"))?))
}

fn show_run(format: OutputFormat, run: &RunView) -> Result<Output, Failure> {
    Ok(Output::data(match format {
        OutputFormat::Table => render_run::run(run, None, Timestamp::now()),
        _ => print(format, run, || full_name(&run.summary))?,
    }))
}

fn next_steps(run: &RunSummary) -> String {
    let name = full_name(run);
    let queue =
        run.queue.as_ref().map_or(String::new(), |queue| format!(" to queue {}", render::clean(queue)));
    let gpus = render::gpus(run.members, run.gpus_per_member, run.gpu_type.as_deref());
    let unit = if (run.members, run.gpus_per_member) == (1, 1) { "GPU" } else { "GPUs" };
    format!(
        "Submitted{queue}: {gpus} {unit}.\n\nnext:\n  warpyard why {name}\n  warpyard show {name}\n  warpyard logs -f {name}\n  warpyard cost {name}\n  warpyard stop {name}\n"
    )
}
