//! A machine type that promises more memory than its machines have: the machines are paid for once, people are told
//! what the machines have, and nothing is bought again for the gang.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::MachineType;
use api_types::conditions::machine_type::AS_PROMISED;
use e2e::machines::{Times, billed, claims_by_launch, machine_type, offer_with};
use e2e::objects::{create_run, run};
use e2e::wait;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use test_cluster::FakeNodes;

use super::away::says_why;
use super::{BOUND, TEAM, cluster_with, members_run, platform};

const INSTANCE_TYPE: &str = "p5.48xlarge";
const TIMES: Times = Times { boot_seconds: 5, idle_seconds: 600 };
/// A machine has two tebibytes.
const PROMISED: &str = "3000Gi";
const ASKED: &str = "2500Gi";

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_promises_too_much_is_paid_for_once_and_told_until_it_is_mended() -> anyhow::Result<()> {
    let cluster = cluster_with(FakeNodes { count: 0, ..FakeNodes::default() }).await?;
    let (client, karpenter) = (cluster.admin_client(), cluster.karpenter()?);
    let mut lies = machine_type(INSTANCE_TYPE, TIMES)?;
    let name = lies.metadata.name.clone().context("it has a name")?;
    PROMISED.clone_into(&mut lies.spec.memory);
    offer_with(&client, lies).await?;
    let _platform = platform(&cluster).await?;
    let mut spec = run(TEAM, 2, 8, Some("600s"));
    spec.memory = Some(ASKED.to_owned());
    create_run(&client, TEAM, "train", spec).await?;

    let types: Api<MachineType> = Api::all(client.clone());
    let told = wait::until("people are told", BOUND, || async {
        let status = types.get(&name).await?.status.unwrap_or_default();
        Ok(status.conditions.into_iter().find(|it| it.type_ == AS_PROMISED && it.status == "False"))
    })
    .await?;
    println!("{}", told.message);
    ensure!(told.message.contains("memory") && told.message.contains("of 3072000Mi"), "{told:?}");
    says_why(&client, "train", "had less for pods than the MachineType says").await?;
    wait::until("the machines are given back", BOUND, || async {
        Ok((claims_by_launch(&client).await?.is_empty() && billed(karpenter)?.is_empty()).then_some(()))
    })
    .await?;
    wait::holds("nothing is bought again", Duration::from_secs(20), || async {
        Ok(claims_by_launch(&client).await?.is_empty())
    })
    .await?;
    ensure!(karpenter.lives()?.len() == 2, "they were paid for once: {:?}", karpenter.lives()?);

    let real = types.get(&name).await?.status.and_then(|it| it.real_room).context("it says what there is")?;
    let mended = json!({ "spec": { "memory": real.memory } });
    types.patch(&name, &PatchParams::default(), &Patch::Merge(&mended)).await?;
    let mut fits = run(TEAM, 2, 8, Some("600s"));
    fits.memory = Some("1000Gi".to_owned());
    create_run(&client, TEAM, "fits", fits).await?;
    members_run(&client, "fits", 2).await?;
    wait::until("nobody is told any more", BOUND, || async {
        let status = types.get(&name).await?.status.unwrap_or_default();
        Ok((status.real_room.is_none() && status.conditions.iter().all(|it| it.status == "True"))
            .then_some(()))
    })
    .await?;
    cluster.stop().await;
    Ok(())
}
