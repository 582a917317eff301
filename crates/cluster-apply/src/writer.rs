//! Makes the writes that are pending, a bounded number at a time, in the background: what is common to all objects of
//! which only the latest value matters. What is written, and how soon, is the [`Paced`] value's affair.

use std::collections::BTreeMap;
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
    /// Those who wait for a write to end, by what is written: thousands may wait, each for another one.
    waiters: Mutex<BTreeMap<K, Arc<Notify>>>,
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
            waiters: Mutex::new(BTreeMap::new()),
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

    /// Completes with what `find` finds about `key`, looked for now and whenever a write of it ended or was taken back.
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

    /// Lets those who wait for `key` in [`Writer::until`] look again.
    pub fn look_again(&self, key: &K) {
        self.0.look_again(key);
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
                shared.look_again(&key);
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
