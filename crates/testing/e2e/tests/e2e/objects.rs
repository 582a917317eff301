//! The custom resources on the real API server: examples that it must accept, examples that it must refuse with
//! our messages, and fields that may not change later, also of pods.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use api_types::{Queue, Run, SchedulerEpoch, SchedulerEpochSpec, names};
use e2e::objects::GangOfPods;
use e2e::wait;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use serde_json::json;
use test_cluster::TestCluster;

const NAMESPACE: &str = "default";
/// The API server looks for new policies once in a second, and for the kinds of their parameters less often.
const POLICY_BOUND: Duration = Duration::from_secs(40);
/// The policy's message about a pod's labels that may not change.
const FIXED: &str = "of a pod cannot change";
/// The fence's.
const FIXED_TOO: &str = "not even through its status";

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_accepts_and_refuses_what_the_schemas_say() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().without_controller_manager().without_kwok().start().await?;
    let client = cluster.admin_client();
    for path in examples("accepted")? {
        create(&client, &read(&path)?)
            .await
            .with_context(|| format!("{} must be accepted", path.display()))?;
    }
    for path in examples("refused")? {
        let text = fs::read_to_string(&path)?;
        let expect =
            text.lines().next().and_then(|line| line.strip_prefix("# expect: ")).context("no expectation")?;
        match create(&client, &read(&path)?).await {
            Ok(_) => bail!("{} must be refused, but was accepted", path.display()),
            Err(error) => ensure!(error.to_string().contains(expect), "{}: {error}", path.display()),
        }
    }
    create_pod(&client).await?;
    for (kind, name, patch, expect) in forbidden_changes() {
        let error = change(&client, kind, name, &patch).await.err();
        let error = error.with_context(|| format!("{kind} {name}: {patch} must be refused"))?;
        ensure!(error.to_string().contains(expect), "{kind} {name}: {patch}: {error}");
    }
    for (kind, name, patch) in permitted_changes() {
        change(&client, kind, name, &patch).await.with_context(|| format!("{kind} {name}: {patch}"))?;
    }
    statuses_of_pods_relabel_nothing(&client).await?;
    cluster.stop().await;
    Ok(())
}

fn forbidden_changes() -> Vec<(&'static str, &'static str, serde_json::Value, &'static str)> {
    let immutable = "immutable except for stop";
    vec![
        ("Run", "llama-ft", json!({"spec": {"members": 8}}), immutable),
        ("Run", "llama-ft", json!({"spec": {"queue": "other"}}), immutable),
        ("Run", "llama-ft", json!({"spec": {"queue": null}}), immutable),
        ("Run", "llama-ft", json!({"spec": {"priority": "production"}}), immutable),
        ("Run", "hello", json!({"spec": {"gpuType": "H100", "gpusPerMember": 1}}), immutable),
        ("Queue", "nlp", json!({"spec": {"parent": "other"}}), "parent is immutable"),
        ("Queue", "nlp", json!({"spec": {"parent": null}}), "parent is immutable"),
        ("Queue", "acme", json!({"spec": {"parent": "nlp"}}), "parent is immutable"),
        ("Queue", "nlp", json!({"spec": {"limit": {"gpus": {"H100": 1}}}}), "limit.gpus must be at least"),
        ("SchedulerEpoch", "example", json!({"spec": {"holder": "somebody-else"}}), "the epoch only grows"),
        ("SchedulerEpoch", "example", json!({"spec": {"epoch": 0}}), "spec.epoch"),
        ("Pod", "gang-0", json!({"metadata": {"labels": {names::QUEUE_LABEL: "other"}}}), FIXED),
        ("Pod", "gang-0", json!({"metadata": {"labels": {names::QUEUE_LABEL: null}}}), FIXED),
        ("Pod", "gang-0", json!({"metadata": {"labels": {names::GANG_LABEL: "other"}}}), FIXED),
        ("Pod", "gang-0", json!({"metadata": {"annotations": {names::GANG_SIZE_ANNOTATION: "1"}}}), FIXED),
        ("Pod", "gang-0", json!({"metadata": {"annotations": {names::GPU_TYPE_ANNOTATION: "H100"}}}), FIXED),
        ("Pod", "gang-0", json!({"metadata": {"annotations": {names::SPOT_ANNOTATION: "true"}}}), FIXED),
        ("Pod", "gang-0", json!({"metadata": {"annotations": {names::MAX_PRICE_ANNOTATION: "7"}}}), FIXED),
        ("Pod", "gang-0", json!({"metadata": {"annotations": {names::DEADLINE_ANNOTATION: "now"}}}), FIXED),
        ("Pod", "gang-0", json!({"metadata": {"labels": {names::RUN_LABEL: "another"}}}), FIXED),
        ("Pod", "gang-0", json!({"metadata": {"labels": {names::ATTEMPT_LABEL: "2"}}}), FIXED),
        (
            "Pod",
            "gang-0",
            json!({"metadata": {"annotations": {names::SUBMITTED_BY_ANNOTATION: "ann"}}}),
            FIXED,
        ),
    ]
}

fn permitted_changes() -> Vec<(&'static str, &'static str, serde_json::Value)> {
    vec![
        ("Run", "hello", json!({"spec": {"stop": true}})),
        ("Queue", "nlp", json!({"spec": {"quota": {"gpus": {"H100": 64}}, "weight": 5}})),
        ("SchedulerEpoch", "example", json!({"spec": {"epoch": 2, "holder": "somebody-else"}})),
        ("Pod", "gang-0", json!({"metadata": {"labels": {"app": "of-its-own"}}})),
    ]
}

/// A pod for our scheduler, in a namespace whose account nobody else makes here.
async fn create_pod(client: &Client) -> anyhow::Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let account = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
    accounts.create(&PostParams::default(), &account).await?;
    let gang =
        GangOfPods { namespace: NAMESPACE, name: "gang", queue: "nlp", members: 2, gpus: 1, run_time: "1h" };
    gang.create(client).await?;
    let patch = json!({"metadata": {"labels": {names::GANG_LABEL: "x"}}});
    wait::until("the policy on pods' labels is in force", POLICY_BOUND, async || {
        let params = PatchParams::default().dry_run();
        let error = api(client, "Pod").patch("gang-0", &params, &Patch::Merge(&patch)).await.err();
        Ok(error.filter(|error| error.to_string().contains(FIXED)))
    })
    .await?;
    Ok(())
}

/// Through a status the same holds, once there was a leader: the fence keeps it.
async fn statuses_of_pods_relabel_nothing(client: &Client) -> anyhow::Result<()> {
    let spec = SchedulerEpochSpec { epoch: 1, holder: "nobody".to_owned() };
    let epochs: Api<SchedulerEpoch> = Api::all(client.clone());
    epochs.create(&PostParams::default(), &SchedulerEpoch::new(names::SCHEDULER_EPOCH, spec)).await?;
    let write = async |metadata: serde_json::Value| {
        let status = json!({"conditions": [{"type": "example.com/Seen", "status": "True"}]});
        let patch = json!({ "metadata": metadata, "status": status });
        let written =
            api(client, "Pod").patch_status("gang-0", &PatchParams::default(), &Patch::Merge(&patch)).await;
        written.err().map(|error| error.to_string())
    };
    wait::until("the fence knows the epoch", POLICY_BOUND, async || {
        Ok(write(json!({"labels": {names::GANG_LABEL: "x"}})).await.filter(|error| error.contains(FIXED_TOO)))
    })
    .await?;
    for name in [names::QUEUE_LABEL, names::GANG_LABEL, names::RUN_LABEL, names::ATTEMPT_LABEL] {
        let refused = write(json!({ "labels": { name: "7" } })).await.unwrap_or_default();
        ensure!(refused.contains(FIXED_TOO), "{name}: {refused}");
    }
    for name in [
        names::GANG_SIZE_ANNOTATION,
        names::GPU_TYPE_ANNOTATION,
        names::SPOT_ANNOTATION,
        names::MAX_PRICE_ANNOTATION,
        names::DEADLINE_ANNOTATION,
        names::SUBMITTED_BY_ANNOTATION,
    ] {
        let refused = write(json!({ "annotations": { name: "7" } })).await.unwrap_or_default();
        ensure!(refused.contains(FIXED_TOO), "{name}: {refused}");
    }
    for other in
        [json!({}), json!({"labels": {"app": "another"}, "annotations": {"example.com/address": "10.0.0.1"}})]
    {
        let refused = write(other.clone()).await;
        ensure!(refused.is_none(), "{other}: {refused:?}");
    }
    Ok(())
}

async fn create(client: &Client, object: &DynamicObject) -> kube::Result<DynamicObject> {
    let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
    api(client, kind).create(&PostParams::default(), object).await
}

async fn change(
    client: &Client,
    kind: &str,
    name: &str,
    patch: &serde_json::Value,
) -> kube::Result<DynamicObject> {
    api(client, kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    match kind {
        "Run" => Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::erase::<Run>(&())),
        "Pod" => Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::erase::<Pod>(&())),
        "Queue" => Api::all_with(client.clone(), &ApiResource::erase::<Queue>(&())),
        _ => Api::all_with(client.clone(), &ApiResource::erase::<SchedulerEpoch>(&())),
    }
}

/// The examples, in order of their names.
fn examples(folder: &str) -> anyhow::Result<Vec<PathBuf>> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../foundation/api-types/examples").join(folder);
    let mut paths: Vec<_> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    ensure!(!paths.is_empty(), "no examples found");
    Ok(paths)
}

fn read(path: &Path) -> anyhow::Result<DynamicObject> {
    let object: DynamicObject = serde_norway::from_str(&fs::read_to_string(path)?)?;
    ensure!(!object.name_any().is_empty(), "{} has no name", path.display());
    Ok(object)
}
