//! The fence: a leader that was stopped after it decided, and goes on after another leads, changes nothing.

use std::time::Duration;

use anyhow::ensure;
use e2e::objects::{GangOfPods, create_namespace, create_queue, h100_nodes};
use e2e::observe::{bound, pods};
use e2e::wait;
use test_cluster::platform::{LeaseTimes, Platform};
use test_cluster::{TestCluster, figures};

const MEMBERS: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_stopped_before_its_binds_is_refused_when_it_goes_on() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", 4)).start().await?;
    let client = cluster.admin_client();
    create_namespace(&client, "nlp").await?;
    create_queue(&client, "nlp", None, &[("H100", 32)], &["nlp"]).await?;
    let platform = Platform::debug(&cluster);

    // The old leader pauses between its plan and its binds. Whether it learns first that its lease is lost or that
    // one of its status writes is refused, it lingers, so that the binds it had decided are really sent.
    let lingers = "before-binds=1*sleep(3000);lease-lost=sleep(8000);fenced=sleep(8000)";
    let mut old = platform.scheduler("old", LeaseTimes::Short, lingers).await?;
    old.ready().await?;
    // The new leader never binds in this test, so that every pod would still be free for the old one's bind.
    let mut new = platform.scheduler("new", LeaseTimes::Short, "before-binds=sleep(60000)").await?;

    let gang = GangOfPods {
        namespace: "nlp",
        name: "gang",
        queue: "nlp",
        members: MEMBERS,
        gpus: 8,
        run_time: "1h",
    };
    gang.create(&client).await?;
    old.wait_for_line("Reached failpoint.", Duration::from_secs(20)).await?;
    old.freeze();
    new.wait_for_line("Reached failpoint.", Duration::from_secs(20)).await?;
    ensure!(bound(&client, "nlp").await? == 0, "nothing is bound before the old leader goes on");
    old.thaw();

    let (mut attempted, mut refused) = (0, 0);
    wait::until("the old leader has ended", Duration::from_secs(30), || {
        let ended = old.process().exit_status();
        async move { Ok(ended) }
    })
    .await?;
    for line in old.read_lines() {
        match line["message"].as_str() {
            Some("Binding.") => attempted += 1,
            Some("Bind refused.") if line["outcome"] == "fenced" => refused += 1,
            _ => {}
        }
    }
    let accepted =
        pods(&client, "nlp").await?.iter().filter(|pod| e2e::observe::node_of(pod).is_some()).count();
    figures::print(
        "fence.attempted",
        f64::from(attempted),
        "binds",
        "by a leader stopped for longer than its lease",
    );
    figures::print("fence.accepted", figures::count(accepted), "binds", "bar: 0");
    ensure!(attempted >= 1, "the old leader attempted at least one bind");
    ensure!(
        refused == attempted,
        "the API server refused every one, and by the fence: {refused} of {attempted}"
    );
    ensure!(accepted == 0, "no bind of the old leader was accepted");
    cluster.stop().await;
    Ok(())
}
