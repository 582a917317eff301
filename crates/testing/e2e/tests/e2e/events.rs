//! Events of an open page: it gets everything that its user may see, as it happens, and nothing else.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_types::{Queue, Run};
use e2e::bounds;
use e2e::objects::{create_bare_namespace, create_queue, create_run, h100_nodes, run};
use e2e::sse::{Event, EventStream, parse, take_frame};
use e2e::users::{create_team, grant_everywhere, grant_map, grant_namespace};
use e2e::wait::PATIENCE;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn events_show_a_run_from_pending_to_succeeded_to_its_team_and_nameless_gpus_to_others()
-> anyhow::Result<()> {
    let cluster = TestCluster::builder().user("alice", &[]).user("bob", &[]).start().await?;
    let client = cluster.admin_client();
    for (user, team) in [("alice", "nlp"), ("bob", "vision")] {
        create_team(&client, user, team, None, &[("H100", 16)]).await?;
        grant_map(&client, user).await?;
    }
    let platform = Platform::debug(&cluster);
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let mut controllers = platform.controllers("controllers").await?;
    let (api_server, url) = platform.api_server("127.0.0.1:0").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    let http = reqwest::Client::new();
    let (alices, bobs) = (cluster.token_for_user("alice")?, cluster.token_for_user("bob")?);
    let mut alice = EventStream::open(&http, &url, alices, "").await?;
    let mut bob = EventStream::open(&http, &url, bobs, "").await?;

    // There is no node yet, so it waits until there is.
    create_run(&client, "nlp", "secret-run", run("nlp", 2, 4, Some("10s"))).await?;
    let mut seen = Vec::new();
    let phase = |phase: &'static str| move |event: &Event| (event.data["phase"] == phase).then_some(());
    alice.until("the run is Pending", PATIENCE, &mut seen, phase("Pending")).await?;
    cluster.add_fake_nodes(&h100_nodes("node", 1)).await?;
    let held = alice.until("the node is held", PATIENCE, &mut seen, occupied).await?;
    ensure!(
        held["namespace"] == "nlp" && held["run"] == "secret-run" && held["queue"] == "nlp",
        "alice reads who holds it: {held}"
    );
    members_have_a_node(&http, &url, alices).await?;
    // In whichever order: the one comes from the pods, the other from the controllers.
    let (is_over, is_free) = (Cell::new(false), Cell::new(false));
    let both = |event: &Event| {
        is_over.set(is_over.get() || event.data["phase"] == "Succeeded");
        is_free.set(is_free.get() || free(event));
        (is_over.get() && is_free.get()).then_some(())
    };
    alice.until("the run has Succeeded and the node is free", PATIENCE, &mut seen, both).await?;
    let phases: Vec<&str> = seen.iter().filter_map(|event| event.data["phase"].as_str()).collect();
    ensure!(in_order(&phases, &["Pending", "Running", "Succeeded"]), "every phase was told: {phases:?}");
    ensure!(seen.iter().any(|event| event.kind == "queue"), "the queue's numbers were told: {seen:?}");
    ensure!(!seen.iter().any(|event| event.kind == "reload"), "nothing was missed: {seen:?}");

    // Bob is told of the same GPUs, and of his own run, and of nothing of alice's.
    create_run(&client, "vision", "bobs-run", run("vision", 1, 1, Some("1s"))).await?;
    let mut seen = Vec::new();
    let held = bob.until("the node is held", PATIENCE, &mut seen, occupied).await?;
    ensure!(held.get("run").is_none() && held.get("namespace").is_none(), "bob reads no names: {held}");
    bob.until("bob's run has Succeeded", PATIENCE, &mut seen, phase("Succeeded")).await?;
    let text = format!("{seen:?}");
    ensure!(text.contains("bobs-run"), "{text}");
    ensure!(!text.contains("secret-run") && !text.contains("nlp"), "bob was told of alice's run: {text}");

    // A process that stops ends its streams in time, and says so by their end.
    let stopping = tokio::spawn(api_server.terminate());
    while alice.next(PATIENCE).await?.is_some() {}
    stopping.await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn events_end_with_the_right_to_see_them() -> anyhow::Result<()> {
    let cluster = control_plane().await?;
    let client = cluster.admin_client();
    let (_api_server, url) = Platform::debug(&cluster).api_server("127.0.0.1:0").await?;
    let http = reqwest::Client::new();
    let mut alice = EventStream::open(&http, &url, cluster.token_for_user("alice")?, "?topics=runs").await?;
    let mut carol = EventStream::open(&http, &url, cluster.token_for_user("carol")?, "?topics=runs").await?;
    let says = |message: String| move |event: &Event| (event.data["message"] == message).then_some(());

    say(&client, "run-0", "before").await?;
    for stream in [&mut alice, &mut carol] {
        stream.until("both are told", PATIENCE, &mut Vec::new(), says("before".to_owned())).await?;
    }
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), "nlp");
    bindings.delete("alice-runs", &DeleteParams::default()).await.context("failed to take the right away")?;
    let began = Instant::now();
    for number in 0.. {
        let message = format!("after-{number}");
        say(&client, "run-0", &message).await?;
        carol.until("carol is told", PATIENCE, &mut Vec::new(), says(message.clone())).await?;
        // Both get an event from the same batch, so alice's is there now or never.
        let told = alice.until("alice", Duration::from_secs(1), &mut Vec::new(), says(message)).await;
        if told.is_err() {
            break;
        }
        ensure!(began.elapsed() < bounds::RIGHT_FORGOTTEN.allowed(), "alice is still told");
    }
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_a_reader_that_did_not_keep_up_to_reload() -> anyhow::Result<()> {
    // A queue with as many namespaces as it may have is an event of 17 KB, so a round has ~340 KB. Connections on
    // loopback hold up to 4 MB, which is 12 rounds, and the server keeps 64 more.
    const QUEUES: usize = 20;
    const ROUNDS: usize = 90;
    let cluster = control_plane().await?;
    let client = cluster.admin_client();
    let namespaces: Vec<String> = (0..256).map(|number| format!("{number:063}")).collect();
    let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    for queue in (0..QUEUES).map(queue_name) {
        create_queue(&client, &queue, None, &[], &namespaces).await?;
    }
    for user in ["alice", "carol"] {
        grant_everywhere(&client, user, "warpyard-queue-viewer").await?;
    }
    let (_api_server, url) = Platform::debug(&cluster).api_server("127.0.0.1:0").await?;
    let mut connection = TcpStream::connect(url.strip_prefix("http://").context("an address")?).await?;
    let token = cluster.token_for_user("alice")?;
    let request = format!("GET /v1/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut unread = Vec::new();
    read_until(&mut connection, &mut unread, "hello", |event| event.kind == "hello").await?;

    // Another reader tells when the server has sent a round.
    let http = reqwest::Client::new();
    let mut other =
        EventStream::open(&http, &url, cluster.token_for_user("carol")?, "?topics=queues").await?;
    for round in 1..=ROUNDS {
        let changes = (0..QUEUES).map(|number| set_waiting(&client, number, round));
        futures::future::try_join_all(changes).await?;
        let mut seen = Vec::new();
        let told = |event: &Event| (event.data["gangsWaiting"] == round).then_some(());
        other.until("the other reader is told", PATIENCE, &mut seen, told).await?;
        ensure!(!seen.iter().any(|event| event.kind == "reload"), "who reads is not told to reload");
    }
    read_until(&mut connection, &mut unread, "reload", |event| event.kind == "reload").await?;
    say(&client, "run-0", "afterwards").await?;
    let goes_on = |event: &Event| event.data["message"] == "afterwards";
    read_until(&mut connection, &mut unread, "what comes afterwards", goes_on).await?;
    cluster.stop().await;
    Ok(())
}

fn queue_name(number: usize) -> String {
    format!("queue-{number}")
}

async fn set_waiting(client: &Client, queue: usize, gangs: usize) -> anyhow::Result<()> {
    let queues: Api<Queue> = Api::all(client.clone());
    let status = Patch::Merge(json!({"status": {"gangsWaiting": gangs}}));
    let patched = queues.patch_status(&queue_name(queue), &PatchParams::default(), &status).await;
    patched.context("failed to change a queue").map(drop)
}

/// A control plane with run `run-0` in namespace `nlp`, which alice and carol may see.
async fn control_plane() -> anyhow::Result<TestCluster> {
    let builder = TestCluster::builder().user("alice", &[]).user("carol", &[]);
    let cluster = builder.without_controller_manager().without_kwok().start().await?;
    let client = cluster.admin_client();
    create_bare_namespace(&client, "nlp").await?;
    for user in ["alice", "carol"] {
        grant_namespace(&client, user, "nlp").await?;
    }
    create_run(&client, "nlp", "run-0", run("nlp", 1, 1, None)).await?;
    Ok(cluster)
}

/// Changes a run's message.
async fn say(client: &Client, name: &str, message: &str) -> anyhow::Result<()> {
    let runs: Api<Run> = Api::namespaced(client.clone(), "nlp");
    let status = json!({"status": {"phase": "Running", "message": message}});
    let patched = runs.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await;
    patched.with_context(|| format!("failed to change run {name}")).map(drop)
}

async fn members_have_a_node(http: &reqwest::Client, url: &str, token: &str) -> anyhow::Result<()> {
    let path = format!("{url}/v1/namespaces/nlp/runs/secret-run/members");
    let members: Value = http.get(path).bearer_auth(token).send().await?.json().await?;
    let items = members["items"].as_array().context("a page")?;
    let ranks: Vec<_> = items.iter().map(|member| member["index"].as_u64()).collect();
    ensure!(ranks == [Some(0), Some(1)], "both members, by rank: {members}");
    for member in items {
        ensure!(member["node"] == "node-0" && member["gpus"] == 4, "{member}");
        ensure!(member["scheduledAt"].is_string(), "{member}");
    }
    Ok(())
}

/// All eight GPUs are held, by one.
fn occupied(event: &Event) -> Option<Value> {
    let occupants = event.data["occupants"].as_array()?;
    occupants.iter().find(|occupant| occupant["gpus"] == 8).cloned()
}

fn free(event: &Event) -> bool {
    event.data["occupants"].as_array().is_some_and(Vec::is_empty)
}

fn in_order(all: &[&str], wanted: &[&str]) -> bool {
    let mut all = all.iter();
    wanted.iter().all(|word| all.any(|other| other == word))
}

/// Reads raw bytes until an event is found. Each chunk of the HTTP body holds whole events, and its length is a line of
/// its own, which no field looks like.
async fn read_until(
    connection: &mut TcpStream,
    unread: &mut Vec<u8>,
    what: &str,
    wanted: impl Fn(&Event) -> bool,
) -> anyhow::Result<()> {
    let read = async {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            while let Some(frame) = take_frame(unread) {
                if parse(&frame)?.is_some_and(|event| wanted(&event)) {
                    return Ok(());
                }
            }
            let count = connection.read(&mut bytes).await?;
            ensure!(count > 0, "the stream ended");
            unread.extend_from_slice(&bytes[..count]);
        }
    };
    tokio::time::timeout(PATIENCE, read).await.with_context(|| format!("waited in vain for {what}"))?
}
