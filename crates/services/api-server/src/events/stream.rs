//! One open page: takes batches, keeps the events that the caller asked for and may see, and writes them.
//!
//! ```text
//!   broadcast ─► wants? ─► may? ─► chunks of 8 KB ─► channel of one ─► HTTP body
//!       └ lagged: reload              ▲ waits while the client does not read
//! ```
//!
//! The task ends with its client, after a quarter of an hour, when the caller's token expires, and with the
//! process. It also ends if the client does not read, so that a slot is never held for longer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::stream;
use jiff::Timestamp;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tracing::debug;

use super::batch::Batch;
use super::filter::Filter;
use super::rights::{Asker, Needs};
use super::slots::Slot;
use crate::access::identity::Identity;
use crate::server::Server;

/// A line is sent this often if nothing happens, so that no proxy takes the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// After this the client must connect and log in anew: a revoked token counts for this long at most.
const LIFETIME_MAX: Duration = Duration::from_mins(15);
/// Streams that were opened together end spread over this time.
const LIFETIME_SPREAD_SECONDS: u64 = 60;
/// A chunk is sent once it has this much. Events have ~0.6 KB; a queue with 256 namespaces, the largest, has 17 KB.
const CHUNK_BYTES: usize = 8 * 1024;

/// The first event: from here on nothing is missed, so the client should fetch its lists now. A client that
/// lost its connection tries again after 3 s.
const HELLO: &[u8] = b"retry: 3000\nevent: hello\ndata: {}\n\n";
const RELOAD: &[u8] = b"event: reload\ndata: {}\n\n";
const COMMENT: &[u8] = b":\n\n";

/// Opens a stream and returns its HTTP body. It is live when this returns.
pub fn open(server: Arc<Server>, identity: Arc<Identity>, filter: Filter, slot: Slot) -> Body {
    let (out, mut chunks) = mpsc::channel(1);
    let lifetime = lifetime(&slot, identity.token_expires_at(), Timestamp::now());
    let batches = server.events().batches.subscribe();
    let stop = server.events().stop.clone();
    let stream = Stream { server, identity, filter, out };
    tokio::spawn(async move {
        // Dropped with the task.
        let _slot = slot;
        let gone = stream.out.clone();
        tokio::select! {
            _ = stream.forward(batches) => {}
            () = gone.closed() => {}
            () = tokio::time::sleep(lifetime) => {}
            () = stop.cancelled() => {}
        }
        debug!(user = stream.identity.username(), "An event stream ended.");
    });
    Body::from_stream(stream::poll_fn(move |context| {
        chunks.poll_recv(context).map(|chunk| chunk.map(Ok::<Bytes, Infallible>))
    }))
}

fn lifetime(slot: &Slot, token_expires_at: Option<Timestamp>, now: Timestamp) -> Duration {
    let most = LIFETIME_MAX.saturating_sub(Duration::from_secs(slot.number % LIFETIME_SPREAD_SECONDS));
    // A time in the past gives a duration of zero.
    let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
    token_expires_at.map_or(most, |at| until(at).min(most))
}

struct Stream {
    server: Arc<Server>,
    identity: Arc<Identity>,
    filter: Filter,
    out: mpsc::Sender<Bytes>,
}

/// The client is gone.
struct Gone;

impl Stream {
    /// Sends events until the client is gone.
    async fn forward(&self, mut batches: broadcast::Receiver<Arc<Batch>>) -> Result<(), Gone> {
        self.send(Bytes::from_static(HELLO)).await?;
        let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = heartbeat.tick() => self.send(Bytes::from_static(COMMENT)).await?,
                batch = batches.recv() => match batch {
                    Ok(batch) => self.send_batch(&batch).await?,
                    Err(RecvError::Lagged(_)) => self.send(Bytes::from_static(RELOAD)).await?,
                    Err(RecvError::Closed) => return Ok(()),
                },
            }
        }
    }

    async fn send_batch(&self, batch: &Batch) -> Result<(), Gone> {
        let needs = Needs::of(batch, &self.filter);
        let (events, authorizer) = (self.server.events(), self.server.authorizer());
        let rights = Asker { events, authorizer, identity: &self.identity }.rights(needs, &self.filter).await;
        // If the caller's rights are not known, the client must fetch anew.
        let reload = batch.reload || rights.is_err();
        let rights = rights.unwrap_or_default();
        let mut chunk = Vec::new();
        for event in batch.events.iter().filter(|event| self.filter.wants(event)) {
            chunk.extend_from_slice(&rights.frame(event, &self.filter).unwrap_or_default());
            if chunk.len() >= CHUNK_BYTES {
                self.send(std::mem::take(&mut chunk).into()).await?;
            }
        }
        if reload {
            chunk.extend_from_slice(RELOAD);
        }
        if chunk.is_empty() { Ok(()) } else { self.send(chunk.into()).await }
    }

    async fn send(&self, chunk: Bytes) -> Result<(), Gone> {
        self.out.send(chunk).await.map_err(|_| Gone)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use jiff::Timestamp;

    use super::{LIFETIME_MAX, lifetime};
    use crate::events::slots::Slots;

    #[test]
    fn a_stream_lasts_a_quarter_of_an_hour_and_no_longer_than_its_token() {
        let slot = Arc::new(Slots::default()).take("alice").expect("there is room");
        let now = Timestamp::from_second(1_000).expect("in range");
        let at = |second| Some(Timestamp::from_second(second).expect("in range"));
        assert_eq!(lifetime(&slot, None, now), LIFETIME_MAX);
        assert_eq!(lifetime(&slot, at(1_060), now), Duration::from_mins(1));
        assert_eq!(lifetime(&slot, at(100_000), now), LIFETIME_MAX);
        assert_eq!(lifetime(&slot, at(999), now), Duration::ZERO);
    }
}
