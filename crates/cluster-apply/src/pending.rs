//! What is to be written where, at most once per object, the latest wins. Pure: the clock is an argument.
//!
//! ```text
//!   submit ─► wanted ──due──► in flight ──done──► written
//!                ▲                │ failed: wanted again, later
//!                └────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A value that knows how soon a change of it is worth a write.
pub trait Paced: Clone + PartialEq {
    /// The least time between writing `old` and writing `self`; `None` if that is not worth a write at all.
    fn pace(&self, old: &Self) -> Option<Duration>;

    /// Whether the object can be forgotten once this was written.
    fn is_last(&self) -> bool;
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is written.
    Written,
    /// There is nothing to write it to, or it is refused for good: forget it.
    Dropped,
    /// It may work later.
    Failed,
}

/// The least wait after a failed write; it doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_mins(1);

/// The queue. Its size is bounded by the number of objects: each has one entry.
#[derive(Debug)]
pub struct Pending<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    due: BTreeSet<(Instant, K)>,
}

#[derive(Debug)]
struct Entry<V> {
    wanted: Option<(V, Instant)>,
    in_flight: Option<V>,
    written: Option<(V, Instant)>,
    failures: u32,
}

impl<V> Default for Entry<V> {
    fn default() -> Self {
        Self { wanted: None, in_flight: None, written: None, failures: 0 }
    }
}

impl<K, V> Default for Pending<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), due: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V: Paced> Pending<K, V> {
    /// Asks for `value` to be written, now or when its pace allows; replaces what was asked before.
    pub fn submit(&mut self, key: K, value: V, now: Instant) {
        let entry = self.entries.entry(key.clone()).or_default();
        if let Some((_, due)) = entry.wanted.take() {
            self.due.remove(&(due, key.clone()));
        }
        let due = match (&entry.in_flight, &entry.written) {
            (Some(sent), _) => value.pace(sent).map(|pace| now + pace),
            (None, Some((written, at))) => value.pace(written).map(|pace| (*at + pace).max(now)),
            (None, None) => Some(now),
        };
        if let Some(due) = due {
            entry.wanted = Some((value, due));
            self.due.insert((due, key));
        }
    }

    /// Like [`Pending::submit`], but only if something was asked or written before.
    pub fn submit_if_known(&mut self, key: &K, value: V, now: Instant) {
        let Some(entry) = self.entries.get(key) else { return };
        if entry.in_flight.is_none() && entry.written.is_none() && value.is_last() {
            // Nothing was written yet, so there is nothing to take back.
            self.forget(key);
        } else {
            self.submit(key.clone(), value, now);
        }
    }

    /// Writes nothing more to the object, and forgets what was written.
    pub fn forget(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if let Some((_, due)) = entry.wanted.take() {
            self.due.remove(&(due, key.clone()));
        }
        entry.written = None;
        if entry.in_flight.is_none() {
            self.entries.remove(key);
        }
    }

    /// Takes at most `count` values that are due; each is in flight until [`Pending::done`]. Never two of one key.
    pub fn take_due(&mut self, now: Instant, count: usize) -> Vec<(K, V)> {
        let mut taken = Vec::new();
        let due: Vec<_> = self.due.iter().take_while(|(due, _)| *due <= now).cloned().collect();
        for (at, key) in due {
            if taken.len() == count {
                break;
            }
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            if entry.in_flight.is_some() {
                continue;
            }
            self.due.remove(&(at, key.clone()));
            if let Some((value, _)) = entry.wanted.take() {
                entry.in_flight = Some(value.clone());
                taken.push((key, value));
            }
        }
        taken
    }

    /// Notes how the write in flight ended.
    pub fn done(&mut self, key: &K, done: Done, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(value) = entry.in_flight.take() else { return };
        match done {
            Done::Written => {
                entry.failures = 0;
                let is_last = value.is_last();
                entry.written = (!is_last).then_some((value, now));
            }
            Done::Dropped => entry.written = None,
            Done::Failed => {
                entry.failures = entry.failures.saturating_add(1);
                let wait = RETRY_MAX.min(RETRY_MIN * 2_u32.pow(entry.failures.min(7) - 1));
                let (value, due) = entry.wanted.take().unwrap_or((value, now));
                self.due.remove(&(due, key.clone()));
                entry.wanted = Some((value, now + wait));
                self.due.insert((now + wait, key.clone()));
            }
        }
        if entry.wanted.is_none() && entry.written.is_none() {
            self.entries.remove(key);
        }
    }

    /// When to look again.
    pub fn next_due(&self) -> Option<Instant> {
        self.due
            .iter()
            .find(|(_, key)| self.entries.get(key).is_none_or(|entry| entry.in_flight.is_none()))
            .map(|(due, _)| *due)
    }

    /// Whether a write to the object is in flight.
    pub fn is_in_flight(&self, key: &K) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.in_flight.is_some())
    }

    /// How many objects are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Done, Paced, Pending};

    /// A code and a number: another code is written at once, another number after 5 s; code 0 is the last.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Reason(u8, u8);

    impl Paced for Reason {
        fn pace(&self, old: &Self) -> Option<Duration> {
            match (self.0 == old.0, self.1 == old.1) {
                (true, true) => None,
                (true, false) => Some(Duration::from_secs(5)),
                (false, _) => Some(Duration::ZERO),
            }
        }

        fn is_last(&self) -> bool {
            self.0 == 0
        }
    }

    struct Bench {
        pending: Pending<&'static str, Reason>,
        start: Instant,
    }

    impl Bench {
        fn new() -> Self {
            Self { pending: Pending::default(), start: Instant::now() }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        fn submit(&mut self, seconds: u64, value: Reason) {
            self.pending.submit("run", value, self.at(seconds));
        }

        fn take(&mut self, seconds: u64) -> Vec<Reason> {
            self.pending.take_due(self.at(seconds), 10).into_iter().map(|(_, value)| value).collect()
        }

        fn write(&mut self, seconds: u64) -> Vec<Reason> {
            let taken = self.take(seconds);
            if !taken.is_empty() {
                self.pending.done(&"run", Done::Written, self.at(seconds));
            }
            taken
        }
    }

    #[test]
    fn a_transition_is_written_at_once_and_numbers_at_their_pace() {
        let mut bench = Bench::new();
        bench.submit(0, Reason(1, 10));
        assert_eq!(bench.write(0), [Reason(1, 10)]);
        bench.submit(1, Reason(1, 11));
        assert_eq!(bench.write(1), []);
        assert_eq!(bench.pending.next_due(), Some(bench.at(5)));
        bench.submit(2, Reason(1, 12));
        assert_eq!(bench.write(5), [Reason(1, 12)]);
        bench.submit(6, Reason(2, 12));
        assert_eq!(bench.write(6), [Reason(2, 12)]);
    }

    #[test]
    fn what_went_back_to_the_written_value_is_not_written() {
        let mut bench = Bench::new();
        bench.submit(0, Reason(1, 10));
        bench.write(0);
        bench.submit(1, Reason(1, 11));
        bench.submit(2, Reason(1, 10));
        assert_eq!(bench.write(60), []);
        assert_eq!(bench.pending.next_due(), None);
    }

    #[test]
    fn one_object_has_one_write_in_flight() {
        let mut bench = Bench::new();
        bench.submit(0, Reason(1, 10));
        assert_eq!(bench.take(0), [Reason(1, 10)]);
        bench.submit(0, Reason(2, 10));
        assert_eq!(bench.take(1), []);
        assert_eq!(bench.pending.next_due(), None);
        bench.pending.done(&"run", Done::Written, bench.at(1));
        assert_eq!(bench.take(1), [Reason(2, 10)]);
    }

    #[test]
    fn a_failed_write_is_repeated_later_and_later_with_the_latest_value() {
        let mut bench = Bench::new();
        bench.submit(0, Reason(1, 10));
        bench.take(0);
        bench.pending.done(&"run", Done::Failed, bench.at(0));
        assert_eq!(bench.take(0), []);
        assert_eq!(bench.take(1), [Reason(1, 10)]);
        bench.submit(1, Reason(2, 10));
        bench.pending.done(&"run", Done::Failed, bench.at(1));
        assert_eq!(bench.take(2), []);
        assert_eq!(bench.take(3), [Reason(2, 10)]);
    }

    #[test]
    fn the_last_value_is_written_once_and_the_object_forgotten() {
        let mut bench = Bench::new();
        bench.submit(0, Reason(1, 10));
        bench.write(0);
        bench.pending.submit_if_known(&"run", Reason(0, 0), bench.at(1));
        assert_eq!(bench.write(1), [Reason(0, 0)]);
        assert!(bench.pending.is_empty());
        bench.pending.submit_if_known(&"run", Reason(0, 0), bench.at(2));
        assert_eq!(bench.write(2), []);
    }

    #[test]
    fn what_was_never_written_need_not_be_taken_back() {
        let mut bench = Bench::new();
        bench.submit(0, Reason(1, 10));
        bench.pending.submit_if_known(&"run", Reason(0, 0), bench.at(0));
        assert_eq!(bench.write(0), []);
        assert!(bench.pending.is_empty());
    }

    #[test]
    fn a_forgotten_object_is_not_written_again_even_if_its_write_failed() {
        let mut bench = Bench::new();
        bench.submit(0, Reason(1, 10));
        bench.take(0);
        bench.pending.forget(&"run");
        assert!(bench.pending.is_in_flight(&"run"));
        bench.pending.done(&"run", Done::Dropped, bench.at(0));
        assert!(bench.pending.is_empty());
        assert_eq!(bench.pending.next_due(), None);
    }
}
