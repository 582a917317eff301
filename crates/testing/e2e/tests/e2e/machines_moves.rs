//! Runs that save their state leave machines that are too expensive.
//!
//! Without a deadline, dry spot is waited for during ten minutes; here it is not even offered at first, which comes to the same.

use std::time::Duration;

use anyhow::ensure;
use api_types::MachineType;
use api_types::machine_type::CapacityType;
use api_types::run::{CheckpointVolume, RunPhase};
use e2e::machines::{Times, billed, machine_type, offer_with};
use e2e::objects::{create_namespace, create_queue, create_run, run};
use e2e::observe::run_status;
use e2e::wait;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use test_cluster::TestCluster;
use test_cluster::karpenter::KarpenterSettings;
use test_cluster::platform::Platform;

const TEAM: &str = "nlp";
const TYPE: &str = "p5.48xlarge";
const BOUND: Duration = Duration::from_mins(2);
/// A run is left alone for twice its machines' boot time and a minute; looks are 15 s apart.
const MOVES_WITHIN: Duration = Duration::from_mins(4);

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_demand_goes_to_spot_that_has_come_with_one_interruption() -> anyhow::Result<()> {
    let settings = KarpenterSettings { boot_time: Duration::from_secs(2), ..KarpenterSettings::default() };
    let cluster = TestCluster::builder().karpenter(settings).start().await?;
    let (client, karpenter) = (cluster.admin_client(), cluster.karpenter()?);
    create_namespace(&client, TEAM).await?;
    create_queue(&client, TEAM, None, &[("H100", 64)], &[TEAM]).await?;
    let with_spot = machine_type(TYPE, Times { boot_seconds: 5, idle_seconds: 10 })?;
    let mut on_demand = with_spot.clone();
    on_demand.spec.offerings.retain(|it| it.capacity_type == CapacityType::OnDemand);
    offer_with(&client, on_demand).await?;
    let platform = Platform::debug(&cluster);
    let mut scheduler = platform.scheduler_with("scheduler", &["--buy-machines"]).await?;
    let mut controllers = platform.controllers("controllers").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;

    let mut spec = run(TEAM, 2, 8, None);
    spec.spot = Some(true);
    spec.checkpoint = Some(CheckpointVolume { claim: "checkpoints".to_owned() });
    create_run(&client, TEAM, "train", spec).await?;
    wait::until("it runs on demand", BOUND, || async {
        let (status, machines) = (run_status(&client, TEAM, "train").await?, billed(karpenter)?);
        let is_on_demand =
            machines.len() == 2 && machines.iter().all(|it| it.offer.capacity_type == "on-demand");
        Ok((status.members.running == 2 && is_on_demand).then_some(()))
    })
    .await?;

    let types: Api<MachineType> = Api::all(client.clone());
    let offerings = json!({ "spec": { "offerings": with_spot.spec.offerings } });
    types.patch(&with_spot.name_any(), &PatchParams::default(), &Patch::Merge(offerings)).await?;
    wait::until("it runs on spot, and nothing else is paid for", MOVES_WITHIN, || async {
        let (status, machines) = (run_status(&client, TEAM, "train").await?, billed(karpenter)?);
        let is_spot = machines.len() == 2 && machines.iter().all(|it| it.offer.capacity_type == "spot");
        Ok((status.members.running == 2 && is_spot).then_some(()))
    })
    .await?;
    let status = run_status(&client, TEAM, "train").await?;
    ensure!(status.phase == RunPhase::Running && status.attempts.len() == 2, "one interruption: {status:?}");
    ensure!(status.attempts[0].reason.as_deref() == Some("Moved"), "{:?}", status.attempts[0]);
    cluster.stop().await;
    Ok(())
}
