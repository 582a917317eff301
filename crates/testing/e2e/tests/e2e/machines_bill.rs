//! The bill for machines bought through Karpenter equals the cloud's, except for a second or two at its ends.

use std::time::Duration;

use anyhow::ensure;
use api_types::rest::UsageClass;
use api_types::run::RunPhase;
use e2e::ledger::machines_are_billed;
use e2e::machines::{Times, billed, claims_by_launch, offer};
use e2e::objects::{create_prices, create_run, run};
use e2e::observe::run_status;
use e2e::users::create_team;
use e2e::wait;
use test_cluster::TestCluster;
use test_cluster::karpenter::{Fate, KarpenterSettings};
use test_cluster::platform::Platform;
use test_cluster::postgres::Postgres;

const TEAM: &str = "nlp";
const BOUND: Duration = Duration::from_mins(2);
const TIMES: Times = Times { boot_seconds: 5, idle_seconds: 10 };

#[tokio::test(flavor = "multi_thread")]
async fn machines_are_billed_from_launch_to_end_at_the_price_paid_and_their_start_to_the_run()
-> anyhow::Result<()> {
    let settings = KarpenterSettings { boot_time: Duration::from_secs(4), ..KarpenterSettings::default() };
    let cluster = TestCluster::builder().karpenter(settings).user("ann", &[]).start().await?;
    let client = cluster.admin_client();
    create_team(&client, "ann", TEAM, None, &[("H100", 64)]).await?;
    // For the currency; no machine that was bought costs this.
    create_prices(&client, "H100", "3600").await?;
    offer(&client, "p5.48xlarge", TIMES).await?;
    let postgres = Postgres::start(cluster.dir()).await?;
    let platform = Platform::debug(&cluster).with_ledger(&postgres);
    let (_api_server, url) = platform.api_server("127.0.0.1:0").await?;
    let mut scheduler = platform.scheduler_with("scheduler", &["--buy-machines"]).await?;
    let mut controllers = platform.controllers("controllers").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    let karpenter = cluster.karpenter()?;
    // The first launch meets a fault: one machine is paid for, and given back without ever having been used.
    karpenter.next_launches([Fate::Well, Fate::StockOut])?;
    create_run(&client, TEAM, "train", run(TEAM, 2, 8, Some("15s"))).await?;
    wait::until("the run ends", BOUND, || async {
        let status = run_status(&client, TEAM, "train").await?;
        Ok((status.phase == RunPhase::Succeeded).then_some(()))
    })
    .await?;
    wait::until("the machines are given back", BOUND, || async {
        Ok((claims_by_launch(&client).await?.is_empty() && billed(karpenter)?.is_empty()).then_some(()))
    })
    .await?;
    let lives = karpenter.lives()?;
    ensure!(lives.len() >= 2, "{lives:?}");

    let bill = machines_are_billed(&postgres, &lives).await?;
    let starting: Vec<_> = bill.lines.iter().filter(|line| line.class == "NodeStarting").collect();
    ensure!(!starting.is_empty(), "a boot takes four seconds: {bill:?}");
    ensure!(starting.iter().all(|line| line.said[0].as_deref() == Some("train")), "{starting:?}");
    let idle: Vec<_> = bill.lines.iter().filter(|line| line.class == "NodeIdle").collect();
    ensure!(idle.iter().all(|line| line.said[0].is_none()), "what is idle is nobody's: {idle:?}");

    let ann = api_client::Client::new(&url, cluster.token_for_user("ann")?)?;
    let cost = ann.run_cost(TEAM, "train").await?;
    ensure!(cost.classes.iter().any(|class| class.class == UsageClass::NodeStarting), "{cost:?}");
    cluster.stop().await;
    Ok(())
}
