//! A machine loses its power, and a member on another one fails because of it before the machine is given up.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::run::AttemptOutcome;
use e2e::objects::{create_namespace, create_queue, create_run, run};
use e2e::observe::{node_of, pods, run_status};
use e2e::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, LogParams};
use test_cluster::platform::{LeaseTimes, Platform};
use test_cluster::{BUSYBOX_IMAGE, RealNode, TestCluster};

const TEAM: &str = "nlp";
const INDEX_LABEL: &str = "batch.kubernetes.io/job-completion-index";
const BOUND: Duration = Duration::from_mins(2);

/// Member 1 of the first attempt fails as soon as it does not hear of member 0 any more.
const TRAIN: &str = r#"
trap 'exit 75' TERM
if [ "$WARPYARD_ATTEMPT$NODE_RANK" = 11 ]; then
    until ping -c 1 -W 1 "$MASTER_ADDR"; do sleep 1; done
    echo both are there
    while ping -c 1 -W 1 "$MASTER_ADDR"; do sleep 1; done
    exit 1
fi
while :; do sleep 1 & wait $!; done
"#;

#[tokio::test(flavor = "multi_thread")]
async fn who_fails_because_a_machine_is_silent_goes_on_without_it() -> anyhow::Result<()> {
    let cluster = TestCluster::builder()
        .real_nodes()
        .without_kwok()
        .node_lease_seconds(8)
        // Long enough for the other member to fail first, also on a busy machine.
        .controller_manager_flag("--node-monitor-grace-period=30s")
        .controller_manager_flag("--node-monitor-period=1s");
    let cluster = cluster.start().await?;
    let client = cluster.admin_client();
    create_namespace(&client, TEAM).await?;
    create_queue(&client, TEAM, None, &[("H100", 3)], &[TEAM]).await?;
    let platform = Platform::debug(&cluster);
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let mut controllers = platform.controllers("controllers").await?;
    let node = |number| RealNode { name: format!("real-{number}"), gpus: 1, ..RealNode::default() };
    let machines =
        futures::future::try_join_all((0..3).map(|number| cluster.add_real_node(node(number)))).await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    let mut spec = run(TEAM, 2, 1, None);
    spec.image = BUSYBOX_IMAGE.to_owned();
    spec.command = ["sh", "-c", TRAIN].map(str::to_owned).to_vec();
    // Nothing here is the run's own failure, and it may have none.
    (spec.retries, spec.grace_seconds) = (0, Some(2));
    create_run(&client, TEAM, "train", spec).await?;

    let members: Api<Pod> = Api::namespaced(client.clone(), TEAM);
    let master = wait::until("member 1 hears of member 0", BOUND, || async {
        let both = pods(&client, TEAM).await?;
        let of =
            |index: &str| both.iter().find(|pod| pod.labels().get(INDEX_LABEL).is_some_and(|it| it == index));
        let (Some(master), Some(other)) = (of("0"), of("1")) else { return Ok(None) };
        // There are no logs before it runs.
        let printed = members.logs(&other.name_any(), &LogParams::default()).await.unwrap_or_default();
        Ok(printed.contains("both are there").then(|| master.clone()))
    })
    .await?;
    let name = node_of(&master).context("member 0 has a node")?.to_owned();
    let machine = machines.iter().find(|machine| machine.name() == name).context("it is one of ours")?;
    machine.power_off().await;
    wait::until("member 1 has failed, and nobody was told yet", BOUND, || async {
        let status = run_status(&client, TEAM, "train").await?;
        ensure!(status.attempts[0].told_at.is_none(), "{status:?}");
        Ok(status.message.is_some_and(|message| message.contains("exited with 1")).then_some(()))
    })
    .await?;
    let status = wait::until("another attempt runs", BOUND, || async {
        let status = run_status(&client, TEAM, "train").await?;
        ensure!(!status.phase.is_final(), "{status:?}");
        let runs = status.attempts.last().is_some_and(|it| it.number == 2 && it.started_at.is_some());
        Ok(runs.then_some(status))
    })
    .await?;
    let first = &status.attempts[0];
    ensure!(first.outcome == Some(AttemptOutcome::Interrupted), "{first:?}");
    ensure!(first.reason.as_deref() == Some("NodeLost"), "{first:?}");
    ensure!(status.failures == 0, "{status:?}");
    cluster.stop().await;
    Ok(())
}
