//! Server-sent events: what changes in the cache, told to every open page.
//!
//! ```text
//!   watch ─► ClusterCache ─► Changes ──every 250 ms──► Batch ──broadcast──┬─► stream: wants? may? ─► HTTP body
//!            (one per kind)   a set      publish()     each view once     ├─► stream …
//!                             of names   one task      as JSON            └─► stream …
//! ```
//!
//! One change is looked up and serialised once, however many pages are open. A stream that does not keep up, and
//! everyone when too much changes at once, is told to `reload` instead; nothing here grows with what is not read.
//!
//! It never sends what the caller may not see at that moment: each event is held against the caller's rights, which
//! Kubernetes is asked for anew every few seconds.

pub mod batch;
pub mod changes;
pub mod filter;
pub mod node_event;
pub mod rights;
pub mod slots;
pub mod stream;

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use self::batch::Batch;
use self::slots::Slots;
use crate::access::authorization::{Access, Authorizer};
use crate::access::expiring_cache::ExpiringCache;
use crate::access::identity::{Fingerprint, Identity};
use crate::cache::cluster_cache::ClusterCache;
use crate::http::problem::ApiError;

/// Changes of one object within this time are one event. People do not see the difference, and a gang of 1,000
/// members that starts is some events and not 1,000.
const COALESCE: Duration = Duration::from_millis(250);
/// The most changes in one batch; others wait for the next. So at most 2,000 events in a second, of ~0.6 KB each.
const BATCH_MAX: usize = 500;
/// Batches that wait for the slowest stream: 64 × 500 × ~0.6 KB = 19 MB at the most, and 16 s in which it may catch up,
/// or Kubernetes answer what its caller may see.
const BATCHES_MAX: usize = 64;
/// That a caller may not see something is asked again after this. Longer than [`Authorizer`] remembers, because most
/// callers may not see most namespaces: 500 callers × 50 busy namespaces would be 2,500 questions in a second. A right
/// that was given is thus seen in an open stream a minute later; one that was taken away counts as in any request.
const REFUSAL_LIFETIME: Duration = Duration::from_mins(1);
/// Refusals at one time: 1,000 streams × 64 namespaces and queues, ~200 bytes each = 13 MB.
const REFUSALS_MAX: usize = 65_536;
/// Locks for questions that are being asked: streams of one user ask the same at the same moment, and one question is
/// enough. Different questions share a lock by chance only.
const ASKING_LOCKS: usize = 256;

/// The streams, and what they are told.
pub struct Events {
    batches: broadcast::Sender<Arc<Batch>>,
    slots: Arc<Slots>,
    refusals: Mutex<ExpiringCache<(Fingerprint, Access), ()>>,
    asking: Vec<tokio::sync::Mutex<()>>,
    stop: CancellationToken,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            batches: broadcast::Sender::new(BATCHES_MAX),
            slots: Arc::default(),
            refusals: Mutex::new(ExpiringCache::new(REFUSALS_MAX, REFUSAL_LIFETIME)),
            asking: (0..ASKING_LOCKS).map(|_| tokio::sync::Mutex::default()).collect(),
            stop: CancellationToken::new(),
        }
    }
}

impl Events {
    /// Tells the streams what changes in `cache`, for as long as it is polled.
    pub async fn publish(&self, cache: &ClusterCache) {
        loop {
            cache.changes().some().await;
            tokio::time::sleep(COALESCE).await;
            let taken = cache.changes().take(BATCH_MAX);
            // Whoever subscribes after this reads a cache that has these changes already.
            if self.batches.receiver_count() > 0 {
                // It fails only if the last stream has just ended.
                let _ = self.batches.send(Arc::new(Batch::read(&taken, cache)));
            }
        }
    }

    /// Ends every stream, because the process ends.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// What is being counted.
    pub fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// Whether the caller may; refusals are remembered for longer than [`Authorizer`] does.
    async fn allows(
        &self,
        authorizer: &Authorizer,
        identity: &Identity,
        access: Access,
    ) -> Result<bool, ApiError> {
        let key = (identity.fingerprint(), access);
        let refusals = || self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals().get(&key, Instant::now()).is_some() {
            return Ok(false);
        }
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&key);
        let lock = usize::try_from(hash % self.asking.len() as u64).expect("below the number of locks");
        let _asking = self.asking[lock].lock().await;
        if refusals().get(&key, Instant::now()).is_some() {
            return Ok(false);
        }
        let asked = Instant::now();
        // It remembers what it was told, so whoever waited for the lock is answered at once.
        let allowed = authorizer.allows(identity, &key.1).await?;
        if !allowed {
            refusals().insert(key, (), asked);
        }
        Ok(allowed)
    }
}

#[cfg(test)]
mod tests;
