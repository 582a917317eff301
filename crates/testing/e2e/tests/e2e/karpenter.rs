//! Karpenter itself, with its cloud: a claim becomes a node, and each fault has its effect.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_types::names;
use e2e::claims::{claim_condition, node_claim, node_claims, node_of, node_pool, node_pools};
use e2e::wait;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use serde_json::json;
use test_cluster::karpenter::{Fate, Karpenter, KarpenterSettings, Life, Odds, Offerings, Tries, price_list};
use test_cluster::{FakeNodes, TestCluster};
use toolbox::figures;

const BOUND: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_nobodys_pool_becomes_a_ready_node_with_our_labels() -> anyhow::Result<()> {
    let cluster = start(Duration::from_secs(1)).await?;
    let (karpenter, nodes) = (cluster.karpenter()?, Api::<Node>::all(cluster.admin_client()));
    let claims = node_claims(&cluster.admin_client());
    ensure!(listening(karpenter.pid().context("it runs")?)?.is_empty(), "it listens nowhere");

    let wanted = Offerings::of_type("p5.48xlarge").in_zone("zone-b").bought_as("spot");
    let began = Instant::now();
    create(&claims, "ours", &wanted, &[("warpyard.dev/gang", "g")]).await?;
    let claim = ready(&claims, "ours").await?;
    let took = began.elapsed().as_secs_f64();
    figures::print(
        "karpenter.claim_ready_seconds",
        took,
        "s",
        "a boot of 1 s; Karpenter waits 1 s after each write",
    );

    let node = nodes.get(node_of(&claim).context("its Node")?).await?;
    let label = |key: &str| node.labels().get(key).map(String::as_str).unwrap_or_default();
    for (key, value) in [
        (names::INSTANCE_TYPE_NODE_LABEL, "p5.48xlarge"),
        (names::CAPACITY_TYPE_NODE_LABEL, "spot"),
        (names::ZONE_LABEL, "zone-b"),
        (names::GPU_PRODUCT_LABEL, "NVIDIA-H100-80GB-HBM3"),
        ("warpyard.dev/gang", "g"),
    ] {
        ensure!(label(key) == value, "{key} is {:?}", label(key));
    }
    ensure!(label(names::RACK_LABEL).starts_with("zone-b-rack-"), "{:?}", label(names::RACK_LABEL));
    let status = node.status.clone().context("a status")?;
    for list in [status.allocatable, status.capacity] {
        let gpus = list.as_ref().and_then(|list| list.get(names::GPU_RESOURCE));
        ensure!(
            gpus.is_some_and(|gpus| gpus.0 == "8"),
            "what the machine has, not what was asked for: {list:?}"
        );
    }

    // KWOK plays it like every fake node, and the fake nodes are none of Karpenter's business.
    let pods: Api<Pod> = Api::default_namespaced(cluster.admin_client());
    pods.create(&PostParams::default(), &pod_on("worker", &node.name_any())?).await?;
    let has_ended = |pod: &Pod| pod.status.as_ref().and_then(|it| it.phase.as_deref()) == Some("Succeeded");
    wait::until("the pod has run and ended", BOUND, || async {
        Ok(pods.get_opt("worker").await?.filter(has_ended).map(|_| ()))
    })
    .await?;

    claims.delete("ours", &DeleteParams::default()).await?;
    gone(&claims, "ours").await?;
    ensure!(nodes.get_opt(&node.name_any()).await?.is_none(), "the Node went with its machine");
    ensure!(nodes.get_opt("node-0").await?.is_some(), "the fake node stays");
    let life = life_of(karpenter, "ours")?.context("the cloud remembers it")?;
    let listed = price_list().into_iter().find(|it| it.offer == life.offer).context("it is on the list")?;
    ensure!(life.micros_per_hour == listed.micros_per_hour, "{life:?}");
    let times = [Some(life.launched), life.registered, life.ready, life.ended.as_ref().map(|(at, _)| *at)];
    ensure!(times.is_sorted() && times.iter().all(Option::is_some), "{life:?}");
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn launches_meet_the_faults_that_the_cloud_was_told() -> anyhow::Result<()> {
    let cluster = start(Duration::from_millis(500)).await?;
    let karpenter = cluster.karpenter()?;
    let claims = node_claims(&cluster.admin_client());
    let nodes: Api<Node> = Api::all(cluster.admin_client());
    let any = Offerings::of_type("g6.xlarge");

    // Out of stock in one zone: who insists on it is refused, who does not gets another.
    karpenter.stock_out(any.clone().in_zone("zone-b"))?;
    create(&claims, "insists", &any.clone().in_zone("zone-b"), &[]).await?;
    gone(&claims, "insists").await?;
    create(&claims, "flexible", &any, &[]).await?;
    let flexible = launched(karpenter, "flexible").await?;
    // zone-b would be cheaper.
    ensure!(flexible.offer.zone == "zone-a" && flexible.offer.capacity_type == "spot", "{flexible:?}");
    // One machine there is, and it runs.
    karpenter.stock(any.clone(), 1)?;
    create(&claims, "too-late", &any, &[]).await?;
    gone(&claims, "too-late").await?;
    karpenter.restock()?;

    karpenter.next_launches([
        Fate::StockOut,
        Fate::Error { times: 2 },
        Fate::Slow(Duration::from_secs(6)),
        Fate::NeverRegisters,
        // Long enough for it to register first.
        Fate::Disappears(Duration::from_secs(15)),
    ])?;
    create(&claims, "dry", &any, &[]).await?;
    gone(&claims, "dry").await?;
    create(&claims, "twice-refused", &any, &[]).await?;
    launched(karpenter, "twice-refused").await?;
    let refusals = karpenter.record()?.refusals;
    let count = |name: &str| refusals.iter().filter(|(claim, _)| claim == name).count();
    ensure!(count("twice-refused") == 2 && count("dry") == 1 && count("insists") == 1, "{refusals:?}");
    let mut told = Vec::new();
    for name in ["slow", "silent", "vanishing"] {
        create(&claims, name, &any, &[]).await?;
        told.push(launched(karpenter, name).await?);
    }
    ready(&claims, "twice-refused").await?;
    let vanished = ended(karpenter, "vanishing").await?;
    ensure!(vanished.registered.is_some() && nodes.get_opt(&vanished.node).await?.is_none(), "{vanished:?}");
    ready(&claims, "slow").await?;
    let slow = life_of(karpenter, "slow")?.context("launched")?;
    let boot = slow.registered.context("registered")?.duration_since(slow.launched);
    ensure!(boot.as_secs() >= 6, "{slow:?}");
    let silent = life_of(karpenter, "silent")?.context("launched")?;
    ensure!(silent.registered.is_none() && silent.ended.is_none(), "it is paid for: {silent:?}");
    // Released before it ever registered: paid for no longer, and nothing appears later.
    claims.delete("silent", &DeleteParams::default()).await?;
    gone(&claims, "silent").await?;
    ensure!(life_of(karpenter, "silent")?.is_some_and(|life| life.ended.is_some()), "released");

    // Of two groups of two claims, each loses one.
    let odds = Odds {
        seed: 7,
        percent: 100,
        group_labels: vec!["warpyard.dev/gang".into()],
        tries: Tries::default(),
        fates: vec![Fate::StockOut],
    };
    karpenter.odds(Some(odds))?;
    for name in ["x-0", "x-1", "y-0", "y-1"] {
        create(&claims, name, &any, &[("warpyard.dev/gang", &name[..1])]).await?;
    }
    for group in ["x", "y"] {
        let names = [format!("{group}-0"), format!("{group}-1")];
        wait::until("one of the group is refused, and one launched", wait::PATIENCE, || async {
            let record = karpenter.record()?;
            let launched = record.lives.iter().filter(|life| names.contains(&life.claim)).count();
            let refused = record.refusals.iter().filter(|(claim, _)| names.contains(claim)).count();
            Ok((launched == 1 && refused == 1).then_some(()))
        })
        .await?;
    }
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_leave_with_notice_or_without_and_outlive_karpenters_process() -> anyhow::Result<()> {
    let cluster = start(Duration::from_millis(500)).await?;
    let karpenter = cluster.karpenter()?;
    let claims = node_claims(&cluster.admin_client());
    let nodes: Api<Node> = Api::all(cluster.admin_client());
    let of = Offerings::of_type("p4d.24xlarge").bought_as("spot");
    for name in ["noticed", "crashed", "left-alone"] {
        create(&claims, name, &of, &[]).await?;
    }
    let mut names_of = Vec::new();
    for name in ["noticed", "crashed", "left-alone"] {
        names_of.push(node_of(&ready(&claims, name).await?).context("its Node")?.to_owned());
    }
    let [noticed, crashed, left_alone] = names_of.as_slice() else { anyhow::bail!("three nodes") };

    // Long enough for another machine to crash first.
    let at = karpenter.notice(noticed, Duration::from_secs(15)).await?;
    let node = nodes.get(noticed).await?;
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let leaving = taints.iter().find(|taint| taint.key == names::LEAVING_TAINT);
    ensure!(leaving.is_some_and(|taint| taint.value.as_deref() == Some(names::LEAVING_SPOT)), "{taints:?}");
    ensure!(
        node.annotations().get(names::LEAVING_AT_ANNOTATION) == Some(&at.to_string()),
        "it says until when"
    );

    karpenter.crash(crashed).await?;
    ensure!(nodes.get_opt(crashed).await?.is_none(), "gone at once");
    let (crashed_at, _) = ended(karpenter, "crashed").await?.ended.context("ended")?;
    ensure!(crashed_at < at && nodes.get_opt(noticed).await?.is_some(), "who has notice has time");
    let (ended_at, _) = ended(karpenter, "noticed").await?.ended.context("ended")?;
    ensure!(ended_at == at && nodes.get_opt(noticed).await?.is_none(), "taken when it was said: {ended_at}");

    // Killed while a machine boots: it boots all the same, is bought once, and what waited is bought afterwards.
    karpenter.boot_time(Duration::from_secs(2))?;
    create(&claims, "booting", &of, &[]).await?;
    launched(karpenter, "booting").await?;
    karpenter.stop();
    create(&claims, "waiting", &of, &[]).await?;
    wait::holds("nothing is bought while it is away", Duration::from_secs(3), || async {
        Ok(life_of(karpenter, "waiting")?.is_none() && nodes.get_opt(left_alone).await?.is_some())
    })
    .await?;
    karpenter.start_again().await?;
    ready(&claims, "booting").await?;
    ready(&claims, "waiting").await?;
    let lives = karpenter.lives()?;
    let bought: BTreeSet<_> = lives.iter().map(|life| &life.claim).collect();
    ensure!(bought.len() == lives.len(), "nothing is bought twice: {lives:?}");
    ensure!(
        life_of(karpenter, "left-alone")?.is_some_and(|life| life.ended.is_none()),
        "its machine runs on"
    );
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_price_changes_what_karpenter_buys_for_a_pod() -> anyhow::Result<()> {
    let cluster = start(Duration::from_millis(500)).await?;
    cluster.start_kube_scheduler(100)?;
    let karpenter = cluster.karpenter()?;
    let pools = node_pools(&cluster.admin_client());
    pools.create(&PostParams::default(), &node_pool("small", &["g5.xlarge", "g6.xlarge"])?).await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.admin_client());
    let mut bought = Vec::new();
    for round in 0..2 {
        if round == 1 {
            // Dearer than the other, which is 0.372.
            karpenter.set_price(Offerings::of_type("g6.xlarge").bought_as("spot"), 400_000)?;
        }
        let name = format!("wants-a-gpu-{round}");
        pods.create(&PostParams::default(), &pod_with_a_gpu(&name)?).await?;
        let node = wait::until("Karpenter bought a node for the pod", BOUND, || async {
            let pod = pods.get(&name).await?;
            let runs = pod.status.as_ref().and_then(|it| it.phase.as_deref()) == Some("Running");
            Ok(pod.spec.and_then(|spec| spec.node_name).filter(|_| runs))
        })
        .await?;
        let life = karpenter
            .lives()?
            .into_iter()
            .find(|life| life.node == node)
            .context("a machine of the cloud")?;
        bought.push((life.offer.instance_type, life.offer.zone, life.micros_per_hour));
    }
    let expected = [("g6.xlarge", "zone-b", 282_000), ("g5.xlarge", "zone-c", 372_000)];
    let bought: Vec<_> =
        bought.iter().map(|(kind, zone, micros)| (kind.as_str(), zone.as_str(), *micros)).collect();
    ensure!(bought == expected, "{bought:?}");
    cluster.stop().await;
    Ok(())
}

async fn start(boot_time: Duration) -> Result<TestCluster, test_cluster::Error> {
    TestCluster::builder()
        .without_install()
        .nodes(FakeNodes::default())
        .karpenter(KarpenterSettings { boot_time, ..KarpenterSettings::default() })
        .start()
        .await
}

async fn create(
    claims: &Api<DynamicObject>,
    name: &str,
    of: &Offerings,
    labels: &[(&str, &str)],
) -> anyhow::Result<()> {
    claims.create(&PostParams::default(), &node_claim(name, of, labels)?).await?;
    Ok(())
}

async fn ready(claims: &Api<DynamicObject>, name: &str) -> anyhow::Result<DynamicObject> {
    wait::until(&format!("the claim {name} is ready"), BOUND, || async {
        let claim = claims.get(name).await?;
        Ok((claim_condition(&claim, "Ready").0 == "True").then_some(claim))
    })
    .await
}

async fn gone(claims: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
    wait::until(&format!("the claim {name} is gone"), wait::PATIENCE, || async {
        Ok(claims.get_opt(name).await?.is_none().then_some(()))
    })
    .await
}

async fn launched(karpenter: &Karpenter, claim: &str) -> anyhow::Result<Life> {
    wait::until(&format!("{claim} is launched"), wait::PATIENCE, || async { life_of(karpenter, claim) }).await
}

async fn ended(karpenter: &Karpenter, claim: &str) -> anyhow::Result<Life> {
    wait::until(&format!("the machine of {claim} has ended"), wait::PATIENCE, || async {
        Ok(life_of(karpenter, claim)?.filter(|life| life.ended.is_some()))
    })
    .await
}

fn life_of(karpenter: &Karpenter, claim: &str) -> anyhow::Result<Option<Life>> {
    Ok(karpenter.lives()?.into_iter().find(|life| life.claim == claim))
}

fn pod_on(name: &str, node: &str) -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name, "annotations": { names::FAKE_RUN_TIME_ANNOTATION: "1s" } },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": "none" }],
        },
    }))?)
}

fn pod_with_a_gpu(name: &str) -> anyhow::Result<Pod> {
    let gpu = json!({ names::GPU_RESOURCE: "1" });
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "containers": [{
            "name": "main",
            "image": "none",
            "resources": { "limits": gpu, "requests": gpu },
        }] },
    }))?)
}

/// The addresses on which a process waits for connections.
fn listening(pid: u32) -> anyhow::Result<Vec<String>> {
    let mut sockets = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        if let Ok(target) = fs::read_link(entry?.path())
            && let Some(inode) = target.to_string_lossy().strip_prefix("socket:[")
        {
            sockets.insert(inode.trim_end_matches(']').to_owned());
        }
    }
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        for line in fs::read_to_string(format!("/proc/{pid}/net/{table}"))?.lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            // The state 0A is LISTEN.
            if let [_, address, _, "0A", _, _, _, _, _, inode, ..] = fields[..]
                && sockets.contains(inode)
            {
                found.push(address.to_owned());
            }
        }
    }
    ensure!(!sockets.is_empty(), "it speaks to the API server at least");
    Ok(found)
}
