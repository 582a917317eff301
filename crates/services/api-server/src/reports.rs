//! Reports of members, written into the progress of their run: the only writes that this server makes as
//! itself.
//!
//! ```text
//!   POST …/reports ─► pod-bound token ─► a member of this run? ─► check ─► writer ─► Run.status.progress ─► 202
//!                       401                  403                   422      │ one write per run and second;
//!                                                                           └ later reports go with the next write
//! ```
//!
//! A report is answered with 202 only after it is written. Otherwise the member sends it again.

pub mod check;
pub mod reporter;
pub mod writer;

mod record;
#[cfg(test)]
mod router_tests;

use std::sync::Arc;

use api_types::names::REPORT_AUDIENCE;
use kube::Client;
use tokio::sync::Semaphore;

use crate::access::authentication::Authenticator;
use crate::cache::cluster_cache::ClusterCache;
use writer::Writer;

/// Concurrent reports, counted apart from people's requests so that neither blocks the other. 10,000 runs that
/// report every 5 s are 2,000 in a second; with 20 ms for a write, 40 at one time.
const REPORTS_AT_ONCE: usize = 256;
/// The largest report: a range has some 100 bytes, and there are at most 64.
pub const REPORT_BYTES_MAX: usize = 16 * 1024;

/// The state of the route for reports.
pub struct Reports {
    /// Authenticates the reporting pod.
    pub authenticator: Authenticator,
    /// Writes the reports.
    pub writer: Arc<Writer>,
    /// Bounds concurrent reports.
    pub requests: Semaphore,
}

impl Reports {
    /// Asks and writes with this client, as this server.
    pub fn new(client: Client, cache: Arc<ClusterCache>) -> Self {
        Self {
            authenticator: Authenticator::for_audience(client.clone(), REPORT_AUDIENCE),
            writer: Arc::new(Writer::new(client, cache)),
            requests: Semaphore::new(REPORTS_AT_ONCE),
        }
    }
}
