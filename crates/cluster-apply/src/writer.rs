//! Makes the writes that are pending, a bounded number at a time, in the background: what is common to all objects of
//! which only the latest value matters. What is written, and how soon, is the [`Paced`] value's affair.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::JoinSet;

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
    ended: Notify,
}

impl<K, V> Writer<K, V>
where
    K: Ord + Clone + Send + 'static,
    V: Paced + Send + 'static,
{
    /// Starts writing with `write`, at most `in_flight_max` at a time, until a write was fenced.
    pub fn start<W, F>(in_flight_max: usize, fenced: Fenced, write: W) -> Self
    where
        W: Fn(K, V) -> F + Send + 'static,
        F: Future<Output = Done> + Send + 'static,
    {
        let shared = Arc::new(Shared {
            pending: Mutex::new(Pending::default()),
            submitted: Notify::new(),
            ended: Notify::new(),
        });
        tokio::spawn(run(Arc::clone(&shared), in_flight_max, fenced, write));
        Self(shared)
    }

    /// Changes what is pending, and wakes up whoever writes it.
    pub fn change<T>(&self, change: impl FnOnce(&mut Pending<K, V>, Instant) -> T) -> T {
        let changed = change(&mut self.0.lock(), Instant::now());
        self.0.submitted.notify_one();
        changed
    }

    /// Completes with what `find` finds, looked for now and after every write that ended or was taken back.
    pub async fn until<T>(&self, find: impl Fn(&Pending<K, V>) -> Option<T>) -> T {
        loop {
            // Registered before the look, so that no end in between is missed.
            let ended = self.0.ended.notified();
            if let Some(found) = find(&self.0.lock()) {
                return found;
            }
            ended.await;
        }
    }

    /// Lets all who wait in [`Writer::until`] look again.
    pub fn look_again(&self) {
        self.0.ended.notify_waiters();
    }
}

impl<K, V> Shared<K, V> {
    fn lock(&self) -> MutexGuard<'_, Pending<K, V>> {
        // Nothing panics while it holds the lock; if it did, the queue would still be usable.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run<K, V, W, F>(shared: Arc<Shared<K, V>>, in_flight_max: usize, fenced: Fenced, write: W)
where
    K: Ord + Clone + Send + 'static,
    V: Paced + Send + 'static,
    W: Fn(K, V) -> F,
    F: Future<Output = Done> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    while !fenced.is_fenced() {
        let free = in_flight_max.saturating_sub(tasks.len());
        let due = shared.lock().take_due(Instant::now(), free);
        for (key, value) in due {
            let written = write(key.clone(), value);
            tasks.spawn(async move { (key, written.await) });
        }
        let next = shared.lock().next_due().filter(|_| tasks.len() < in_flight_max);
        tokio::select! {
            () = shared.submitted.notified() => {}
            () = until(next) => {}
            Some(Ok((key, done))) = tasks.join_next() => {
                shared.lock().done(&key, done, Instant::now());
                shared.ended.notify_waiters();
            }
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
