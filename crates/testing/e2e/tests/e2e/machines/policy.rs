//! The scheduler's rights on nodes and claims in `deploy/machines/`, checked with the leader's own identity.

use anyhow::Context;
use api_types::names;
use e2e::claims::{node_claim, node_claims};
use e2e::objects::h100_nodes;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use test_cluster::karpenter::Offerings;

use super::{BOUND, cluster_with};
use crate::fence::{says, two_schedulers};

const NODE: &str = "node-0";
const NOTHING_ELSE: &str =
    "refused: the scheduler may only remove the taint warpyard.dev/for-gang from a node";
const ONLY_ITS_OWN: &str = "refused: the scheduler gives back only machines that it bought";
const FOR_WHICH: &str = "refused: every machine that the scheduler buys must name its launch";

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_takes_only_its_own_taint_off_nodes_and_gives_back_only_what_it_bought()
-> anyhow::Result<()> {
    let cluster = cluster_with(h100_nodes("node", 1)).await?;
    let admin = cluster.admin_client();
    // Nothing is to become of claims.
    cluster.karpenter()?.stop();
    let leader = two_schedulers(&cluster).await?.leader;
    e2e::machines::allow(&admin, 10, "1000").await?;

    let nodes: Api<Node> = Api::all(admin.clone());
    let taint = |key: &str| json!({ "key": key, "value": "x", "effect": "NoSchedule" });
    let (own, foreign) = (taint(names::FOR_GANG_TAINT), taint("example.com/theirs"));
    let tainted = json!({ "spec": { "taints": [own, foreign] } });
    nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(tainted)).await?;
    let taints = |left: &[&Value]| json!({ "spec": { "taints": left } });
    let theirs: Api<Node> = Api::all(leader.clone());
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    // A policy that was just installed is in force a moment later.
    e2e::wait::until("the policy is in force", BOUND, || async {
        let cordoned = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
        Ok(says(theirs.patch(NODE, &dry, &cordoned).await, Some(NOTHING_ELSE)).ok())
    })
    .await?;
    for (what, change, refusal) in [
        ("a label", json!({ "metadata": { "labels": { "a": "b" } } }), Some(NOTHING_ELSE)),
        ("an annotation", json!({ "metadata": { "annotations": { "a": "b" } } }), Some(NOTHING_ELSE)),
        ("a finalizer", json!({ "metadata": { "finalizers": ["example.com/a"] } }), Some(NOTHING_ELSE)),
        ("another's taint", taints(&[&own]), Some(NOTHING_ELSE)),
        ("both taints", taints(&[]), Some(NOTHING_ELSE)),
        ("a further taint", taints(&[&own, &foreign, &taint("a")]), Some(NOTHING_ELSE)),
        ("a taint in place of its own", taints(&[&foreign, &taint("a")]), Some(NOTHING_ELSE)),
        ("its own taint", taints(&[&foreign]), None),
    ] {
        says(theirs.patch(NODE, &dry, &Patch::Merge(change)).await, refusal).context(what)?;
    }
    let status = Patch::Merge(json!({ "status": { "phase": "Pending" } }));
    let no_right = "cannot patch resource \"nodes/status\"";
    says(theirs.patch_status(NODE, &dry, &status).await, Some(no_right)).context("a status")?;

    let (all, its) = (node_claims(&admin), node_claims(&leader));
    let offer = Offerings::of_type("p5.48xlarge");
    let marked = [(names::LAUNCH_LABEL, "0123456789abcdef-1")];
    all.create(&PostParams::default(), &node_claim("theirs", &offer, &[])?).await?;
    all.create(&PostParams::default(), &node_claim("its-own", &offer, &marked)?).await?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    says(its.create(&dry, &node_claim("bare", &offer, &[])?).await, Some(FOR_WHICH)).context("an order")?;
    says(its.create(&dry, &node_claim("marked", &offer, &marked)?).await, None).context("an order of its")?;
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    says(its.delete("theirs", &dry).await, Some(ONLY_ITS_OWN)).context("another's machine")?;
    says(its.delete("its-own", &dry).await, None).context("its own machine")?;
    let at_once = its.delete_collection(&dry, &ListParams::default()).await;
    says(at_once, Some("cannot deletecollection resource")).context("all machines")?;
    let relabelled = Patch::Merge(json!({ "metadata": { "labels": { names::LAUNCH_LABEL: "x-1" } } }));
    let patched = its.patch("theirs", &PatchParams::default(), &relabelled).await;
    says(patched, Some("cannot patch resource")).context("another's claim")?;
    cluster.stop().await;
    Ok(())
}
