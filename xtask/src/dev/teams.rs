//! The organisation that the development platform belongs to.

use anyhow::Context;
use api_types::PriceSheet;
use e2e::objects::create_queue;
use e2e::users::{create_team, grant_everywhere, grant_map, grant_queue};
use kube::api::{Api, PostParams};
use test_cluster::TestCluster;

use crate::commands::repository_root;

/// A team: its queue and namespace have its name.
pub struct Team {
    /// Of the queue and the namespace.
    pub name: &'static str,
    /// Who works in it.
    pub user: &'static str,
    /// What it owns: so many of the eight GPUs of every node.
    pub h100_per_node: u32,
}

/// They share the organisation's GPUs.
pub const TEAMS: [Team; 3] = [
    Team { name: "nlp", user: "alice", h100_per_node: 4 },
    Team { name: "vision", user: "bob", h100_per_node: 3 },
    Team { name: "speech", user: "carol", h100_per_node: 1 },
];
/// Leads the organisation: sees every team's runs, queues and cost, and changes nothing.
pub const LEAD: &str = "dana";
const ORGANISATION: &str = "acme";
/// What the nodes cost.
const PRICES: &str = "examples/prices.yaml";

/// Creates queues, namespaces and rights as an administrator would, and sets prices.
pub async fn create(cluster: &TestCluster, nodes: u32) -> anyhow::Result<()> {
    let client = cluster.admin_client();
    let all: u32 = TEAMS.iter().map(|team| team.h100_per_node * nodes).sum();
    create_queue(&client, ORGANISATION, None, &[("H100", all)], &[]).await?;
    for team in &TEAMS {
        let gpus = [("H100", team.h100_per_node * nodes)];
        create_team(&client, team.user, team.name, Some(ORGANISATION), &gpus).await?;
        grant_queue(&client, team.user, ORGANISATION).await?;
        grant_map(&client, team.user).await?;
    }
    for role in ["warpyard-viewer", "warpyard-queue-viewer", "warpyard-cluster-viewer"] {
        grant_everywhere(&client, LEAD, role).await?;
    }
    let text = std::fs::read_to_string(repository_root().join(PRICES))
        .with_context(|| format!("failed to read {PRICES}"))?;
    let sheet: PriceSheet =
        serde_norway::from_str(&text).with_context(|| format!("{PRICES} is no PriceSheet"))?;
    Api::all(client).create(&PostParams::default(), &sheet).await.context("failed to create the prices")?;
    Ok(())
}
