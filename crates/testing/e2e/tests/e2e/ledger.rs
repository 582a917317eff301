//! The bill is exact, whichever process dies while it is written: it is compared with an independent
//! computation.

mod kills;
mod yard;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_types::names;
use api_types::{Queue, Run, RunPhase};
use e2e::ledger::{Bill, GpuPrice, compare_nodes, compare_pods};
use e2e::objects::{create_namespace, create_queue, create_run, run};
use e2e::observe::{phase_reached, pods, run_status};
use e2e::users::grant_namespace;
use e2e::wait;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use test_cluster::TestCluster;
use test_cluster::platform::LeaseTimes;

use self::yard::{NAMESPACE, Yard, now};

#[tokio::test(flavor = "multi_thread")]
async fn the_bill_of_a_run_is_exact_and_its_queue_shows_it() -> anyhow::Result<()> {
    // A unit of the currency per GPU second, so that the queue's spend is easily read.
    let prices = vec![GpuPrice { from: 0, hundredths: 360_000 }];
    let mut yard = Yard::start(2, prices, LeaseTimes::Patient).await?;
    let client = yard.client();
    grant_namespace(&client, "ann", NAMESPACE).await?;
    let ann = yard.cluster.client_for(&yard.cluster.kubeconfig_for_user("ann")?).await?;
    let mut train = Run::new("train", run("nlp", 2, 4, Some("3s")));
    train.metadata.annotations =
        Some([(names::SUBMITTED_BY_ANNOTATION.to_owned(), "ann".to_owned())].into_iter().collect());
    Api::<Run>::namespaced(ann, NAMESPACE).create(&PostParams::default(), &train).await?;
    phase_reached(&client, NAMESPACE, "train", RunPhase::Succeeded).await?;
    // A pod of nobody's run, on a node without asking any scheduler: its namespace is charged, and no queue.
    create_foreign_pod(&yard, "foreign").await?;

    yard.settled_bill(Duration::from_mins(1)).await?;
    // A node that goes is paid for until then. Its objects are gone with it, so this is seen or lost.
    yard.cluster.remove_node("node-1").await?;
    let url = yard.meter_url()?;
    yard.until("the node has ended", wait::PATIENCE, async |yard| {
        let seen = yard.witness.nodes().values().any(|node| node.gone.is_some());
        Ok(seen && Bill::read(url.trim()).await?.node_ends.len() == 1)
    })
    .await?;
    let bill = yard.settled_bill(Duration::from_mins(1)).await?;
    let seen = yard.witness.pods()?;
    ensure!(seen.len() == 3, "two members and a foreign pod were seen: {seen:#?}");
    let charged = seen.values().filter(|pod| pod.said[3].as_deref() == Some("ann")).count();
    ensure!(charged == 2, "the members of the run say who submitted it: {seen:#?}");
    yard.judge(&bill, now())?;

    // What queues show is what their lines say, children included.
    let gpu_seconds: i64 = seen
        .values()
        .filter(|pod| pod.said[2].is_some())
        .map(|pod| (pod.ends.last().unwrap_or(&0) - pod.scheduled.unwrap_or(0)) * pod.gpus)
        .sum();
    let queues: Api<Queue> = Api::all(client.clone());
    for name in ["nlp", "org"] {
        let expected = format!("{gpu_seconds}.00");
        yard.until(&format!("queue {name} has spent {expected}"), wait::PATIENCE, async |_| {
            let spend = queues.get(name).await?.status.and_then(|status| status.spend);
            Ok(spend.is_some_and(|spend| spend.amount == expected && spend.currency == "EUR"))
        })
        .await?;
    }
    // The scheduler's part of the status stays.
    let status = queues.get("nlp").await?.status.context("the queue has a status")?;
    ensure!(status.gpus_quota == Some(1024), "{status:?}");
    yard.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_postgres_away_for_two_minutes_scheduling_goes_on_and_the_bill_is_whole_afterwards()
-> anyhow::Result<()> {
    let prices = vec![GpuPrice { from: 0, hundredths: 299 }];
    let mut yard = Yard::start(4, prices, LeaseTimes::Patient).await?;
    let client = yard.client();
    let runs: Api<Run> = Api::namespaced(client.clone(), NAMESPACE);
    for name in ["outlives", "is-stopped", "is-deleted"] {
        create_run(&client, NAMESPACE, name, run("nlp", 2, 2, (name == "outlives").then_some("125s")))
            .await?;
    }
    create_run(&client, NAMESPACE, "before", run("nlp", 3, 1, Some("2s"))).await?;
    for name in ["outlives", "is-stopped", "is-deleted"] {
        phase_reached(&client, NAMESPACE, name, RunPhase::Running).await?;
    }

    yard.postgres.crash().await;
    let away_since = Instant::now();
    let stop = Patch::Merge(json!({"spec": {"stop": true}}));
    runs.patch("is-stopped", &PatchParams::default(), &stop).await?;
    phase_reached(&client, NAMESPACE, "is-stopped", RunPhase::Stopped).await?;
    runs.delete("is-deleted", &DeleteParams::default()).await?;
    wait::until("the deleted run and its Job are gone", wait::PATIENCE, || async {
        let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
        let gone =
            runs.get_opt("is-deleted").await?.is_none() && jobs.get_opt("is-deleted-1").await?.is_none();
        Ok(gone.then_some(()))
    })
    .await?;
    let mut finished = 0;
    while away_since.elapsed() < Duration::from_mins(2) {
        let name = format!("during-{finished}");
        create_run(&client, NAMESPACE, &name, run("nlp", 4, 2, Some("3s"))).await?;
        phase_reached(&client, NAMESPACE, &name, RunPhase::Succeeded).await?;
        finished += 1;
    }
    println!("{finished} runs were placed and finished while PostgreSQL was away");
    ensure!(finished >= 5, "only {finished} runs finished in two minutes");
    // Whoever deleted them, pods whose end is not recorded are still there.
    let left = pods(&client, NAMESPACE).await?;
    let lingering = left.iter().filter(|pod| pod.name_any().starts_with("is-deleted-1-")).count();
    ensure!(lingering == 2, "both pods of the deleted run wait for the meter: {lingering}");

    yard.postgres.start_again().await?;
    phase_reached_within(&client, "outlives", RunPhase::Succeeded).await?;
    let bill = yard.settled_bill(Duration::from_secs(90)).await?;
    yard.judge(&bill, now())?;
    yard.until("the pods of the deleted run are gone", wait::PATIENCE, async |_| {
        let left = pods(&client, NAMESPACE).await?;
        Ok(!left.iter().any(|pod| pod.name_any().starts_with("is-deleted-1-")))
    })
    .await?;
    yard.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_charges_a_pod_to_another_and_the_controllers_change_nothing_of_a_pod() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().without_kwok().start().await?;
    let client = cluster.admin_client();
    create_namespace(&client, NAMESPACE).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = |metadata: serde_json::Value, spec: serde_json::Value| -> Pod {
        let mut pod = json!({ "metadata": metadata, "spec": spec });
        pod["spec"]["containers"] = json!([{ "name": "main", "image": "none" }]);
        serde_json::from_value(pod).expect("the pod is well formed")
    };
    let ours = json!({ "schedulerName": "warpyard" });
    // Even an administrator has no honest reason for these.
    for (why, forged) in [
        ("a run", pod(json!({ "name": "a", "labels": { names::RUN_LABEL: "train" } }), ours.clone())),
        ("an attempt", pod(json!({ "name": "a", "labels": { names::ATTEMPT_LABEL: "1" } }), ours.clone())),
        (
            "a user",
            pod(json!({ "name": "a", "annotations": { names::SUBMITTED_BY_ANNOTATION: "ann" } }), json!({})),
        ),
        ("a node", pod(json!({ "name": "a" }), json!({ "schedulerName": "warpyard", "nodeName": "node-0" }))),
    ] {
        let answer = pods.create(&PostParams::default(), &forged).await;
        ensure!(is_refused(&answer), "a pod that names {why} is refused: {answer:?}");
    }
    let job: Job = serde_json::from_value(json!({
        "metadata": { "name": "forged" },
        "spec": { "suspend": true, "template": {
            "metadata": { "labels": { names::RUN_LABEL: "train" } },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "none" }] },
        }},
    }))?;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let answer = jobs.create(&PostParams::default(), &job).await;
    ensure!(is_refused(&answer), "a Job whose pods name a run is refused: {answer:?}");
    let mut honest = job;
    honest.spec.as_mut().context("it has a spec")?.template.metadata = None;
    jobs.create(&PostParams::default(), &honest).await?;
    let forge =
        json!({ "spec": { "template": { "metadata": { "labels": { names::RUN_LABEL: "train" } } } } });
    let answer = jobs.patch("forged", &PatchParams::default(), &Patch::Strategic(forge)).await;
    ensure!(is_refused(&answer), "nor can a suspended Job learn to: {answer:?}");

    let held = json!({ "name": "held", "finalizers": ["example.com/other", names::METERING_FINALIZER] });
    pods.create(&PostParams::default(), &pod(held, ours)).await?;
    let account = (names::SYSTEM_NAMESPACE, names::CONTROLLERS_SERVICE_ACCOUNT);
    let kubeconfig = cluster.kubeconfig_for_service_account(account.0, account.1).await?;
    let controllers: Api<Pod> = Api::namespaced(cluster.client_for(&kubeconfig).await?, NAMESPACE);
    let patch =
        async |patch| controllers.patch("held", &PatchParams::default(), &Patch::Strategic(patch)).await;
    for forbidden in [
        json!({ "metadata": { "labels": { "a": "b" } } }),
        json!({ "metadata": { "annotations": { "a": "b" } } }),
        json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["example.com/other"] } }),
        json!({ "spec": { "activeDeadlineSeconds": 1 } }),
        // Of a pod that is no run's.
        json!({ "metadata": { "annotations": { names::CHECKPOINTED_AT_ANNOTATION: "2026-01-01T00:00:00Z" } } }),
    ] {
        let answer = patch(forbidden.clone()).await;
        ensure!(is_refused(&answer), "the controllers may not {forbidden}: {answer:?}");
    }
    let release =
        json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [names::METERING_FINALIZER] } });
    ensure!(patch(release).await?.finalizers() == ["example.com/other"], "the meter's finalizer is theirs");

    // The way out when there is no meter any more, as docs/decisions/0023-metering-finalizer.md has it.
    let stuck =
        json!({ "name": "stuck", "labels": { "stuck": "yes" }, "finalizers": [names::METERING_FINALIZER] });
    pods.create(&PostParams::default(), &pod(stuck, json!({}))).await?;
    pods.delete("stuck", &DeleteParams::default()).await?;
    ensure!(pods.get_opt("stuck").await?.is_some(), "the finalizer keeps a deleted pod");
    let way_out = r#""$0" get pods -A -l stuck -o yaml | "$0" patch -f - --type=strategic \
        -p '{"metadata":{"$deleteFromPrimitiveList/finalizers":["warpyard.dev/metering"]}}'"#;
    let status = tokio::process::Command::new("sh")
        .args(["-c", way_out])
        .arg(cluster.kubectl()?)
        .env("KUBECONFIG", cluster.admin_kubeconfig())
        .status()
        .await?;
    ensure!(status.success() && pods.get_opt("stuck").await?.is_none(), "the way out is one: {status}");
    cluster.stop().await;
    Ok(())
}

fn is_refused<T>(answer: &kube::Result<T>) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 403)
}

/// As long as its pods run.
async fn phase_reached_within(client: &kube::Client, name: &str, phase: RunPhase) -> anyhow::Result<()> {
    wait::until(&format!("run {name} is {phase:?}"), Duration::from_mins(3), || async {
        Ok((run_status(client, NAMESPACE, name).await?.phase == phase).then_some(()))
    })
    .await
}

async fn create_foreign_pod(yard: &Yard, name: &str) -> anyhow::Result<()> {
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(yard.client());
    let node = nodes.list(&ListParams::default()).await?.items.pop().context("there is a node")?.name_any();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": name, "annotations": { names::FAKE_RUN_TIME_ANNOTATION: "2s" } },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "none", "resources": { "limits": { names::GPU_RESOURCE: "1" } } }],
        },
    }))?;
    let pods: Api<Pod> = Api::namespaced(yard.client(), NAMESPACE);
    pods.create(&PostParams::default(), &pod).await?;
    Ok(())
}

/// All mistakes of the bill.
fn mistakes(yard: &Yard, bill: &Bill, moment: i64) -> anyhow::Result<Vec<String>> {
    let mut wrong = compare_pods(&yard.witness.pods()?, bill, &yard.prices);
    wrong.extend(compare_nodes(&yard.witness.nodes(), bill, &yard.prices, moment));
    if bill.amount != bill.daily_amount {
        wrong.push(format!("the days' sums are {} and not {}", bill.daily_amount, bill.amount));
    }
    if bill.problems != 0 || bill.uncertain != 0 {
        wrong.push(format!("{} problems, {} pods without a certain end", bill.problems, bill.uncertain));
    }
    Ok(wrong)
}

async fn create_queues(client: &kube::Client) -> anyhow::Result<()> {
    create_queue(client, "org", None, &[("H100", 1024)], &[]).await?;
    create_queue(client, "nlp", Some("org"), &[("H100", 1024)], &[NAMESPACE]).await
}
