//! Grants rights to users like an admin: by bindings to the roles in `deploy/rbac-users.yaml`.

use anyhow::Context;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::objects::{create_namespace, create_queue};

/// Creates a team of one user: a namespace and a queue of this name, with these GPUs below `parent`; `user`
/// works in the namespace and may read the queue's numbers.
pub async fn create_team(
    client: &Client,
    user: &str,
    team: &str,
    parent: Option<&str>,
    gpus: &[(&str, u32)],
) -> anyhow::Result<()> {
    create_namespace(client, team).await?;
    create_queue(client, team, parent, gpus, &[team]).await?;
    grant_namespace(client, user, team).await?;
    grant_queue(client, user, team).await
}

/// Lets `user` work with runs in `namespace`.
pub async fn grant_namespace(client: &Client, user: &str, namespace: &str) -> anyhow::Result<()> {
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": format!("{user}-runs")},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "warpyard-user"},
    }))?;
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    bindings.create(&PostParams::default(), &binding).await.context("failed to grant a namespace")?;
    Ok(())
}

/// Lets `user` read the numbers of one queue.
pub async fn grant_queue(client: &Client, user: &str, queue: &str) -> anyhow::Result<()> {
    let name = format!("{user}-reads-queue-{queue}");
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": name},
        "rules": [{"apiGroups": [api_types::GROUP], "resources": ["queues"], "resourceNames": [queue], "verbs": ["get"]}],
    }))?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
    }))?;
    let parameters = PostParams::default();
    let roles: Api<ClusterRole> = Api::all(client.clone());
    roles.create(&parameters, &role).await.context("failed to create a role for a queue")?;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.create(&parameters, &binding).await.context("failed to grant a queue")?;
    Ok(())
}

/// Lets `user` look at the cluster's map.
pub async fn grant_map(client: &Client, user: &str) -> anyhow::Result<()> {
    grant_everywhere(client, user, "warpyard-cluster-viewer").await
}

/// Gives `user` one of our `ClusterRoles` in the whole cluster.
pub async fn grant_everywhere(client: &Client, user: &str, role: &str) -> anyhow::Result<()> {
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": format!("{user}-{role}")},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
    }))?;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.create(&PostParams::default(), &binding).await.context("failed to grant a role everywhere")?;
    Ok(())
}
