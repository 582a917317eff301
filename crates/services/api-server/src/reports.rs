//! Reports of members into the record of their run: the one thing that this server writes as itself.
//!
//! ```text
//!   POST …/reports ─► pod-bound token ─► a member of this run? ─► check ─► writer ─► Run.status.progress ─► 202
//!                       401                  403                   422      │ one write per run and second;
//!                                                                           └ what comes meanwhile goes with the next
//! ```
//!
//! A report is answered with 202 only after it is written: what was not, the member sends again.

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

/// Reports at one time, apart from people's requests so that neither keeps the other out. 10,000 runs that report every
/// 5 s are 2,000 in a second; with 20 ms for a write, 40 at one time.
const REPORTS_AT_ONCE: usize = 256;
/// The largest report: a range has some 100 bytes, and there are at most 64.
pub const REPORT_BYTES_MAX: usize = 16 * 1024;

/// What the route for reports works with.
pub struct Reports {
    /// Finds out which pod reports.
    pub authenticator: Authenticator,
    /// Writes what they report.
    pub writer: Arc<Writer>,
    /// How many are looked at.
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
