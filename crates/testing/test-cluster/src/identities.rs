//! Logins: users with static tokens, and service accounts with tokens bound to a pod.

use std::fmt::Write;
use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::{Error, files};

/// A user of the cluster who logs in with a token.
#[derive(Clone, Debug)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The groups the user is in, besides `system:authenticated`.
    pub groups: Vec<String>,
    /// The bearer token.
    pub token: String,
}

impl User {
    pub(crate) fn create(name: &str, groups: &[&str]) -> Result<Self, Error> {
        Ok(Self {
            name: name.to_owned(),
            groups: groups.iter().map(ToString::to_string).collect(),
            token: files::random_secret()?,
        })
    }
}

/// The API server's token file. It is read only at the start, so users must be added before that.
pub(crate) fn token_file(users: &[User]) -> String {
    users.iter().fold(String::new(), |mut file, user| {
        write!(file, "{},{},{}", user.token, user.name, user.name).expect("writing to a string cannot fail");
        // An empty column would be one group with an empty name.
        if !user.groups.is_empty() {
            write!(file, ",\"{}\"", user.groups.join(",")).expect("writing to a string cannot fail");
        }
        file.push('\n');
        file
    })
}

/// A login as a service account, through a token that is bound to a placeholder pod.
#[derive(Clone, Debug)]
pub struct ServiceAccountLogin {
    /// A kubeconfig with the token.
    pub kubeconfig: PathBuf,
    /// The token itself.
    pub token: String,
    /// The placeholder pod's name.
    pub pod: String,
    /// The placeholder pod's UID, which identifies the holder of the token.
    pub pod_uid: String,
}

/// Mints a token for a service account, bound to a new placeholder pod. Returns the token and the pod.
pub(crate) async fn mint_token(
    client: &Client,
    namespace: &str,
    account: &str,
) -> Result<(String, Pod), Error> {
    // A day: longer than any test or session. It ends with the cluster anyway.
    const TOKEN_SECONDS: i64 = 24 * 60 * 60;
    let pod = create_placeholder_pod(client, namespace, account).await?;
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: None,
            expiration_seconds: Some(TOKEN_SECONDS),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Pod".into()),
                name: Some(pod.name_any()),
                uid: pod.uid(),
            }),
        }),
        ..TokenRequest::default()
    };
    let what = || format!("mint a token for service account {namespace}/{account}");
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .map_err(|source| Error::Kube { what: what(), source })?;
    let token = answer.status.and_then(|status| status.token).unwrap_or_default();
    Ok((token, pod))
}

/// A pod that exists only for its UID: gated, and for a scheduler that does not exist.
async fn create_placeholder_pod(client: &Client, namespace: &str, account: &str) -> Result<Pod, Error> {
    let pod = serde_json::from_value(json!({
        "metadata": {
            "generateName": format!("{account}-"),
            "labels": { "app.kubernetes.io/name": account, "test-cluster.warpyard.dev/placeholder": "true" },
        },
        "spec": {
            "serviceAccountName": account,
            "automountServiceAccountToken": false,
            "schedulerName": "nobody",
            "schedulingGates": [{ "name": "test-cluster.warpyard.dev/placeholder" }],
            "restartPolicy": "Never",
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "placeholder",
                "image": "placeholder",
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        },
    }))
    .expect("a constant pod is well formed");
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    pods.create(&PostParams::default(), &pod).await.map_err(|source| Error::Kube {
        what: format!("create a placeholder pod in {namespace} as {account}"),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_file_quotes_the_groups_of_a_user() {
        let user =
            User { name: "alice".into(), groups: vec!["vision".into(), "admins".into()], token: "t".into() };
        let alone = User { groups: Vec::new(), ..user.clone() };
        assert_eq!(token_file(&[user, alone]), "t,alice,alice,\"vision,admins\"\nt,alice,alice\n");
    }
}
