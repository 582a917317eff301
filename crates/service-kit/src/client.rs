//! Connecting to the API server.
//!
//! The client speaks HTTP/1.1 with a pool that grows with the number of requests in flight, so parallel requests
//! run in parallel. A client that must not wait behind another one's traffic (the lease's) is made from the same
//! [`Config`] again.

use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig is missing or wrong.
    #[error("cannot use the kubeconfig {path}")]
    Kubeconfig {
        /// The file as given.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// There is neither a kubeconfig nor a service account.
    #[error(
        "found no way to the API server\n\nhint: give --kubeconfig, or run in a pod with a service account"
    )]
    InCluster(#[source] kube::config::InClusterError),
    /// The configuration names something that cannot be used, such as a broken certificate.
    #[error("cannot make a client for {url}")]
    Client {
        /// The API server.
        url: String,
        /// What is wrong.
        #[source]
        source: Box<kube::Error>,
    },
}

/// How to reach the API server: by the kubeconfig if one is given, else as the pod's service account.
pub async fn config(kubeconfig: Option<&Path>) -> Result<Config, Error> {
    let Some(path) = kubeconfig else {
        return Config::incluster().map_err(Error::InCluster);
    };
    let fail = |source| Error::Kubeconfig { path: path.to_owned(), source };
    let file = Kubeconfig::read_from(path).map_err(fail)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(fail)
}

/// A client with connections of its own. It retries what the server turned away (429, 503, 504) by itself, unless
/// the configuration says otherwise.
pub fn client(config: &Config) -> Result<Client, Error> {
    Client::try_from(config.clone())
        .map_err(|source| Error::Client { url: config.cluster_url.to_string(), source: Box::new(source) })
}

/// [`config`] and [`client`] in one, for a process that needs one client.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, Error> {
    client(&config(kubeconfig).await?)
}
