//! `/healthz`, `/readyz` and `/metrics`, on loopback unless told otherwise. No other route, and nothing secret.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Whether the process does its work, and if not, a sentence that says why. Clones share the state.
#[derive(Clone, Debug)]
pub struct Readiness(watch::Sender<Option<String>>);

impl Readiness {
    /// Not ready yet, and why.
    pub fn starting(why: &str) -> Self {
        Self(watch::Sender::new(Some(why.to_owned())))
    }

    /// Says that the process does its work.
    pub fn ready(&self) {
        self.0.send_replace(None);
    }

    /// Says why the process does not do its work.
    pub fn not_ready(&self, why: &str) {
        self.0.send_replace(Some(why.to_owned()));
    }

    /// Whether the process does its work.
    pub fn is_ready(&self) -> bool {
        self.0.borrow().is_none()
    }
}

/// Why health is not served.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for health checks")]
pub struct Error {
    address: SocketAddr,
    #[source]
    source: std::io::Error,
}

/// Serves until `stop` is cancelled; returns the address, with the port that was picked for port 0.
pub async fn serve(
    address: SocketAddr,
    readiness: Readiness,
    registry: Arc<Registry>,
    stop: CancellationToken,
) -> Result<SocketAddr, Error> {
    let fail = |source| Error { address, source };
    let listener = tokio::net::TcpListener::bind(address).await.map_err(fail)?;
    let bound = listener.local_addr().map_err(fail)?;
    info!(address = %bound, "Serving health and metrics.");
    tokio::spawn(async move {
        let server =
            axum::serve(listener, router(readiness, registry)).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = server.await {
            warn!(%error, "Stopped serving health and metrics.");
        }
    });
    Ok(bound)
}

/// The three routes, for a binary that serves them together with its own.
pub fn router(readiness: Readiness, registry: Arc<Registry>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(readiness)
        .merge(Router::new().route("/metrics", get(metrics)).with_state(registry))
}

async fn ready(State(readiness): State<Readiness>) -> Response {
    match readiness.0.borrow().as_deref() {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => {
            ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
                .into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::Readiness;

    #[test]
    fn readiness_is_shared_by_clones() {
        let readiness = Readiness::starting("waits for the lease");
        let clone = readiness.clone();
        assert!(!clone.is_ready());
        readiness.ready();
        assert!(clone.is_ready());
        clone.not_ready("lost the lease");
        assert!(!readiness.is_ready());
    }
}
