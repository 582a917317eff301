//! Server-sent events: sends changes of the cache to every open page.
//!
//! ```text
//!   watch ─► ClusterCache ─► Changes ──every 250 ms──► Batch ──broadcast──┬─► stream: wants? may? ─► HTTP body
//!            (one per kind)   a set      publish()     each view once     ├─► stream …
//!                             of names   one task      as JSON            └─► stream …
//! ```
//!
//! One change is looked up and serialised once, however many pages are open. A stream that does not keep up is
//! told to `reload`; so are all streams if too much changes at once. No memory here grows with unread events.
//!
//! It never sends what the caller may not see at that moment: each event is checked against the caller's
//! rights, which are read from Kubernetes every few seconds.

pub mod batch;
pub mod changes;
pub mod filter;
mod frame;
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

/// Changes of one object within this time are one event. People do not see the difference, and the start of a
/// gang of 1,000 members is a few events instead of 1,000.
const COALESCE: Duration = Duration::from_millis(250);
/// The most changes in one batch; others wait for the next. So at most 2,000 events in a second, of ~0.6 KB each.
const BATCH_MAX: usize = 500;
/// Batches that wait for the slowest stream: 64 × 500 × ~0.6 KB = 19 MB at the most. It has 16 s to catch up,
/// or for Kubernetes to answer about its caller's rights.
const BATCHES_MAX: usize = 64;
/// A refusal is checked again after this. It is longer than the cache of [`Authorizer`], because most callers
/// may not see most namespaces: 500 callers × 50 busy namespaces would be 2,500 questions in a second. So an
/// open stream notices a new right within a minute, and a revoked right as soon as any request does.
const REFUSAL_LIFETIME: Duration = Duration::from_mins(1);
/// Refusals at one time: 1,000 streams × 64 namespaces and queues, ~200 bytes each = 13 MB.
const REFUSALS_MAX: usize = 65_536;
/// Locks for questions under way: streams of one user ask the same at the same moment, and one question is
/// enough. Different questions rarely share a lock.
const ASKING_LOCKS: usize = 256;

/// The streams and their events.
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
    /// Sends changes of `cache` to the streams, for as long as it is polled.
    pub async fn publish(&self, cache: &ClusterCache) {
        loop {
            cache.changes().some().await;
            tokio::time::sleep(COALESCE).await;
            let taken = cache.changes().take(BATCH_MAX);
            // A stream that opens after this reads a cache that already has these changes.
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

    /// The counter of open streams.
    pub fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// Whether the caller may; refusals are cached for longer than by [`Authorizer`].
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
        // It caches the answer, so requests that waited for the lock are answered at once.
        let allowed = authorizer.allows(identity, &key.1).await?;
        if !allowed {
            refusals().insert(key, (), asked);
        }
        Ok(allowed)
    }
}

#[cfg(test)]
mod tests;
