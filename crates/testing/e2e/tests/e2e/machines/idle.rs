//! Demand that comes and goes buys once; idle machines go in time, and spares stay.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use api_types::MachineType;
use api_types::run::RunPhase;
use e2e::machines::{Times, billed};
use e2e::objects::{create_run, run};
use e2e::observe::phase_reached;
use e2e::wait;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::{TEAM, start_with};

/// Runs that come one after the other, each before the machines of the last one have been idle for long enough.
const ROUNDS: u32 = 4;
/// The next run must start within the idle time, even on a machine at half speed.
const TIMES: Times = Times { boot_seconds: 5, idle_seconds: 20 };
/// How long after their time idle machines may be there.
const SLACK: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn demand_that_comes_and_goes_is_bought_for_once_and_idle_machines_go_but_for_spares()
-> anyhow::Result<()> {
    let (cluster, _scheduler, _controllers) = start_with(TIMES).await?;
    let (client, karpenter) = (cluster.admin_client(), cluster.karpenter()?);
    for round in 0..ROUNDS {
        let name = format!("train-{round}");
        create_run(&client, TEAM, &name, run(TEAM, 2, 8, Some("3s"))).await?;
        phase_reached(&client, TEAM, &name, RunPhase::Succeeded).await?;
    }
    let launches: BTreeSet<String> = karpenter
        .lives()?
        .iter()
        .filter_map(|life| Some(life.claim.rsplit_once('-')?.0.to_owned()))
        .collect();
    ensure!(launches.len() == 1, "the machines of the first round served them all: {launches:?}");

    // One is to be kept from now on, the other one is idle.
    let types: Api<MachineType> = Api::all(client.clone());
    let spares = Patch::Merge(json!({ "spec": { "spares": 1 } }));
    types.patch("p5-48xlarge", &PatchParams::default(), &spares).await?;
    let idle = Duration::from_secs(u64::from(TIMES.idle_seconds));
    wait::until("the machine that nobody uses is gone", idle + SLACK, || async {
        Ok((billed(karpenter)?.len() == 1).then_some(()))
    })
    .await?;
    wait::holds("the spare is kept", idle + Duration::from_secs(2), || async {
        Ok(billed(karpenter)?.len() == 1)
    })
    .await?;
    ensure!(karpenter.lives()?.len() == 2, "nothing was bought beside the two: {:?}", karpenter.lives()?);
    cluster.stop().await;
    Ok(())
}
