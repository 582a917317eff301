//! Preemption on the cluster: the choice of victims, the order of writes, and the outcome.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::hold::HoldReason;
use api_types::{Hold, RunPhase};
use e2e::objects::{create_lending_teams, create_run, h100_nodes, run};
use e2e::observe::{bound, phase_reached, placed, run_status};
use e2e::preemptions::Witness;
use e2e::wait;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform, Service};

/// One team owns half of two nodes. The other owns nothing, and may borrow everything; lent quota is reclaimed
/// at once.
pub async fn borrower_and_owner(client: &Client) -> anyhow::Result<()> {
    create_lending_teams(client, ("acme", 24), &[("owner", 8), ("borrower", 0)], 16, 0).await
}

/// Of the borrower's gang.
const MEMBERS: u32 = 8;

/// Two nodes, the platform, and the two teams.
struct Site {
    _controllers: Service,
    scheduler: Service,
    client: Client,
    cluster: TestCluster,
}

impl Site {
    async fn start(scheduler: &str, times: LeaseTimes, failpoints: &str) -> anyhow::Result<Self> {
        let cluster = TestCluster::builder().nodes(h100_nodes("node", 2)).start().await?;
        let client = cluster.admin_client();
        let platform = Platform::debug(&cluster);
        let mut scheduler = platform.scheduler(scheduler, times, failpoints).await?;
        let mut controllers = platform.controllers("controllers").await?;
        tokio::try_join!(scheduler.ready(), controllers.ready())?;
        borrower_and_owner(&client).await?;
        Ok(Self { _controllers: controllers, scheduler, client, cluster })
    }

    /// The owner claims the borrower's nodes, and the first leader is stopped at a failpoint on the way.
    async fn stopped_at(failpoint: &str) -> anyhow::Result<Self> {
        let failpoints = format!("{failpoint}=sleep(600000)");
        let mut site = Self::start("first", LeaseTimes::Medium, &failpoints).await?;
        site.borrow_all().await?;
        site.claim().await?;
        site.scheduler.wait_for_line("Reached failpoint.", wait::PATIENCE).await?;
        Ok(site)
    }

    /// A gang of the borrower runs on everything. Of so many members that it would be away for ten minutes if each that
    /// gave way made the others wait longer to be made anew.
    async fn borrow_all(&self) -> anyhow::Result<()> {
        create_run(&self.client, "borrower", "big", run("borrower", MEMBERS, 2, None)).await?;
        phase_reached(&self.client, "borrower", "big", RunPhase::Running).await.map(drop)
    }

    /// The owner asks for its own.
    async fn claim(&self) -> anyhow::Result<()> {
        create_run(&self.client, "owner", "own", run("owner", 1, 8, None)).await
    }

    /// The next leader, after the first was killed.
    async fn second_scheduler(&self) -> anyhow::Result<Service> {
        let mut second = Platform::debug(&self.cluster).scheduler("second", LeaseTimes::Medium, "").await?;
        second.ready().await?;
        Ok(second)
    }
}

async fn no_holds(client: &Client) -> anyhow::Result<()> {
    let holds: Api<Hold> = Api::all(client.clone());
    wait::until("no hold is left", wait::PATIENCE, || async {
        Ok(holds.list(&ListParams::default()).await?.items.is_empty().then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_that_borrows_gives_way_for_the_owner_and_starts_again_when_there_is_room()
-> anyhow::Result<()> {
    let site = Site::start("scheduler", LeaseTimes::Patient, "").await?;
    let client = site.client.clone();
    let witness = Witness::start(&client).await?;

    site.borrow_all().await?;
    site.claim().await?;
    phase_reached(&client, "owner", "own", RunPhase::Running).await?;
    wait::until("the gang has gone whole", wait::PATIENCE, || async {
        Ok((placed(&client, "borrower").await? == 0).then_some(()))
    })
    .await?;
    no_holds(&client).await?;
    let waiting = wait::until("its run says that it was preempted", wait::PATIENCE, || async {
        let status = run_status(&client, "borrower", "big").await?;
        Ok((status.reason.as_deref() == Some("Preempted")).then_some(status))
    })
    .await?;
    ensure!(waiting.phase == RunPhase::Pending, "it waits and has not failed: {waiting:?}");
    let message = waiting.message.context("a sentence")?;
    ensure!(message.contains("another namespace") && message.contains("takes back"), "{message}");
    ensure!(!message.contains("own-1"), "it names nobody of another tenant: {message}");

    let seen = witness
        .finish(|seen| {
            let told = seen.told_to_go("borrower");
            let all_have_gone =
                told.len() >= MEMBERS as usize && told.iter().all(|pod| pod.deleted.is_some());
            all_have_gone && seen.hold_deleted.is_some() && seen.last_bound("owner").is_some()
        })
        .await?;
    let told = seen.told_to_go("borrower");
    ensure!(told.len() == MEMBERS as usize, "all pods were told, and none twice: {told:?}");
    for pod in &told {
        ensure!(seen.hold_written < Some(pod.told), "the hold came first: {seen:?}");
        ensure!(pod.deleted > Some(pod.told), "the condition came before the deletion: {pod:?}");
        ensure!(!pod.message.contains("own-1"), "{pod:?}");
    }
    ensure!(
        seen.hold_deleted > seen.last_bound("owner"),
        "the hold stood until its gang was bound: {seen:?}"
    );

    // Nobody is evicted twice, and nobody is lost: with more room, both run.
    site.cluster.add_fake_nodes(&h100_nodes("late", 1)).await?;
    phase_reached(&client, "borrower", "big", RunPhase::Running).await?;
    ensure!(run_status(&client, "owner", "own").await?.phase == RunPhase::Running, "the owner runs on");
    site.cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_goes_on_with_the_preemption_that_the_old_one_began() -> anyhow::Result<()> {
    for failpoint in ["before-evictions", "between-condition-and-delete"] {
        let mut site = Site::stopped_at(failpoint).await?;
        let client = site.client.clone();
        let holds: Api<Hold> = Api::namespaced(client.clone(), "owner");
        let hold = holds.list(&ListParams::default()).await?.items.pop().context("its hold is written")?;
        ensure!(hold.spec.claimant == "own-1" && hold.spec.why == HoldReason::Reclaim, "{:?}", hold.spec);
        ensure!(bound(&client, "borrower").await? == MEMBERS as usize, "nobody has left yet");
        site.scheduler.kill();

        let _second = site.second_scheduler().await?;
        phase_reached(&client, "owner", "own", RunPhase::Running).await?;
        no_holds(&client).await?;
        phase_reached(&client, "borrower", "big", RunPhase::Pending).await?;
        site.cluster.stop().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimant_that_is_no_more_spares_who_was_not_told_yet() -> anyhow::Result<()> {
    let mut site = Site::stopped_at("before-evictions").await?;
    let client = site.client.clone();
    site.scheduler.kill();
    let runs: Api<api_types::Run> = Api::namespaced(client.clone(), "owner");
    runs.delete("own", &DeleteParams::default()).await?;
    wait::until("the claimant's pods are gone", wait::PATIENCE, || async {
        Ok(e2e::observe::pods(&client, "owner").await?.is_empty().then_some(()))
    })
    .await?;

    let _second = site.second_scheduler().await?;
    no_holds(&client).await?;
    wait::holds("the borrower is left alone", Duration::from_secs(5), || async {
        Ok(run_status(&client, "borrower", "big").await?.phase == RunPhase::Running)
    })
    .await?;
    site.cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_whose_disruption_budget_allows_nothing_does_not_give_way() -> anyhow::Result<()> {
    let site = Site::start("scheduler", LeaseTimes::Patient, "").await?;
    let client = site.client.clone();
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), "borrower");
    let budget = serde_json::from_value(json!({
        "metadata": { "name": "all" }, "spec": { "minAvailable": 2, "selector": {} },
    }))?;
    budgets.create(&PostParams::default(), &budget).await?;
    site.borrow_all().await?;
    site.claim().await?;
    wait::holds("nobody gives way", Duration::from_secs(5), || async {
        Ok(placed(&client, "borrower").await? == MEMBERS as usize)
    })
    .await?;
    budgets.delete("all", &DeleteParams::default()).await?;
    phase_reached(&client, "owner", "own", RunPhase::Running).await?;
    site.cluster.stop().await;
    Ok(())
}
