//! Connecting to the API server.
//!
//! The client speaks HTTP/1.1 with a pool that grows with the number of requests in flight, so parallel requests
//! run in parallel. A client that must not wait behind another one's traffic, such as the lease's, is made from
//! the same [`Config`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A connection that is silent for this long, while an answer or an event is awaited, is dead. This is longer
/// than the 295 s after which kube's watcher begins a silent watch anew without an error; a healthy watch
/// brings a bookmark about every minute.
const SILENCE_MAX: Duration = Duration::from_mins(5);

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
    /// There is no kubeconfig and no service account.
    #[error("cannot find the API server\n\nhint: give --kubeconfig, or run in a pod with a service account")]
    InCluster(#[source] kube::config::InClusterError),
    /// The configuration contains something unusable, such as a broken certificate.
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

/// A client with connections of its own. It repeats requests that the server turned away (429, 503, 504),
/// unless the configuration says otherwise.
pub fn client(config: &Config) -> Result<Client, Error> {
    Client::try_from(config.clone())
        .map_err(|source| Error::Client { url: config.cluster_url.to_string(), source: Box::new(source) })
}

/// The same for lists and watches. By default neither kube's watcher nor its client bounds how long a list
/// takes or how long a watch takes to begin.
pub fn watching(config: &Config) -> Result<Client, Error> {
    let mut config = config.clone();
    config.read_timeout = Some(SILENCE_MAX);
    // Otherwise the time for which a connection was idle would count against the next answer.
    config.reset_reader_on_write = true;
    client(&config)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use k8s_openapi::api::core::v1::Namespace;
    use kube::Config;
    use kube::api::{Api, WatchParams};
    use tokio::time::{Instant, timeout};

    use super::{SILENCE_MAX, watching};

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_a_server_takes_and_never_answers_fails() {
        // The kernel takes connections and what is sent on them; nobody reads it.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut config = Config::new(format!("http://{address}").parse().expect("a URL"));
        // Without TLS no authority is needed; the machine's own may be missing.
        config.root_cert = Some(Vec::new());
        let namespaces: Api<Namespace> = Api::all(watching(&config).expect("a client"));
        let started = Instant::now();
        let begun = timeout(SILENCE_MAX * 2, namespaces.watch(&WatchParams::default(), "1")).await;
        assert!(begun.expect("it does not wait for ever").is_err());
        assert!(started.elapsed() >= SILENCE_MAX, "a quiet watch may take as long");
    }
}
