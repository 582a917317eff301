//! The fence: a leader that was stopped after a decision, and goes on while another one leads, changes nothing.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::scheduler_epoch::opening;
use api_types::{Hold, SchedulerEpoch, SchedulerEpochSpec, names};
use e2e::objects::{GangOfPods, create_namespace, create_queue, h100_nodes};
use e2e::observe::{bound, pods};
use e2e::users::grant_everywhere;
use e2e::wait;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde::de::IgnoredAny;
use serde_json::json;
use service_kit::client;
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};
use toolbox::figures;

const MEMBERS: u32 = 4;
const REFUSED: &str = "refused: this scheduler is not the leader";

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_stopped_before_its_binds_is_refused_when_it_goes_on() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", 4)).start().await?;
    let client = cluster.admin_client();
    create_namespace(&client, "nlp").await?;
    create_queue(&client, "nlp", None, &[("H100", 32)], &["nlp"]).await?;
    let platform = Platform::debug(&cluster);

    // The old leader pauses between its plan and its binds. Whether it learns first that its lease is lost or that
    // one of its status writes is refused, it lingers, so that the binds it had decided are really sent.
    let lingers = "before-binds=1*sleep(8000);lease-lost=sleep(15000);fenced=sleep(15000)";
    let mut old = platform.scheduler("old", LeaseTimes::Medium, lingers).await?;
    old.ready().await?;
    // The new leader never binds in this test, so that every pod would still be free for the old one's bind.
    let mut new = platform.scheduler("new", LeaseTimes::Medium, "before-binds=sleep(60000)").await?;

    let gang = GangOfPods {
        namespace: "nlp",
        name: "gang",
        queue: "nlp",
        members: MEMBERS,
        gpus: 8,
        run_time: "1h",
    };
    gang.create(&client).await?;
    let point = old.wait_for_line("Reached failpoint.", Duration::from_mins(1)).await?;
    ensure!(point["point"] == "before-binds", "it was to be stopped before its binds: {point}");
    old.freeze();
    new.wait_for_line("Reached failpoint.", Duration::from_mins(1)).await?;
    ensure!(bound(&client, "nlp").await? == 0, "nothing is bound before the old leader goes on");
    old.thaw();

    let (mut attempted, mut refused) = (0, 0);
    wait::until("the old leader has ended", Duration::from_mins(1), || {
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

#[tokio::test(flavor = "multi_thread")]
async fn of_binds_those_of_the_leader_pass_and_those_of_another_epoch_do_not() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().start().await?;
    let Two { leader, holder, other } = two_schedulers(&cluster).await?;
    let epochs: Api<SchedulerEpoch> = Api::all(cluster.admin_client());

    // Until the leader has written the selector, the epoch of a bind does not let it pass.
    for (who, said, passes) in [
        (&leader, None, true),
        (&leader, Some(7), false),
        (&leader, Some(6), false),
        (&other, None, false),
        (&other, Some(7), false),
        (&other, Some(6), false),
    ] {
        expect(who, said, passes).await?;
    }

    let fence: Api<ValidatingAdmissionPolicyBinding> = Api::all(leader.clone());
    let read = fence.get(names::FENCE_OF_BINDS).await?;
    fence.patch(names::FENCE_OF_BINDS, &PatchParams::default(), &open(&read, 7)).await?;
    let late = fence.patch(names::FENCE_OF_BINDS, &PatchParams::default(), &open(&read, 6)).await;
    ensure!(
        matches!(&late, Err(kube::Error::Api(status)) if status.code == 409),
        "who read it before the leader wrote it must not write it: {late:?}"
    );
    await_opened(&leader, 7).await?;
    for (who, said, passes) in [
        (&leader, None, true),
        (&leader, Some(6), false),
        (&leader, Some(8), false),
        (&other, None, false),
        (&other, Some(6), false),
    ] {
        expect(who, said, passes).await?;
    }

    // The container restarts: the same pod leads again, and its earlier binds are refused.
    let next = json!({ "spec": SchedulerEpochSpec { epoch: 8, holder } });
    epochs.patch(names::SCHEDULER_EPOCH, &PatchParams::default(), &Patch::Merge(next)).await?;
    let read = fence.get(names::FENCE_OF_BINDS).await?;
    fence.patch(names::FENCE_OF_BINDS, &PatchParams::default(), &open(&read, 8)).await?;
    await_opened(&leader, 8).await?;
    for (who, said, passes) in
        [(&leader, None, true), (&leader, Some(7), false), (&other, None, false), (&other, Some(7), false)]
    {
        expect(who, said, passes).await?;
    }
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn other_writes_of_the_leader_pass_and_nobody_elses_and_no_foreign_pod_is_deleted() -> anyhow::Result<()>
{
    let cluster = TestCluster::builder().user("mallory", &[]).start().await?;
    let admin = cluster.admin_client();
    let Two { leader, other, .. } = two_schedulers(&cluster).await?;
    create_namespace(&admin, "nlp").await?;
    let pods: Api<Pod> = Api::namespaced(admin.clone(), "nlp");
    for (name, scheduler) in [("ours", names::SCHEDULER_NAME), ("foreign", "default-scheduler")] {
        let pod = json!({
            "metadata": { "name": name },
            "spec": { "schedulerName": scheduler, "containers": [{ "name": "main", "image": "none" }] },
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    }
    grant_everywhere(&admin, "mallory", "cluster-admin").await?;
    let mallory = cluster.client_for(&cluster.kubeconfig_for_user("mallory")?).await?;
    let ended = json!({ "status": { "conditions": [{ "type": "DisruptionTarget", "status": "True" }] } });
    for (who, pod, passes) in [(&leader, "ours", true), (&other, "ours", false)] {
        let pods: Api<Pod> = Api::namespaced(who.clone(), "nlp");
        let told = pods.patch_status(pod, &PatchParams::default(), &Patch::Strategic(&ended)).await;
        says(told, (!passes).then_some(REFUSED)).context("a condition")?;
    }
    let relabelled = json!({ "metadata": { "labels": { names::QUEUE_LABEL: "another" } } });
    for pod in ["ours", "foreign"] {
        let pods: Api<Pod> = Api::namespaced(leader.clone(), "nlp");
        let written = pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(&relabelled)).await;
        says(written, Some("not even through its status")).with_context(|| format!("a label of {pod}"))?;
    }
    let dry_run = DeleteParams { dry_run: true, ..DeleteParams::default() };
    for (who, pod, refusal) in [
        (&leader, "ours", None),
        (&leader, "foreign", Some("refused: the pod is not placed by warpyard")),
        (&other, "ours", Some(REFUSED)),
        (&mallory, "foreign", None),
    ] {
        let pods: Api<Pod> = Api::namespaced(who.clone(), "nlp");
        says(pods.delete(pod, &dry_run).await, refusal).with_context(|| format!("the deletion of {pod}"))?;
    }
    let spec = json!({ "claimant": "a", "why": "Reclaim", "members": [], "victims": [], "epoch": 7,
        "expires": "2030-01-01T00:00:00Z" });
    let hold = Hold::new("hold", serde_json::from_value(spec)?);
    for (who, refusal) in [
        (&mallory, Some("refused: only the scheduler writes holds")),
        (&other, Some(REFUSED)),
        (&leader, None),
    ] {
        let holds: Api<Hold> = Api::namespaced(who.clone(), "nlp");
        says(holds.create(&PostParams::default(), &hold).await, refusal).context("a Hold")?;
    }
    cluster.stop().await;
    Ok(())
}

/// Whether a write passed, or was refused with these words.
pub fn says<T>(result: kube::Result<T>, refusal: Option<&str>) -> anyhow::Result<()> {
    match (result, refusal) {
        (Ok(_), None) => Ok(()),
        (Err(kube::Error::Api(status)), Some(words)) if status.message.contains(words) => Ok(()),
        (result, _) => anyhow::bail!("{:?} instead of {refusal:?}", result.map(drop)),
    }
}

/// Two processes with the scheduler's identity, of which one leads in epoch 7, as the fence knows.
pub struct Two {
    pub leader: Client,
    holder: String,
    other: Client,
}

pub async fn two_schedulers(cluster: &TestCluster) -> anyhow::Result<Two> {
    let login = || cluster.login_service_account(names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT);
    let (leader, other) = (login().await?, login().await?);
    let holder = leader.pod_uid.clone();
    let spec = SchedulerEpochSpec { epoch: 7, holder: holder.clone() };
    let epochs: Api<SchedulerEpoch> = Api::all(cluster.admin_client());
    epochs.create(&PostParams::default(), &SchedulerEpoch::new(names::SCHEDULER_EPOCH, spec)).await?;
    let leader = client::client(&client::config(Some(&leader.kubeconfig)).await?)?;
    let other = client::client(&client::config(Some(&other.kubeconfig)).await?)?;
    wait::until("the fence knows the epoch", wait::PATIENCE, || async {
        Ok(bind(&other, None).await?.contains(REFUSED).then_some(()))
    })
    .await?;
    Ok(Two { leader, holder, other })
}

/// Lets binds of an epoch pass, unless the fence was written since it was read.
fn open(read: &ValidatingAdmissionPolicyBinding, epoch: i64) -> Patch<serde_json::Value> {
    Patch::Merge(opening(epoch, read.resource_version().as_deref()))
}

/// kube-apiserver looks for a changed selector once in a second.
async fn await_opened(leader: &Client, epoch: i64) -> anyhow::Result<()> {
    wait::until("the fence knows the selector", wait::PATIENCE, || async {
        Ok((!bind(leader, Some(epoch)).await?.contains(REFUSED)).then_some(()))
    })
    .await
}

async fn expect(who: &Client, said: Option<i64>, passes: bool) -> anyhow::Result<()> {
    let answer = bind(who, said).await?;
    let is_expected = if passes { answer.contains("not found") } else { answer.contains(REFUSED) };
    ensure!(is_expected, "a bind that says {said:?} must{} pass: {answer}", if passes { "" } else { " not" });
    Ok(())
}

/// The API server's answer to a dry-run bind of a pod that does not exist.
async fn bind(who: &Client, epoch: Option<i64>) -> anyhow::Result<String> {
    let labels = epoch.map(|epoch| json!({ names::EPOCH_LABEL: epoch.to_string() }));
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "namespace": names::SYSTEM_NAMESPACE, "name": "nobody", "labels": labels },
        "target": { "apiVersion": "v1", "kind": "Node", "name": "nowhere" },
    });
    let path = format!("/api/v1/namespaces/{}/pods/nobody/binding?dryRun=All", names::SYSTEM_NAMESPACE);
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())?;
    match who.request::<IgnoredAny>(request).await {
        Err(kube::Error::Api(status)) => Ok(status.message.clone()),
        Err(error) => Err(error.into()),
        Ok(_) => anyhow::bail!("a pod that does not exist was bound"),
    }
}
