//! The listener at which the leader answers questions. Scheduling does not depend on it: it retries in the
//! background, and publishes its address once it listens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cluster_apply::Writes;
use cluster_apply::fence::{self, Endpoint};
use kube::Client;
use service_kit::tls;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::desk::Desk;
use super::server;

/// The wait between two tries to listen, and between two tries to publish the address.
const RETRY_PACE: Duration = Duration::from_secs(10);

/// The listener at which the leader answers questions.
pub struct Door {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The address as others reach it, if it differs.
    pub advertised: Option<String>,
    /// Authenticates callers, and reads the epoch.
    pub reads: Client,
    /// Publishes the address.
    pub writes: Writes,
    /// The desk with the answers.
    pub desk: Arc<Desk>,
    /// Ends everything.
    pub stop: CancellationToken,
}

impl Door {
    /// Listens now, if that is possible; otherwise [`Door::open_later`] does it.
    pub async fn open_now(&self) -> Option<Endpoint> {
        let opened = self.open().await;
        let warn = |error: &tls::Error| {
            warn!(error = error as &dyn std::error::Error, "Cannot listen for questions; trying again.");
        };
        opened.inspect_err(warn).ok()
    }

    /// Retries until it listens, and then until its address is published; ends when another process leads.
    pub async fn open_later(self, epoch: i64) {
        let opened = async {
            loop {
                tokio::time::sleep(RETRY_PACE).await;
                if let Ok(endpoint) = self.open().await {
                    break self.tell_where(epoch, &endpoint).await;
                }
            }
        };
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = opened => {}
        }
    }

    async fn tell_where(&self, epoch: i64, endpoint: &Endpoint) {
        loop {
            match fence::advertise(&self.reads, &self.writes, epoch, endpoint).await {
                Ok(()) => {
                    return info!(address = endpoint.address, "Published the leader's address.");
                }
                Err(fence::Error::Outrun) => return,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    warn!(error, "Cannot publish the leader's address; trying again.");
                }
            }
            tokio::time::sleep(RETRY_PACE).await;
        }
    }

    async fn open(&self) -> Result<Endpoint, tls::Error> {
        let (advertised, client) = (self.advertised.clone(), self.reads.clone());
        server::serve(self.listen, advertised, client, Arc::clone(&self.desk), self.stop.clone()).await
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};
    use std::sync::Arc;
    use std::time::Duration;

    use api_types::names::{LEADER_ADDRESS_ANNOTATION, LEADER_CERTIFICATE_ANNOTATION};
    use cluster_apply::Writes;
    use http::{Method, Request, Response};
    use kube::Client;
    use serde_json::{Value, json};
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    use super::Door;

    /// An API server with an epoch, and a channel with the writes that it gets.
    fn client(epoch: i64) -> (Client, mpsc::UnboundedReceiver<Value>) {
        let (sender, written) = mpsc::unbounded_channel();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let sender = sender.clone();
            async move {
                let object = json!({
                    "apiVersion": "warpyard.dev/v1alpha1", "kind": "SchedulerEpoch",
                    "metadata": { "name": "warpyard-scheduler", "resourceVersion": "7" },
                    "spec": { "epoch": epoch, "holder": "pod" },
                });
                if *request.method() == Method::PUT {
                    let body = request.into_body().collect_bytes().await.expect("a body");
                    sender.send(serde_json::from_slice(&body).expect("an object")).expect("somebody listens");
                }
                let body = kube::client::Body::from(object.to_string().into_bytes());
                Ok::<_, Infallible>(Response::new(body))
            }
        });
        (Client::new(service, "default"), written)
    }

    fn door(listen: SocketAddr, reads: Client, stop: &CancellationToken) -> Door {
        let writes = Writes::new(reads.clone(), Duration::from_secs(5));
        Door { listen, advertised: None, reads, writes, desk: Arc::default(), stop: stop.clone() }
    }

    #[tokio::test(start_paused = true)]
    async fn who_cannot_listen_leads_all_the_same_and_says_where_once_it_can() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let listen = taken.local_addr().expect("an address");
        let (client, mut written) = client(3);
        let stop = CancellationToken::new();
        let door = door(listen, client, &stop);
        assert!(door.open_now().await.is_none(), "the port is taken");
        let later = tokio::spawn(door.open_later(3));
        drop(taken);
        let object = written.recv().await.expect("it says where");
        assert_eq!(
            (&object["spec"]["epoch"], &object["metadata"]["resourceVersion"]),
            (&json!(3), &json!("7"))
        );
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations[LEADER_ADDRESS_ANNOTATION], json!(listen.to_string()));
        assert!(
            annotations[LEADER_CERTIFICATE_ANNOTATION]
                .as_str()
                .is_some_and(|it| it.starts_with("-----BEGIN"))
        );
        later.await.expect("no panic");
        stop.cancel();
    }

    #[tokio::test(start_paused = true)]
    async fn who_leads_no_more_does_not_say_where() {
        let (client, mut written) = client(4);
        let (listen, stop) = (SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), CancellationToken::new());
        let door = door(listen, client, &stop);
        door.open_later(3).await;
        assert!(written.try_recv().is_err());
        stop.cancel();
    }
}
