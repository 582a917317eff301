//! Makes pending writes in the background, a bounded number at a time, for objects of which only
//! the latest value matters. The [`Paced`] value decides how soon.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use crate::apart::apart;
use crate::pending::{Done, Paced, Pending};
use crate::writes::Fenced;

/// The queue of one kind of write. Clones share it.
pub(crate) struct Writer<K, V>(Arc<Shared<K, V>>);

impl<K, V> Clone for Writer<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Shared<K, V> {
    pending: Mutex<Pending<K, V>>,
    submitted: Notify,
    /// Tasks that wait for a write to end, by its key: thousands may wait, each for another key.
    waiters: Mutex<BTreeMap<K, Arc<Notify>>>,
    stop: CancellationToken,
    /// The one task that writes.
    task: TaskTracker,
}

/// What ends a writer.
pub(crate) struct Ends {
    /// A write was fenced …
    pub fenced: Fenced,
    /// … or the writer is told to stop.
    pub stop: CancellationToken,
    /// A write that is under way then is executed within this time, or never.
    pub settled_after: Duration,
}

impl<K, V> Writer<K, V>
where
    K: Ord + Clone + Debug + Send + Sync + 'static,
    V: Paced + Send + 'static,
{
    /// Starts writing with `write`, at most `in_flight_max` at a time.
    pub fn start<W, F>(in_flight_max: usize, ends: Ends, write: W) -> Self
    where
        W: Fn(K, V) -> F + Send + 'static,
        F: Future<Output = Done> + Send + 'static,
    {
        let shared = Arc::new(Shared {
            pending: Mutex::new(Pending::default()),
            submitted: Notify::new(),
            waiters: Mutex::new(BTreeMap::new()),
            stop: ends.stop.clone(),
            task: TaskTracker::new(),
        });
        shared.task.spawn(run(Arc::clone(&shared), in_flight_max, ends, write));
        shared.task.close();
        Self(shared)
    }

    /// Begins no further pending write, and waits until those in flight have ended or their time is
    /// up.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        self.0.task.wait().await;
    }

    /// Changes the pending writes, and wakes the writing task.
    pub fn change<T>(&self, change: impl FnOnce(&mut Pending<K, V>, Instant) -> T) -> T {
        let changed = change(&mut self.0.lock(), now());
        self.0.submitted.notify_one();
        changed
    }

    /// Completes with what `find` finds about `key`. It looks now, and whenever a write of that key
    /// ends or is taken back.
    pub async fn until<T>(&self, key: &K, find: impl Fn(&Pending<K, V>) -> Option<T>) -> T {
        loop {
            if let Some(found) = find(&self.0.lock()) {
                return found;
            }
            let waiter;
            let ended = {
                let mut waiters = lock(&self.0.waiters);
                waiter = Arc::clone(waiters.entry(key.clone()).or_default());
                waiter.notified()
            };
            // Once more now that it is listed, so that no end in between is missed.
            if let Some(found) = find(&self.0.lock()) {
                self.0.look_again(key);
                return found;
            }
            ended.await;
        }
    }

    /// Makes the tasks that wait for `key` in [`Writer::until`] look again.
    pub fn look_again(&self, key: &K) {
        self.0.look_again(key);
    }
}

impl<K: Ord + Clone, V: Paced> Shared<K, V> {
    /// A write has ended.
    fn note_done(&self, key: &K, done: Done) {
        self.lock().done(key, done, now());
        self.look_again(key);
    }
}

impl<K: Ord, V> Shared<K, V> {
    fn lock(&self) -> MutexGuard<'_, Pending<K, V>> {
        lock(&self.pending)
    }

    fn look_again(&self, key: &K) {
        let waiter = lock(&self.waiters).remove(key);
        if let Some(waiter) = waiter {
            waiter.notify_waiters();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds the lock; if it did, what is behind it would still be usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run<K, V, W, F>(shared: Arc<Shared<K, V>>, in_flight_max: usize, ends: Ends, write: W)
where
    K: Ord + Clone + Debug + Send + Sync + 'static,
    V: Paced + Send + 'static,
    W: Fn(K, V) -> F,
    F: Future<Output = Done> + Send + 'static,
{
    let mut under_way = FuturesUnordered::new();
    while !ends.fenced.is_fenced() && !ends.stop.is_cancelled() {
        let free = in_flight_max.saturating_sub(under_way.len());
        let due = shared.lock().take_due(now(), free);
        for (key, value) in due {
            let written = write(key.clone(), value);
            under_way.push(async move {
                // A write that panics is tried again, like one that failed.
                let done = apart(&key, written).await.unwrap_or(Done::Failed);
                (key, done)
            });
        }
        let next = shared.lock().next_due().filter(|_| under_way.len() < in_flight_max);
        tokio::select! {
            () = ends.stop.cancelled() => {}
            () = shared.submitted.notified() => {}
            () = until(next) => {}
            Some((key, done)) = under_way.next() => shared.note_done(&key, done),
        }
    }
    let in_flight = async {
        while let Some((key, done)) = under_way.next().await {
            shared.note_done(&key, done);
        }
    };
    let drained = tokio::time::timeout(ends.settled_after, in_flight).await;
    if drained.is_err() {
        debug!(
            unanswered = under_way.len(),
            "Stopped with writes unanswered; the server has given them up by now."
        );
    }
}

/// Tokio's clock, which tests move themselves.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::{Done, Ends, Paced, Writer};
    use crate::pending::Pace;
    use crate::writes::Fenced;

    const IN_FLIGHT_MAX: usize = 4;
    const SETTLED_AFTER: Duration = Duration::from_secs(5);

    #[derive(Clone, PartialEq)]
    struct Word;

    impl Paced for Word {
        fn pace(&self, _: &Self) -> Option<Pace> {
            Some(Pace::NOW)
        }

        fn is_last(&self) -> bool {
            false
        }
    }

    /// A writer with 20,000 pending writes that each take `write`, and a count of those that were
    /// begun.
    fn busy_writer(write: Duration) -> (Writer<u32, Word>, Arc<AtomicUsize>) {
        let begun = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&begun);
        let (fenced, stop) = (Fenced::default(), CancellationToken::new());
        let ends = Ends { fenced, stop, settled_after: SETTLED_AFTER };
        let writer = Writer::start(IN_FLIGHT_MAX, ends, move |_: u32, _: Word| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(write).await;
                Done::Written
            }
        });
        writer.change(|pending, now| {
            for key in 0..20_000 {
                pending.submit(key, Word, now);
            }
        });
        (writer, begun)
    }

    #[tokio::test(start_paused = true)]
    async fn with_thousands_of_writes_pending_it_stops_in_the_time_of_one_and_begins_no_other() {
        let write = Duration::from_secs(1);
        for (write, at_most) in [(write, write), (Duration::from_hours(1), SETTLED_AFTER)] {
            let (writer, begun) = busy_writer(write);
            tokio::time::sleep(Duration::from_millis(1)).await;
            let asked = Instant::now();
            writer.stop().await;
            // The clock of tests goes in milliseconds.
            assert!(asked.elapsed() <= at_most + Duration::from_millis(1), "{:?}", asked.elapsed());
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert_eq!(begun.load(Ordering::SeqCst), IN_FLIGHT_MAX);
        }
    }

    #[tokio::test]
    async fn a_write_that_panics_is_tried_again_and_holds_up_no_other() {
        let tries = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&tries);
        let ends =
            Ends { fenced: Fenced::default(), stop: CancellationToken::new(), settled_after: SETTLED_AFTER };
        let writer = Writer::start(IN_FLIGHT_MAX, ends, move |key: usize, _: Word| {
            let first = key == 0 && count.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                assert!(!first, "a panic in the first write of key 0");
                Done::Written
            }
        });
        // As many as may be in flight, so that nothing else wakes the writer.
        writer.change(|pending, now| (0..IN_FLIGHT_MAX).for_each(|key| pending.submit(key, Word, now)));
        let all_written = async {
            for key in 0..IN_FLIGHT_MAX {
                writer
                    .until(&key, |pending| pending.latest(&key).filter(|(_, written)| *written).map(drop))
                    .await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), all_written).await.expect("all are written");
        assert_eq!(tries.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_write_under_way_learns_its_end_while_it_stops() {
        let (writer, _) = busy_writer(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let waits = writer.clone();
        let ended = async move { waits.until(&0, |pending| (!pending.is_in_flight(&0)).then_some(())).await };
        let waiting = tokio::spawn(ended);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!waiting.is_finished());
        writer.stop().await;
        tokio::time::timeout(SETTLED_AFTER, waiting).await.expect("in time").expect("no panic");
    }
}
