//! Where the leader can be asked. That it cannot be is no reason not to schedule: it tries again beside everything else,
//! and says where once it listens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use service_kit::tls;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::desk::Desk;
use super::server::{self, Endpoint};
use crate::fence;

/// What is between two tries to listen, and between two tries to say where.
const RETRY_PACE: Duration = Duration::from_secs(10);

/// See the module.
pub struct Door {
    /// What is listened on.
    pub listen: SocketAddr,
    /// What others call it, if it is not the same.
    pub advertised: Option<String>,
    /// For who asks, and for where.
    pub client: Client,
    /// What is asked.
    pub desk: Arc<Desk>,
    /// Ends everything.
    pub stop: CancellationToken,
}

impl Door {
    /// Opens it now, if that is possible. Without an endpoint it is for [`Door::open_later`].
    pub async fn open_now(&self) -> Option<Endpoint> {
        let opened = self.open().await;
        let warn = |error: &tls::Error| {
            warn!(error = error as &dyn std::error::Error, "Nobody can ask why or when: trying again.");
        };
        opened.inspect_err(warn).ok()
    }

    /// Tries until it is open, and then until it is known where; ends when another process leads.
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
            match fence::advertise(&self.client, epoch, endpoint).await {
                Ok(()) => {
                    return info!(address = endpoint.address, "Published where the leader can be asked.");
                }
                Err(fence::Error::Outrun) => return,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    warn!(error, "Cannot publish where the leader can be asked: trying again.");
                }
            }
            tokio::time::sleep(RETRY_PACE).await;
        }
    }

    async fn open(&self) -> Result<Endpoint, tls::Error> {
        let (advertised, client) = (self.advertised.clone(), self.client.clone());
        server::serve(self.listen, advertised, client, Arc::clone(&self.desk), self.stop.clone()).await
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::Arc;

    use api_types::names::{LEADER_ADDRESS_ANNOTATION, LEADER_CERTIFICATE_ANNOTATION};
    use http::{Method, Request, Response};
    use kube::Client;
    use serde_json::{Value, json};
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    use super::Door;

    /// An API server with an epoch, which tells what is written to it.
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

    #[tokio::test(start_paused = true)]
    async fn who_cannot_listen_leads_all_the_same_and_says_where_once_it_can() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let listen = taken.local_addr().expect("an address");
        let (client, mut written) = client(3);
        let stop = CancellationToken::new();
        let door = Door { listen, advertised: None, client, desk: Arc::default(), stop: stop.clone() };
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
        let (listen, stop) = ((Ipv4Addr::LOCALHOST, 0).into(), CancellationToken::new());
        let door = Door { listen, advertised: None, client, desk: Arc::default(), stop: stop.clone() };
        door.open_later(3).await;
        assert!(written.try_recv().is_err());
        stop.cancel();
    }
}
