//! What handlers share.

use std::sync::Arc;

use kube::Client;
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

use crate::access::authentication::Authenticator;
use crate::access::authorization::Authorizer;
use crate::cache::cluster_cache::ClusterCache;
use crate::cost::ledger::{self, Ledger};
use crate::events::Events;
use crate::http::problem::ApiError;
use crate::leader::Leader;
use crate::metrics::Metrics;
use crate::reports::Reports;
use crate::session::store::Sessions;

/// Requests at one time; more are turned away at once. 512 × 256 KiB of body = 128 MiB at most.
const REQUESTS_AT_ONCE: usize = 512;
/// Answers with logs at one time: 8 × 4 MiB; as JSON, with very short lines, five times that: 160 MiB at most.
const LOGS_AT_ONCE: usize = 8;

/// What handlers share.
pub struct Server {
    client: Client,
    cache: Arc<ClusterCache>,
    authenticator: Authenticator,
    authorizer: Authorizer,
    events: Events,
    default_image: String,
    requests: Semaphore,
    logs: Semaphore,
    metrics: Metrics,
    sessions: Sessions,
    behind_tls: bool,
    ledger: Option<Ledger>,
    leader: Leader,
    reports: Reports,
}

impl Server {
    /// A server that talks to Kubernetes with `client` and reads from `cache`, which the caller keeps current.
    pub fn new(client: Client, cache: Arc<ClusterCache>, default_image: String, metrics: Metrics) -> Self {
        Self {
            authenticator: Authenticator::new(client.clone()),
            authorizer: Authorizer::new(client.clone()),
            events: Events::default(),
            leader: Leader::new(client.clone()),
            reports: Reports::new(client.clone(), Arc::clone(&cache)),
            client,
            cache,
            default_image,
            requests: Semaphore::new(REQUESTS_AT_ONCE),
            logs: Semaphore::new(LOGS_AT_ONCE),
            metrics,
            sessions: Sessions::default(),
            behind_tls: false,
            ledger: None,
        }
    }

    /// Sets whether browsers connect over TLS, and should never connect without it.
    #[must_use]
    pub fn behind_tls(mut self, behind_tls: bool) -> Self {
        self.behind_tls = behind_tls;
        self
    }

    /// The portal's sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The server's metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The same server, with a ledger to read from if there is one.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Option<Ledger>) -> Self {
        self.ledger = ledger;
        self
    }

    /// The ledger, if one was configured.
    pub fn ledger(&self) -> Result<&Ledger, ApiError> {
        self.ledger.as_ref().ok_or_else(ledger::not_configured)
    }

    /// The scheduler's leader.
    pub fn leader(&self) -> &Leader {
        &self.leader
    }

    /// The reports of members.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// Finds out the caller's identity.
    pub fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// Finds out the callers' rights.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// The streams of changes.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// A permit for one more answer with logs, for as long as it is kept.
    pub fn try_read_logs(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        let busy = |_| ApiError::unavailable("Busy", "too many logs are read at one time");
        self.logs.try_acquire().map_err(busy)
    }

    /// The client for writes, which are made as the caller.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The image for job files that name none.
    pub fn default_image(&self) -> &str {
        &self.default_image
    }

    /// A permit for one more request, for as long as it is kept.
    pub fn try_serve(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.requests.try_acquire()
    }

    /// Whether browsers connect over TLS.
    pub fn is_behind_tls(&self) -> bool {
        self.behind_tls
    }

    /// The cache, once it is complete: an incomplete list would look complete.
    pub fn cache(&self) -> Result<&ClusterCache, ApiError> {
        if self.cache.is_complete() {
            Ok(&self.cache)
        } else {
            Err(ApiError::unavailable("NotReady", "the server is starting and does not know all runs yet"))
        }
    }
}
