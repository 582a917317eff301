//! Costs as people see them: REST and the command line show the ledger's numbers, and nobody sees more than
//! they may.

mod site;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_client::{Client, CostFilter};
use api_types::RunPhase;
use api_types::rest::CostGrouping;
use e2e::cli::Cli;
use e2e::objects::{create_prices, create_run, h100_nodes, run};
use e2e::observe::phase_reached;
use e2e::users::create_team;
use e2e::{bounds, wait};
use serde_json::Value;
use store::Scope;
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};
use test_cluster::postgres::Postgres;

use site::{HOUR, Site, keys, millionths, moment, problem};

/// The meter writes within seconds; the machine may be busy.
const METERED_WITHIN: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn the_bill_is_the_ledgers_moves_with_what_runs_and_shows_nobody_more_than_they_may_see()
-> anyhow::Result<()> {
    let site = Site::start().await?;
    rest_and_command_line_say_what_the_ledger_says(&site).await.context("equal to the ledger")?;
    a_running_run_moves_with_every_look(&site).await.context("while it runs")?;
    nobody_sees_more_than_they_may(&site).await.context("who sees what")?;
    pages_add_up_as_json_and_as_csv(&site).await.context("pages")?;
    site.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_takes_the_cost_with_it_and_nothing_else() -> anyhow::Result<()> {
    let mut site = Site::start().await?;
    let alice = site.client("alice")?;
    let cli = site.cli("alice")?;
    alice.run_cost("nlp", "llama-ft").await?;
    site.postgres.crash().await;

    for _ in 0..2 {
        let asked = Instant::now();
        let away = problem(alice.run_cost("nlp", "llama-ft").await)?;
        ensure!((away.status, away.code.as_str()) == (503, "LedgerUnavailable"), "{away:?}");
        ensure!(away.hint.is_some_and(|hint| hint.contains("try again")), "it says what to do");
        let took = asked.elapsed();
        ensure!(took < bounds::LEDGER_AWAY_TOLD.allowed(), "it took {took:?}");
        let report = problem(alice.cost_report(&CostFilter::default()).await)?;
        ensure!(report.code == "LedgerUnavailable", "{report:?}");
    }
    // Who may not see it is told so first, database or not.
    ensure!(problem(alice.run_cost("vision", "resnet").await)?.status == 403, "the right comes first");
    ensure!(alice.get_run("nlp", "live").await?.summary.name == "live", "runs are shown");
    ensure!(alice.list_queues(None, None).await?.items.len() == 1, "and queues");
    let failed = cli.run(&["cost", "llama-ft"], 1)?;
    ensure!(String::from_utf8_lossy(&failed.stderr).contains("\nhint: try again"), "{failed:?}");
    let shown = cli.stdout(&["show", "live"])?;
    ensure!(shown.contains("nlp/live") && !shown.contains("Cost"), "{shown}");

    site.postgres.start_again().await?;
    wait::until("the cost is back", wait::PATIENCE, || async {
        Ok(alice.run_cost("nlp", "llama-ft").await.ok().filter(|cost| cost.total.amount == "14.4").map(drop))
    })
    .await?;
    site.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_metered_run_costs_while_it_runs_and_no_more_when_it_is_over() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().user("alice", &[]).nodes(h100_nodes("node", 1)).start().await?;
    let postgres = Postgres::start(cluster.dir()).await?;
    let client = cluster.admin_client();
    create_prices(&client, "H100", "3.60").await?;
    create_team(&client, "alice", "nlp", None, &[("H100", 8)]).await?;
    let platform = Platform::debug(&cluster).with_ledger(&postgres);
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let mut controllers = platform.controllers("controllers").await?;
    let (_api_server, url) = platform.api_server("127.0.0.1:0").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    controllers.until_logged("Metering.", METERED_WITHIN).await?;
    let token = cluster.token_for_user("alice")?.to_owned();
    let alice = Client::new(&url, &token)?;

    create_run(&client, "nlp", "train", run("nlp", 1, 4, Some("20s"))).await?;
    let looked = || async {
        // Its first moments may find no schema, no price or no use yet.
        let cost = alice.run_cost("nlp", "train").await.ok();
        Ok(cost.filter(|cost| cost.total.per_hour == "14.4"))
    };
    let first = wait::until("the run costs 14.40 an hour", METERED_WITHIN, looked).await?;
    let second = wait::until("its cost moves", METERED_WITHIN, || async {
        let cost = alice.run_cost("nlp", "train").await?;
        Ok((cost.total.amount != first.total.amount).then_some(cost))
    })
    .await?;
    ensure!(second.total.gpu_seconds > first.total.gpu_seconds, "{first:?} {second:?}");

    phase_reached(&client, "nlp", "train", RunPhase::Succeeded).await?;
    let home = tempfile::tempdir()?;
    let cli = Cli {
        binary: platform.binary("warpyard"),
        home: home.path().to_owned(),
        url,
        token,
        namespace: "nlp".to_owned(),
    };
    // Ends by itself, once the end is on the bill.
    let watched = cli.stdout(&["cost", "train", "--watch"])?;
    println!("{watched}");
    let total = alice.run_cost("nlp", "train").await?.total;
    ensure!((total.per_hour.as_str(), total.unpriced_gpu_seconds) == ("0", 0), "{total:?}");
    ensure!(
        total.gpu_seconds >= 4 * 20 && total.gpu_seconds % 4 == 0,
        "four GPUs, twenty seconds: {total:?}"
    );
    ensure!(millionths(&total.amount)? == i128::from(total.gpu_seconds) * 1_000, "{total:?}");
    wait::until("the queue shows what it spent", METERED_WITHIN, || async {
        let queues = cli.stdout(&["queues"])?;
        Ok(queues.contains("SPEND").then(|| println!("{queues}")))
    })
    .await?;
    cluster.stop().await;
    Ok(())
}

async fn rest_and_command_line_say_what_the_ledger_says(site: &Site) -> anyhow::Result<()> {
    let alice = site.client("alice")?;

    // It is in no API server any more, if it ever was.
    let cost = alice.run_cost("nlp", "llama-ft").await?;
    ensure!(cost.currency.as_deref() == Some("USD"), "{cost:?}");
    ensure!((cost.total.amount.as_str(), cost.total.per_hour.as_str()) == ("14.4", "0"), "{cost:?}");
    ensure!(cost.total.gpu_seconds == 4 * HOUR, "{cost:?}");
    let classes: Vec<_> =
        cost.classes.iter().map(|class| (class.class, class.cost.amount.as_str())).collect();
    ensure!(format!("{classes:?}") == r#"[(Productive, "14.16"), (Starting, "0.24")]"#, "{classes:?}");
    ensure!(cost.attempts.len() == 1 && cost.attempts[0].cost == cost.total, "{cost:?}");
    let never = problem(alice.run_cost("nlp", "never-was").await)?;
    ensure!(never.status == 404, "{never:?}");

    let cli = site.cli("alice")?;
    let printed: Value = serde_json::from_str(&cli.stdout(&["cost", "llama-ft", "-o", "json"])?)?;
    ensure!(printed["total"] == serde_json::to_value(&cost.total)?, "{printed}");
    let screen = cli.stdout(&["cost", "nlp/llama-ft"])?;
    println!("{screen}");
    ensure!(screen.contains("14.40 USD") && screen.contains("productive"), "{screen}");
    // It does not wait long for a cost.
    wait::until("show has the cost in a line", METERED_WITHIN, || async {
        Ok(cli.stdout(&["show", "live"])?.contains("USD so far (7.20 USD/h)").then_some(()))
    })
    .await?;
    cli.run(&["cost", "never-was"], 3)?;

    // Every grouping, as the one who sees all: equal to the ledger at the same moment, and of one total.
    let finance = site.client("finance")?;
    let filter = |by| CostFilter { by, since: Some(site.since()), ..CostFilter::default() };
    for by in [
        CostGrouping::Run,
        CostGrouping::User,
        CostGrouping::Queue,
        CostGrouping::Namespace,
        CostGrouping::Day,
        CostGrouping::Class,
    ] {
        let report = finance.cost_report(&filter(by)).await?;
        site.check_against_ledger(&report).await.with_context(|| format!("{by:?}"))?;
    }
    let by_class = finance.cost_report(&filter(CostGrouping::Class)).await?;
    ensure!(keys(&by_class).contains("NodeIdle"), "who sees all sees what nobody held: {by_class:?}");

    let table = cli.stdout(&["cost", "--since", &site.since()])?;
    println!("{table}");
    ensure!(
        table.contains("nlp/llama-ft") && table.contains("TOTAL") && !table.contains("resnet"),
        "{table}"
    );
    Ok(())
}

async fn a_running_run_moves_with_every_look(site: &Site) -> anyhow::Result<()> {
    let alice = site.client("alice")?;
    let first = alice.run_cost("nlp", "live").await?;
    ensure!(first.total.per_hour == "7.2", "{first:?}");
    let second = wait::until("the cost has grown", wait::PATIENCE, || async {
        let now = alice.run_cost("nlp", "live").await?;
        Ok((now.total.amount != first.total.amount).then_some(now))
    })
    .await?;
    let seconds = moment(&second.as_of)?.0 - moment(&first.as_of)?.0;
    let grown = millionths(&second.total.amount)? - millionths(&first.total.amount)?;
    ensure!(grown == i128::from(seconds) * 2_000, "two thousandths a second: {first:?} {second:?}");

    let mut watch =
        site.cli("alice")?.command(&["cost", "live", "--watch"]).stdout(Stdio::piped()).spawn()?;
    let output = watch.stdout.take().context("it has an output")?;
    let lines: Vec<String> = BufReader::new(output).lines().take(2).collect::<Result<_, _>>()?;
    watch.kill()?;
    watch.wait()?;
    ensure!(lines.len() == 2 && lines[0] != lines[1], "without a terminal, one line each: {lines:?}");
    ensure!(lines[0].contains("USD so far (7.20 USD/h)"), "{lines:?}");
    Ok(())
}

async fn nobody_sees_more_than_they_may(site: &Site) -> anyhow::Result<()> {
    let (alice, lead) = (site.client("alice")?, site.client("lead")?);
    let since = Some(site.since());
    let of = |by, queue: Option<&str>| CostFilter {
        by,
        since: since.clone(),
        queue: queue.map(str::to_owned),
        ..CostFilter::default()
    };

    // Another tenant: refused alike, whether there is anything or not.
    for run in ["resnet", "never-was"] {
        let refused = problem(alice.run_cost("vision", run).await)?;
        ensure!(refused.status == 403, "{refused:?}");
    }
    let foreign = CostFilter { namespace: Some("vision".to_owned()), ..of(CostGrouping::Run, None) };
    ensure!(problem(alice.cost_report(&foreign).await)?.status == 403, "a namespace that is not hers");

    // What names no tenant shows her own, by whatever name it is asked for.
    let own = alice.cost_report(&of(CostGrouping::Namespace, None)).await?;
    ensure!(keys(&own) == BTreeSet::from(["nlp".to_owned()]), "{own:?}");
    let bobs = CostFilter { user: Some("bob".to_owned()), ..of(CostGrouping::Run, None) };
    ensure!(alice.cost_report(&bobs).await?.total.gpu_seconds == 0, "bob's runs are not hers to see");
    let above = problem(alice.cost_report(&of(CostGrouping::Queue, Some("research"))).await)?;
    ensure!(above.status == 403, "her part of a queue that she may not get is not the queue's: {above:?}");
    // She may get this one, and list runs in every namespace that used it.
    let named = alice.cost_report(&of(CostGrouping::Run, Some("nlp"))).await?;
    ensure!(keys(&named).contains("nlp/llama-ft"), "{named:?}");

    // Who may get a queue sees its sums with those below it, and no names.
    let whole = lead.cost_report(&of(CostGrouping::Queue, Some("research"))).await?;
    ensure!(keys(&whole) == BTreeSet::from(["nlp".to_owned(), "vision".to_owned()]), "{whole:?}");
    site.check_against_ledger_of(
        &whole,
        Scope::Everything,
        Some(vec!["nlp".to_owned(), "vision".to_owned()]),
    )
    .await?;
    for by in [CostGrouping::Day, CostGrouping::Class] {
        let sums = lead.cost_report(&of(by, Some("research"))).await?;
        ensure!(sums.total.gpu_seconds >= whole.total.gpu_seconds, "{by:?} {sums:?}");
        ensure!(!keys(&sums).contains("NodeIdle"), "what nobody held belongs to no queue: {sums:?}");
    }
    for by in [CostGrouping::Run, CostGrouping::User, CostGrouping::Namespace] {
        let hidden = problem(lead.cost_report(&of(by, Some("research"))).await)?;
        ensure!((hidden.status, hidden.code.as_str()) == (403, "NamesHidden"), "{by:?} {hidden:?}");
        ensure!(hidden.hint.is_some(), "{hidden:?}");
    }
    let of_bob = CostFilter { user: Some("bob".to_owned()), ..of(CostGrouping::Day, Some("research")) };
    ensure!(problem(lead.cost_report(&of_bob).await)?.code == "NamesHidden", "nor one user's sum");
    ensure!(
        lead.cost_report(&of(CostGrouping::Run, None)).await?.items.is_empty(),
        "without the queue, nothing"
    );

    let cli = site.cli("lead")?;
    let table = cli.stdout(&["cost", "--queue", "research", "--since", &site.since()])?;
    println!("{table}");
    ensure!(table.contains("vision") && !table.contains("resnet") && !table.contains("bob"), "{table}");
    let refused = cli.run(&["cost", "--queue", "research", "--by", "user", "-A"], 4)?;
    ensure!(String::from_utf8_lossy(&refused.stderr).contains("hint: leave -A out"), "{refused:?}");
    Ok(())
}

async fn pages_add_up_as_json_and_as_csv(site: &Site) -> anyhow::Result<()> {
    let alice = site.client("alice")?;
    let mut filter = CostFilter { since: Some(site.since()), limit: Some(3), ..CostFilter::default() };
    let first = alice.cost_report(&filter).await?;
    let mut pages = vec![first.clone()];
    while let Some(token) = pages.last().and_then(|page| page.continue_token.clone()) {
        ensure!(pages.len() < 10, "the pages end");
        filter.continue_token = Some(token);
        pages.push(alice.cost_report(&filter).await?);
    }
    ensure!(pages.len() == 3, "nine runs, three on a page: {pages:?}");
    // A run goes on meanwhile: the pages count until one moment all the same.
    ensure!(pages.iter().all(|page| (&page.total, &page.as_of) == (&first.total, &first.as_of)), "{pages:?}");
    let rows: Vec<_> = pages.iter().flat_map(|page| &page.items).collect();
    let sum: i128 = rows.iter().map(|row| millionths(&row.cost.amount)).sum::<anyhow::Result<_>>()?;
    ensure!(sum == millionths(&first.total.amount)?, "{pages:?}");
    ensure!(rows.iter().map(|row| row.cost.gpu_seconds).sum::<i64>() == first.total.gpu_seconds, "{pages:?}");
    let other = CostFilter { by: CostGrouping::User, ..filter.clone() };
    ensure!(problem(alice.cost_report(&other).await)?.code == "InvalidContinue", "a token of another report");

    let mut filter = CostFilter { continue_token: None, ..filter };
    let mut lines = Vec::new();
    loop {
        let page = alice.cost_csv(&filter).await?;
        let mut rows = page.text.lines().map(str::to_owned);
        let header = rows.next().context("a page has a header")?;
        let columns =
            "run,amount,currency,per_hour,gpu_seconds,unpriced_gpu_seconds,spot_saved,interruptions";
        ensure!(header == columns, "{header}");
        lines.extend(rows);
        filter.continue_token = page.continue_token;
        if filter.continue_token.is_none() {
            break;
        }
    }
    ensure!(lines.len() == 9, "{lines:?}");
    ensure!(lines.contains(&"nlp/llama-ft,14.4,USD,0,14400,0,0,0".to_owned()), "{lines:?}");
    let printed = site.cli("alice")?.stdout(&["cost", "-o", "csv", "--since", &site.since()])?;
    ensure!(
        printed.lines().count() == 10 && printed.contains("nlp/llama-ft,14.4,USD,0,14400,0"),
        "{printed}"
    );
    Ok(())
}
