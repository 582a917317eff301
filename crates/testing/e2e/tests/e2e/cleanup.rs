//! Ended runs leave the cluster for the archive, and are found there.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_client::{Client, RunFilter};
use api_types::{Run, RunPhase, names};
use e2e::cli::Cli;
use e2e::objects::{create_prices, create_run, h100_nodes, run};
use e2e::observe::phase_reached;
use e2e::users::create_team;
use e2e::wait;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};
use test_cluster::postgres::Postgres;

/// The meter and the cleaner begin within seconds; the machine may be busy.
const CLEANED_WITHIN: Duration = Duration::from_mins(2);
/// How many ended runs of a namespace stay.
const KEPT: usize = 2;
const RUNS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

#[tokio::test(flavor = "multi_thread")]
async fn ended_runs_leave_the_cluster_and_are_found_by_ls_show_and_cost() -> anyhow::Result<()> {
    let users = TestCluster::builder().user("alice", &[]).user("bob", &[]);
    let cluster = users.nodes(h100_nodes("node", 1)).start().await?;
    let postgres = Postgres::start(cluster.dir()).await?;
    let client = cluster.admin_client();
    create_prices(&client, "H100", "3.60").await?;
    create_team(&client, "alice", "nlp", None, &[("H100", 8)]).await?;
    create_team(&client, "bob", "vision", None, &[("H100", 8)]).await?;
    let platform = Platform::debug(&cluster).with_ledger(&postgres);
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let mut controllers =
        platform.controllers_with("controllers", |spec| spec.arg(format!("--keep-runs={KEPT}"))).await?;
    let (_api_server, url) = platform.api_server("127.0.0.1:0").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;

    create_run(&client, "nlp", "open", run("nlp", 1, 1, None)).await?;
    for name in RUNS {
        create_run(&client, "nlp", name, run("nlp", 1, 1, Some("1s"))).await?;
        // One after the other, so that they end in this order.
        wait::until(&format!("{name} has ended"), CLEANED_WITHIN, || async {
            let runs: Api<Run> = Api::namespaced(client.clone(), "nlp");
            let run = runs.get_opt(name).await.context("failed to read a run")?;
            let phase = run.and_then(|run| run.status).unwrap_or_default().phase;
            Ok((phase == RunPhase::Succeeded).then_some(()))
        })
        .await?;
    }
    let runs: Api<Run> = Api::namespaced(client.clone(), "nlp");
    wait::until("the last two and the one that runs are left", CLEANED_WITHIN, || async {
        let mut left = names_of(&runs).await?;
        left.sort();
        Ok((left == ["fifth", "fourth", "open"]).then_some(()))
    })
    .await?;
    let jobs: Api<Job> = Api::namespaced(client.clone(), "nlp");
    wait::until("their Jobs have gone with them", CLEANED_WITHIN, || async {
        Ok((names_of(&jobs).await?.len() == KEPT + 1).then_some(()))
    })
    .await?;

    let home = tempfile::tempdir()?;
    let cli = |user: &str, namespace: &str| -> anyhow::Result<Cli> {
        Ok(Cli {
            binary: platform.binary("warpyard"),
            home: home.path().to_owned(),
            url: url.clone(),
            token: cluster.token_for_user(user)?.to_owned(),
            namespace: namespace.to_owned(),
        })
    };
    let alice = cli("alice", "nlp")?;
    wait::until("the list without the archive is short", wait::PATIENCE, || async {
        Ok((listed(&alice, &["ls"])? == ["fifth", "fourth", "open"]).then_some(()))
    })
    .await?;
    let all = ["fifth", "fourth", "third", "second", "first", "open"];
    ensure!(listed(&alice, &["ls", "--all"])? == all, "{:?}", listed(&alice, &["ls", "--all"])?);
    ensure!(listed(&alice, &["ls", "--all", "-A"])? == all);
    ensure!(listed(&alice, &["ls", "--all", "--state", "Running"])? == ["open"]);
    ensure!(listed(&alice, &["ls", "--all", "--limit", "3"])? == ["fifth", "fourth", "third"]);
    ensure!(pages(&Client::new(&url, cluster.token_for_user("alice")?)?).await? == all, "pages of two");
    let shown = alice.stdout(&["show", "first"])?;
    println!("{shown}");
    ensure!(shown.contains("nlp/first") && shown.contains("Archived") && shown.contains("Succeeded"));
    alice.stdout(&["why", "first"])?;
    let cost = alice.stdout(&["cost", "first"])?;
    ensure!(cost.contains("USD"), "{cost}");

    let bob = cli("bob", "vision")?;
    ensure!(listed(&bob, &["ls", "--all", "-A"])?.is_empty(), "another tenant's runs are not his to see");
    bob.run(&["show", "nlp/first"], 4)?;

    // The right to delete runs is for what has ended.
    let account = (names::SYSTEM_NAMESPACE, names::CONTROLLERS_SERVICE_ACCOUNT);
    let kubeconfig = cluster.kubeconfig_for_service_account(account.0, account.1).await?;
    let runs_of_controllers: Api<Run> = Api::namespaced(cluster.client_for(&kubeconfig).await?, "nlp");
    let refused = runs_of_controllers.delete("open", &DeleteParams::default()).await;
    ensure!(format!("{refused:?}").contains("only runs that have ended"), "{refused:?}");
    ensure!(phase_reached(&client, "nlp", "open", RunPhase::Running).await.is_ok());
    cluster.stop().await;
    Ok(())
}

async fn names_of<K>(api: &Api<K>) -> anyhow::Result<Vec<String>>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let list = api.list(&ListParams::default()).await.context("failed to list")?;
    Ok(list.items.iter().map(ResourceExt::name_any).collect())
}

/// The names that a list prints.
fn listed(cli: &Cli, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
    let names = cli.stdout(&[arguments, &["-o", "name"]].concat())?;
    Ok(names.lines().map(|name| name.rsplit('/').next().unwrap_or_default().to_owned()).collect())
}

async fn pages(client: &Client) -> anyhow::Result<Vec<String>> {
    let mut filter = RunFilter { archived: true, limit: Some(2), ..RunFilter::default() };
    let mut names = Vec::new();
    loop {
        let page = client.list_runs(&filter).await?;
        ensure!(page.items.len() <= 2);
        names.extend(page.items.into_iter().map(|run| run.name));
        filter.continue_token = page.continue_token;
        if filter.continue_token.is_none() {
            return Ok(names);
        }
    }
}
