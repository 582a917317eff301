//! The writes that an agent's role and `deploy/node-agent/policy.yaml` allow.

use anyhow::{Context, ensure};
use api_types::names;
use e2e::wait;
use k8s_openapi::api::core::v1::{Node, Pod, Secret, Taint};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use test_cluster::TestCluster;

use e2e::agents::login_on;

use super::{BOUND, cluster_with, settled, taints};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_may_change_nothing_but_its_own_words_on_its_own_node() -> anyhow::Result<()> {
    let cluster = cluster_with(2).await?;
    let agent = cluster.client_for(&login_on(&cluster, "node-0").await?).await?;
    let nowhere =
        cluster.login_service_account(names::NODES_NAMESPACE, names::NODE_AGENT_SERVICE_ACCOUNT).await?;
    let nowhere = cluster.client_for(&nowhere.kubeconfig).await?;
    let is_ours =
        json!({ "metadata": { "annotations": { names::LEAVING_AT_ANNOTATION: "2030-01-01T00:02:00Z" } } });
    wait::until("the policy is in force", BOUND, || async {
        Ok(says(patch(&agent, "node-1", false, &is_ours).await, Some("refused: ")).is_ok().then_some(()))
    })
    .await?;

    let node = settled(&Api::all(cluster.admin_client())).await?;
    let with = |key: &str, effect: &str| {
        let mut taints = taints(&node);
        taints.push(Taint {
            key: key.into(),
            value: Some("spot".into()),
            effect: effect.into(),
            ..Taint::default()
        });
        json!({ "spec": { "taints": taints } })
    };
    let condition =
        |type_: &str| json!({ "status": { "conditions": [{ "type": type_, "status": "False" }] } });
    let metadata = |field: &str, value: Value| json!({ "metadata": { field: value } });
    let elsewhere = Some("refused: the node agent may change no node but the one that its pod runs on");
    let spec = Some("refused: the node agent may change nothing of a node's spec but taints");
    let label = Some("refused: the node agent may change no label, finalizer or owner of a node");
    let annotation = Some("refused: the node agent may change no annotation of a node but its own");
    let taint = Some("refused: the node agent may change no taint of a node but its own");
    let status = Some("refused: the node agent may change nothing of a node's status but conditions");
    let others = Some("refused: the node agent may change no condition of a node but its own");
    let kwok = node.annotations().keys().next().context("fake nodes have an annotation")?;
    for (who, name, on_status, body, refusal) in [
        (&agent, "node-0", false, is_ours.clone(), None),
        (&agent, "node-0", false, with(names::LEAVING_TAINT, "NoSchedule"), None),
        (&agent, "node-0", false, with(names::GPU_SICK_TAINT, "NoSchedule"), None),
        (&agent, "node-0", true, condition(names::NODE_NOTICE_CONDITION), None),
        (&agent, "node-0", true, condition(names::GPU_HEALTHY_CONDITION), None),
        (&agent, "node-1", false, is_ours.clone(), elsewhere),
        (&agent, "node-1", false, with(names::LEAVING_TAINT, "NoSchedule"), elsewhere),
        (&agent, "node-1", true, condition(names::NODE_NOTICE_CONDITION), elsewhere),
        (&nowhere, "node-0", false, is_ours.clone(), elsewhere),
        (&agent, "node-0", false, with("example.com/of-others", "NoSchedule"), taint),
        (&agent, "node-0", false, with(names::LEAVING_TAINT, "NoExecute"), taint),
        (&agent, "node-0", false, json!({ "spec": { "taints": null } }), taint),
        (&agent, "node-0", false, json!({ "spec": { "unschedulable": true } }), spec),
        (&agent, "node-0", false, json!({ "spec": { "providerID": "aws:///another" } }), spec),
        (&agent, "node-0", false, metadata("labels", json!({ names::GPU_TYPE_NODE_LABEL: "B200" })), label),
        (&agent, "node-0", true, metadata("labels", json!({ names::GPU_TYPE_NODE_LABEL: "B200" })), label),
        (&agent, "node-0", false, metadata("finalizers", json!(["example.com/never"])), label),
        (&agent, "node-0", false, metadata("annotations", json!({ "example.com/of": "others" })), annotation),
        (&agent, "node-0", true, metadata("annotations", json!({ kwok: null })), annotation),
        (&agent, "node-0", true, condition("Ready"), others),
        (&agent, "node-0", true, json!({ "status": { "capacity": { names::GPU_RESOURCE: "64" } } }), status),
        (
            &agent,
            "node-0",
            true,
            json!({ "status": { "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }] } }),
            status,
        ),
    ] {
        says(patch(who, name, on_status, &body).await, refusal)
            .with_context(|| format!("{body} on {name}, status {on_status}"))?;
    }

    // What its role does not give at all.
    let nodes: Api<Node> = Api::all(agent.clone());
    says(nodes.list(&ListParams::default()).await, Some("cannot list resource \"nodes\""))?;
    says(nodes.delete("node-0", &DeleteParams::default()).await, Some("cannot delete resource \"nodes\""))?;
    says(nodes.create(&PostParams::default(), &node).await, Some("cannot create resource \"nodes\""))?;
    let pods: Api<Pod> = Api::all(agent.clone());
    says(pods.list(&ListParams::default()).await, Some("cannot list resource \"pods\""))?;
    let secrets: Api<Secret> = Api::all(agent.clone());
    says(secrets.list(&ListParams::default()).await, Some("cannot list resource \"secrets\""))?;
    cluster.stop().await;
    Ok(())
}

/// A field that the policy does not name could be changed by an agent: a newer Kubernetes may have more.
#[tokio::test(flavor = "multi_thread")]
async fn the_policy_names_every_field_that_a_node_has() -> anyhow::Result<()> {
    let cluster = TestCluster::start_control_plane_only().await?;
    let request = http::Request::get("/openapi/v3/api/v1").body(Vec::new())?;
    let document: Value = cluster.admin_client().request(request).await?;
    let folder = toolbox::checkout::repository_root().join("deploy/node-agent");
    let policy = std::fs::read_to_string(folder.join("policy.yaml"))?;
    for (part, schema, judged_by_entry) in
        [("spec", "NodeSpec", "taints"), ("status", "NodeStatus", "conditions")]
    {
        let path = format!("/components/schemas/io.k8s.api.core.v1.{schema}/properties");
        let fields = document.pointer(&path).and_then(Value::as_object).context("the schema is served")?;
        ensure!(fields.contains_key(judged_by_entry), "{schema}: {fields:?}");
        for field in fields.keys().filter(|field| *field != judged_by_entry) {
            let is_kept = format!("object.{part}.?{field} == oldObject.{part}.?{field}\n");
            ensure!(policy.contains(&is_kept), "policy.yaml lets an agent change {part}.{field}");
        }
    }
    cluster.stop().await;
    Ok(())
}

async fn patch(who: &Client, name: &str, on_status: bool, body: &Value) -> kube::Result<Node> {
    let nodes: Api<Node> = Api::all(who.clone());
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    if on_status {
        nodes.patch_status(name, &params, &Patch::Strategic(body)).await
    } else {
        nodes.patch(name, &params, &Patch::Merge(body)).await
    }
}

/// Whether a write passed, or was refused with these words.
fn says<T>(result: kube::Result<T>, refusal: Option<&str>) -> anyhow::Result<()> {
    match (result, refusal) {
        (Ok(_), None) => Ok(()),
        (Err(kube::Error::Api(status)), Some(words))
            if status.code == 403 && status.message.contains(words) =>
        {
            Ok(())
        }
        (result, _) => anyhow::bail!("{:?} instead of {refusal:?}", result.map(drop)),
    }
}
