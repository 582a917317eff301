//! The meter: writes the use of pods and nodes into the ledger, to the second, whichever process dies
//! meanwhile.
//!
//! ```text
//!   watch pods, nodes ─► observe (pure) ┬► state (pure): joined records, what the ledger may not have
//!   watch our claims ─► machine (pure) ─┘    │ flush, twice a second at most
//!   watch runs ─► lost (pure) ────────────►  ├─► Ledger::record_lost: work that attempts lost
//!   watch price sheets ─► prices (pure) ──►  ├─► Ledger::record ─► Ledger::post
//!   watch queues ─► queues (pure) ────────►  ├─► finalizer: pods whose end is recorded may go
//!                                            └─► spend: Queue.status.spend
//! ```
//!
//! Nothing waits for the meter: watches pass on their events and go on, also while the database is away. No use
//! is lost when this process dies: pods of Runs carry a finalizer until their end is recorded, and everything
//! else is read again from the objects. Two meters at once are harmless, because records are joined and
//! accounts are locked.

pub mod finalizer;
mod flush;
pub mod lost;
pub mod machine;
pub mod metrics;
pub mod observe;
pub mod prices;
pub mod queues;
pub mod spend;
pub mod state;
mod watching;

use std::sync::Arc;

use store::Ledger;
use tokio_util::sync::CancellationToken;

pub use self::watching::Meter;

impl Meter {
    /// Watches and writes until `stop` is cancelled.
    pub async fn run(self: Arc<Self>, client: kube::Client, ledger: Ledger, stop: CancellationToken) {
        let watches = async {
            tokio::join!(
                self.watch_nodes(&client),
                self.watch_claims(&client),
                self.watch_queues(&client),
                self.watch_sheets(&client)
            );
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = watches => {}
            () = flush::run(&self, &client, &ledger) => {}
        }
    }
}
