//! Kubeconfig files: how a server, a test or a person logs in.

use std::path::Path;

use k8s_openapi::ByteString;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::pki::CertifiedKey;
use crate::{Error, files};

/// A credential.
pub enum Credential<'a> {
    /// A client certificate.
    Certificate(&'a CertifiedKey),
    /// A bearer token.
    Token(&'a str),
}

/// Writes a self-contained kubeconfig, which may be copied elsewhere on this machine.
pub fn write(
    path: &Path,
    server: &str,
    authority: &Path,
    user: &str,
    credential: &Credential,
) -> Result<(), Error> {
    let login = match credential {
        Credential::Token(token) => json!({ "token": token }),
        Credential::Certificate(signed) => json!({
            "client-certificate-data": base64_of(&signed.cert)?,
            "client-key-data": base64_of(&signed.key)?,
        }),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "test-cluster",
            "cluster": { "server": server, "certificate-authority-data": base64_of(authority)? },
        }],
        "users": [{ "name": user, "user": login }],
        "contexts": [{ "name": "test-cluster", "context": { "cluster": "test-cluster", "user": user } }],
        "current-context": "test-cluster",
    });
    let text = serde_norway::to_string(&config).expect("a JSON value can be written as YAML");
    files::write_private(path, text.as_bytes())
}

/// A client that logs in with the kubeconfig at `path`, whatever the environment says.
pub async fn client(path: &Path) -> Result<Client, Error> {
    Client::try_from(config(path).await?)
        .map_err(|source| Error::Kube { what: format!("use {}", path.display()), source })
}

/// The same login at another address.
pub async fn client_at(path: &Path, url: &str) -> Result<Client, Error> {
    let mut config = config(path).await?;
    config.cluster_url =
        url.parse().map_err(|why| Error::Manifest { what: format!("use {url}"), why: format!("{why}") })?;
    Client::try_from(config).map_err(|source| Error::Kube { what: format!("use {url}"), source })
}

async fn config(path: &Path) -> Result<kube::Config, Error> {
    let what = || format!("load {}", path.display());
    let file = Kubeconfig::read_from(path).map_err(|source| Error::Kubeconfig { what: what(), source })?;
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(|source| Error::Kubeconfig { what: what(), source })?;
    // The cluster is on loopback; a proxy from the environment would be wrong.
    config.proxy_url = None;
    Ok(config)
}

fn base64_of(file: &Path) -> Result<Value, Error> {
    let bytes = std::fs::read(file)
        .map_err(|source| Error::Io { what: format!("read {}", file.display()), source })?;
    Ok(serde_json::to_value(ByteString(bytes)).expect("bytes can be written as base64"))
}
