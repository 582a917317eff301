//! Creates the objects of the cluster.

use std::time::Instant;

use anyhow::Context;
use api_types::names::SUBMITTED_BY_ANNOTATION;
use api_types::{Run, RunSpec};
use e2e::objects::{create_bare_namespace, create_queue, h100_nodes};
use e2e::users::{grant_everywhere, grant_map, grant_namespace, grant_queue};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use test_cluster::{FakeNodes, TestCluster};

use crate::portal::args::Args;

/// Teams, each a namespace with a queue.
pub const TEAMS: usize = 20;
/// A namespace that every user may see: its changes must reach every stream.
pub const SHARED: &str = "shared";
/// The user who sees every run.
pub const LEAD: &str = "lead";
/// The server's limit of streams for one user.
pub const STREAMS_OF_USER: usize = 20;
/// Changes that every stream must get, one per second.
pub const MARKS: usize = 20;
/// Concurrent creations: more do not raise the API server's rate here.
const IN_FLIGHT_MAX: usize = 64;

/// Starts a cluster with all objects.
pub async fn fill(args: &Args) -> anyhow::Result<TestCluster> {
    let began = Instant::now();
    let users = args.streams.div_ceil(STREAMS_OF_USER);
    let nodes = FakeNodes { racks: args.nodes.div_ceil(16), ..h100_nodes("node", args.nodes) };
    let mut builder =
        TestCluster::builder().without_controller_manager().without_kwok().nodes(nodes).user(LEAD, &[]);
    for user in 0..users {
        builder = builder.user(&user_name(user), &[]);
    }
    let cluster = builder.start().await?;
    let client = cluster.admin_client();
    create_bare_namespace(&client, SHARED).await?;
    for team in (0..TEAMS).map(team_name) {
        create_bare_namespace(&client, &team).await?;
        create_queue(&client, &team, None, &[("H100", 64)], &[&team]).await?;
    }
    for role in ["warpyard-viewer", "warpyard-queue-viewer", "warpyard-cluster-viewer"] {
        grant_everywhere(&client, LEAD, role).await?;
    }
    for user in 0..users {
        let (name, team) = (user_name(user), team_name(user % TEAMS));
        grant_namespace(&client, &name, &team).await?;
        grant_namespace(&client, &name, SHARED).await?;
        grant_queue(&client, &name, &team).await?;
        grant_map(&client, &name).await?;
    }
    for mark in (0..MARKS).map(mark_name) {
        create_run(&client, SHARED, &mark, &json!({"phase": "Running"})).await?;
    }
    let runs =
        (0..args.runs).map(|number| {
            let client = client.clone();
            async move {
                create_run(&client, &team_name(number % TEAMS), &run_name(number), &status(number)).await
            }
        });
    stream::iter(runs).buffer_unordered(IN_FLIGHT_MAX).try_collect::<()>().await?;
    eprintln!("{} nodes and {} runs after {:.0?}", args.nodes, args.runs, began.elapsed());
    Ok(cluster)
}

/// A team's namespace and queue.
pub fn team_name(team: usize) -> String {
    format!("team-{team:02}-research")
}

/// A user who looks at pages.
pub fn user_name(user: usize) -> String {
    format!("user-{user:03}")
}

/// A run of a team.
pub fn run_name(number: usize) -> String {
    format!("llama-finetune-{number:05}")
}

/// Each mark is a run of its own, because changes of one run that come close together are one event.
pub fn mark_name(mark: usize) -> String {
    format!("mark-{mark:02}")
}

async fn create_run(client: &Client, namespace: &str, name: &str, status: &Value) -> anyhow::Result<()> {
    let runs: Api<Run> = Api::namespaced(client.clone(), namespace);
    let spec = RunSpec {
        queue: (namespace != SHARED).then(|| namespace.to_owned()),
        members: 4,
        gpus_per_member: 8,
        gpu_type: Some("H100".to_owned()),
        image: "registry.example/team/train:2026-11".to_owned(),
        command: ["torchrun", "--nnodes=4", "train.py", "--config", "configs/llama.yaml"]
            .map(str::to_owned)
            .into(),
        ..RunSpec::default()
    };
    let mut run = Run::new(name, spec);
    run.metadata.annotations = Some([(SUBMITTED_BY_ANNOTATION.to_owned(), "admin".to_owned())].into());
    runs.create(&PostParams::default(), &run)
        .await
        .with_context(|| format!("failed to create run {name}"))?;
    set_status(client, namespace, name, status).await
}

/// Changes a part of a run's status.
pub async fn set_status(client: &Client, namespace: &str, name: &str, status: &Value) -> anyhow::Result<()> {
    let runs: Api<Run> = Api::namespaced(client.clone(), namespace);
    let patch = Patch::Merge(json!({"status": status}));
    let patched = runs.patch_status(name, &PatchParams::default(), &patch).await;
    patched.with_context(|| format!("failed to set the status of run {name}")).map(drop)
}

/// Of ten runs four have succeeded, two failed with a long story, two run and two wait.
fn status(number: usize) -> Value {
    let attempt = json!([{"number": 1, "jobName": format!("{}-1", run_name(number)), "jobUid": "0b3c1f7e-1111-2222-3333-444455556666"}]);
    let (started, finished) = ("2026-11-15T02:00:05Z", "2026-11-15T03:12:44Z");
    match number % 10 {
        0..=3 => json!({
            "phase": "Succeeded", "message": "every member exited with 0", "attempts": attempt,
            "members": {"succeeded": 4}, "startedAt": started, "finishedAt": finished,
        }),
        4 | 5 => json!({
            "phase": "Failed", "reason": "MemberFailed", "attempts": attempt,
            "message": format!("member 3 on node-{number} exited with 137 (OOMKilled); the others were ended after it, and {}", "its log says more about what it was doing at that moment ".repeat(4)),
            "members": {"failed": 4}, "startedAt": started, "finishedAt": finished,
        }),
        6 | 7 => json!({
            "phase": "Running", "attempts": attempt, "members": {"running": 4}, "startedAt": started,
        }),
        _ => json!({
            "phase": "Pending", "reason": "Waiting", "message": "waits for GPUs", "attempts": attempt,
            "members": {"waiting": 4},
            "waiting": {"reasons": [{"code": "QuotaExceeded", "message": "queue holds 48 of 64 H100; requests 32", "queue": team_name(number % TEAMS), "resource": "H100", "nature": "Quota", "topic": "quota", "numbers": [{"label": "asks", "value": 32, "unit": "H100"}, {"label": "queue holds", "value": 48, "unit": "H100", "ofQueue": true}, {"label": "queue may hold", "value": 64, "unit": "H100", "ofQueue": true}]}]},
        }),
    }
}
