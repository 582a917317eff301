//! The organisation of the development platform.

use anyhow::Context;
use api_types::{PriceSheet, QueueSpec, ReclaimSpec};
use e2e::objects::{create_namespace, create_queue, create_queue_as, h100s};
use e2e::users::{grant_everywhere, grant_map, grant_namespace, grant_queue};
use kube::Client;
use kube::api::{Api, PostParams};
use test_cluster::TestCluster;
use toolbox::checkout::repository_root;

/// A team: its queue and namespace have its name.
pub struct Team {
    /// Of the queue and the namespace.
    pub name: &'static str,
    /// The user who works in it.
    pub user: &'static str,
    /// How many of the eight GPUs of every node it owns.
    pub h100_per_node: u32,
}

/// They share the organisation's GPUs.
pub const TEAMS: [Team; 3] = [
    Team { name: "nlp", user: "alice", h100_per_node: 4 },
    Team { name: "vision", user: "bob", h100_per_node: 3 },
    Team { name: "speech", user: "carol", h100_per_node: 1 },
];
/// How long a team waits before it reclaims what others borrowed: short, so that people see it.
const RECLAIM_GRACE_SECONDS: u32 = 30;
/// Leads the organisation: sees every team's runs, queues and cost and the scheduler's snapshots, and changes nothing.
pub const LEAD: &str = "dana";
const ORGANISATION: &str = "acme";
/// The prices of the nodes.
const PRICES: &str = "examples/prices.yaml";

/// Creates queues, namespaces and rights like an administrator, and sets prices.
pub async fn create(cluster: &TestCluster, nodes: u32) -> anyhow::Result<()> {
    let client = cluster.admin_client();
    let all: u32 = TEAMS.iter().map(|team| team.h100_per_node * nodes).sum();
    create_queue(&client, ORGANISATION, None, &[("H100", all)], &[]).await?;
    for team in &TEAMS {
        create_team(&client, team, nodes).await?;
    }
    for role in
        ["warpyard-viewer", "warpyard-queue-viewer", "warpyard-cluster-viewer", "warpyard-snapshot-viewer"]
    {
        grant_everywhere(&client, LEAD, role).await?;
    }
    let text = std::fs::read_to_string(repository_root().join(PRICES))
        .with_context(|| format!("failed to read {PRICES}"))?;
    let sheet: PriceSheet =
        serde_norway::from_str(&text).with_context(|| format!("{PRICES} is not a PriceSheet"))?;
    Api::all(client).create(&PostParams::default(), &sheet).await.context("failed to create the prices")?;
    Ok(())
}

/// A team may borrow a quarter of what it owns: enough to show reclaim, and some runs still wait for quota.
async fn create_team(client: &Client, team: &Team, nodes: u32) -> anyhow::Result<()> {
    let quota = team.h100_per_node * nodes;
    create_namespace(client, team.name).await?;
    let spec = QueueSpec {
        parent: Some(ORGANISATION.to_owned()),
        quota: Some(h100s(quota)),
        limit: Some(h100s(quota + quota / 4)),
        reclaim: Some(ReclaimSpec { grace_seconds: RECLAIM_GRACE_SECONDS, min_run_seconds: 0 }),
        namespaces: vec![team.name.to_owned()],
        ..QueueSpec::default()
    };
    create_queue_as(client, team.name, spec).await?;
    grant_namespace(client, team.user, team.name).await?;
    grant_queue(client, team.user, team.name).await?;
    grant_queue(client, team.user, ORGANISATION).await?;
    grant_map(client, team.user).await
}
