//! Writes that wait, at most one per object: the latest wins. Pure: the clock is an argument.
//!
//! ```text
//!   submit ─► wanted ──due──► in flight ──done──► written
//!                ▲                │ failed: wanted again, later
//!                └────────────────┘
//!   forget: nothing more is written, and the end of a write in flight is ignored
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A value that says how soon a change of it is worth a write.
pub trait Paced: Clone + PartialEq {
    /// How soon `self` may follow `old`; `None` if it is not worth a write at all.
    fn pace(&self, old: &Self) -> Option<Pace>;

    /// Whether the object can be forgotten once this was written.
    fn is_last(&self) -> bool;
}

/// How soon a change is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The least time since the write before.
    pub wait: Duration,
    /// Whether it waits behind every write that does not yield.
    pub yields: bool,
}

impl Pace {
    /// At once, and before every write that yields.
    pub const NOW: Self = Self { wait: Duration::ZERO, yields: false };
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is written.
    Written,
    /// There is no object to write to, or it is refused for good: forget it.
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
    /// First the keys that yield to nothing, then those that yield to them.
    due: [BTreeSet<(Instant, K)>; 2],
}

#[derive(Debug)]
struct Entry<V> {
    wanted: Option<Wanted<V>>,
    in_flight: Option<V>,
    /// `None` also after a failed write: the object's content is not known then.
    written: Option<(V, Instant)>,
    failures: u32,
    retry_at: Option<Instant>,
    /// The object was forgotten while a write was in flight: that write no longer matters.
    forgotten: bool,
}

#[derive(Debug)]
struct Wanted<V> {
    value: V,
    due: Instant,
    yields: bool,
}

impl<V> Default for Entry<V> {
    fn default() -> Self {
        Self { wanted: None, in_flight: None, written: None, failures: 0, retry_at: None, forgotten: false }
    }
}

impl<K, V> Default for Pending<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), due: [BTreeSet::new(), BTreeSet::new()] }
    }
}

impl<K: Ord + Clone, V: Paced> Pending<K, V> {
    /// Asks for `value` to be written, now or when its pace allows; replaces an earlier request.
    pub fn submit(&mut self, key: K, value: V, now: Instant) {
        self.unwant(&key);
        let entry = self.entries.entry(key.clone()).or_default();
        let pace = match (&entry.in_flight, &entry.written) {
            (Some(sent), _) if !entry.forgotten => {
                value.pace(sent).map(|pace| (now + pace.wait, pace.yields))
            }
            (None, Some((written, at))) => {
                value.pace(written).map(|pace| ((*at + pace.wait).max(now), pace.yields))
            }
            _ => Some((now, false)),
        };
        if let Some((due, yields)) = pace {
            let due = entry.retry_at.map_or(due, |at| due.max(at));
            self.want(key, Wanted { value, due, yields });
        }
    }

    /// Like [`Pending::submit`], but only if something was requested or written before.
    pub fn submit_if_known(&mut self, key: &K, value: V, now: Instant) {
        let Some(entry) = self.entries.get(key) else { return };
        let untouched = entry.in_flight.is_none() && entry.written.is_none() && entry.failures == 0;
        if untouched && value.is_last() {
            // Nothing was written yet, so there is nothing to take back.
            self.forget(key);
        } else {
            self.submit(key.clone(), value, now);
        }
    }

    /// Writes nothing more to the object, and forgets what was written.
    pub fn forget(&mut self, key: &K) {
        self.unwant(key);
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.in_flight.is_none() {
            self.entries.remove(key);
        } else {
            *entry = Entry { in_flight: entry.in_flight.take(), forgotten: true, ..Entry::default() };
        }
    }

    /// Forgets written values with no newer request, if `is_over` says so, given the value and the
    /// time of the write.
    pub fn forget_written(&mut self, is_over: impl Fn(&V, Instant) -> bool) {
        self.entries.retain(|_, entry| {
            let is_busy = entry.wanted.is_some() || entry.in_flight.is_some();
            is_busy || !entry.written.as_ref().is_some_and(|(value, at)| is_over(value, *at))
        });
    }

    /// Takes at most `count` values that are due; each is in flight until [`Pending::done`]. Never two of one key.
    /// Looks at no more than `count` entries and those in flight.
    pub fn take_due(&mut self, now: Instant, count: usize) -> Vec<(K, V)> {
        let mut taken = Vec::new();
        for due in &mut self.due {
            let is_free = |key: &K| self.entries.get(key).is_some_and(|entry| entry.in_flight.is_none());
            let ready: Vec<_> = due
                .iter()
                .take_while(|(at, _)| *at <= now)
                .filter(|(_, key)| is_free(key))
                .take(count - taken.len())
                .cloned()
                .collect();
            for slot in ready {
                due.remove(&slot);
                let (_, key) = slot;
                let Some(entry) = self.entries.get_mut(&key) else { continue };
                if let Some(Wanted { value, .. }) = entry.wanted.take() {
                    entry.in_flight = Some(value.clone());
                    taken.push((key, value));
                }
            }
        }
        taken
    }

    /// Notes how the write in flight ended.
    pub fn done(&mut self, key: &K, done: Done, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(value) = entry.in_flight.take() else { return };
        let done = if std::mem::take(&mut entry.forgotten) { Done::Dropped } else { done };
        entry.written = None;
        if done == Done::Failed {
            entry.failures = entry.failures.saturating_add(1);
            let retry_at = now + RETRY_MAX.min(RETRY_MIN * 2_u32.pow(entry.failures.min(7) - 1));
            entry.retry_at = Some(retry_at);
            let value = self.unwant(key).unwrap_or(value);
            self.want(key.clone(), Wanted { value, due: retry_at, yields: false });
            return;
        }
        (entry.failures, entry.retry_at) = (0, None);
        if done == Done::Written && !value.is_last() {
            entry.written = Some((value, now));
        } else if entry.wanted.is_none() {
            self.entries.remove(key);
        }
    }

    /// When to look again.
    pub fn next_due(&self) -> Option<Instant> {
        let is_free = |key: &K| self.entries.get(key).is_some_and(|entry| entry.in_flight.is_none());
        let firsts = self.due.iter().filter_map(|due| due.iter().find(|(_, key)| is_free(key)));
        firsts.map(|(due, _)| *due).min()
    }

    /// Whether a write to the object is in flight.
    pub fn is_in_flight(&self, key: &K) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.in_flight.is_some())
    }

    /// The latest value requested for an object, and whether it is written; `None` for an unknown
    /// object.
    pub fn latest(&self, key: &K) -> Option<(&V, bool)> {
        let entry = self.entries.get(key)?;
        let wanted = entry.wanted.as_ref().map(|wanted| &wanted.value);
        let sent = entry.in_flight.as_ref().filter(|_| !entry.forgotten);
        match wanted.or(sent) {
            Some(value) => Some((value, false)),
            None => entry.written.as_ref().map(|(value, _)| (value, true)),
        }
    }

    /// How many objects are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no object is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn want(&mut self, key: K, wanted: Wanted<V>) {
        self.due[usize::from(wanted.yields)].insert((wanted.due, key.clone()));
        self.entries.entry(key).or_default().wanted = Some(wanted);
    }

    fn unwant(&mut self, key: &K) -> Option<V> {
        let wanted = self.entries.get_mut(key)?.wanted.take()?;
        self.due[usize::from(wanted.yields)].remove(&(wanted.due, key.clone()));
        Some(wanted.value)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Done, Pace, Paced, Pending};

    /// A code and a number: another code is written at once, another number after 5 s; code 0 is the last.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Reason(u8, u8);

    impl Paced for Reason {
        fn pace(&self, old: &Self) -> Option<Pace> {
            match (self.0 == old.0, self.1 == old.1) {
                (true, true) => None,
                (true, false) => Some(Pace { wait: Duration::from_secs(5), yields: true }),
                (false, _) => Some(Pace::NOW),
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
    fn what_is_forgotten_after_a_while_is_written_again() {
        let mut bench = Bench::new();
        bench.submit(0, Reason(1, 10));
        bench.write(0);
        bench.pending.forget_written(|_, _| false);
        bench.submit(14, Reason(1, 10));
        assert_eq!(bench.write(14), [], "it is known to be written");
        let (value, at) = (Reason(1, 10), bench.at(0));
        bench.pending.forget_written(|written, written_at| (*written, written_at) == (value, at));
        bench.submit(15, Reason(1, 10));
        assert_eq!(bench.take(15), [Reason(1, 10)]);
        bench.pending.forget_written(|_, _| true);
        assert!(bench.pending.is_in_flight(&"run"));
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
    fn a_write_that_failed_is_taken_back_because_it_may_have_happened() {
        let mut bench = Bench::new();
        bench.submit(0, Reason(1, 10));
        bench.take(0);
        bench.pending.done(&"run", Done::Failed, bench.at(0));
        bench.pending.submit_if_known(&"run", Reason(0, 0), bench.at(0));
        assert_eq!(bench.write(1), [Reason(0, 0)]);
        assert!(bench.pending.is_empty());
    }

    #[test]
    fn what_a_failed_write_left_behind_is_not_known_so_the_value_before_it_is_written_again() {
        let mut bench = Bench::new();
        bench.submit(0, Reason(1, 10));
        bench.write(0);
        bench.submit(1, Reason(2, 10));
        bench.take(1);
        bench.pending.done(&"run", Done::Failed, bench.at(1));
        bench.submit(1, Reason(1, 10));
        assert_eq!(bench.write(2), [Reason(1, 10)]);
    }

    #[test]
    fn asking_again_does_not_shorten_the_wait_after_a_failure() {
        let mut bench = Bench::new();
        bench.submit(0, Reason(1, 10));
        bench.take(0);
        bench.pending.done(&"run", Done::Failed, bench.at(0));
        bench.submit(0, Reason(1, 11));
        assert_eq!(bench.take(0), []);
        assert_eq!(bench.take(1), [Reason(1, 11)]);
    }

    #[test]
    fn a_forgotten_object_is_not_written_again_however_its_write_ended() {
        for done in [Done::Failed, Done::Written, Done::Dropped] {
            let mut bench = Bench::new();
            bench.submit(0, Reason(1, 10));
            bench.take(0);
            bench.pending.forget(&"run");
            assert!(bench.pending.is_in_flight(&"run"));
            bench.pending.done(&"run", done, bench.at(0));
            assert!(bench.pending.is_empty(), "{done:?}");
            assert_eq!(bench.pending.next_due(), None, "{done:?}");
        }
    }

    #[test]
    fn an_object_that_came_back_gets_its_value_even_if_it_is_the_one_in_flight() {
        for done in [Done::Failed, Done::Written, Done::Dropped] {
            let mut bench = Bench::new();
            bench.submit(0, Reason(1, 10));
            bench.take(0);
            bench.pending.forget(&"run");
            bench.submit(0, Reason(1, 10));
            assert_eq!(bench.take(0), [], "one at a time");
            bench.pending.done(&"run", done, bench.at(0));
            assert_eq!(bench.write(0), [Reason(1, 10)], "{done:?}");
            bench.submit(1, Reason(1, 10));
            assert_eq!(bench.write(60), [], "{done:?}");
        }
    }

    #[test]
    fn transitions_go_before_numbers_that_have_waited_longer() {
        let mut bench = Bench::new();
        for key in ["a", "b"] {
            bench.pending.submit(key, Reason(1, 10), bench.at(0));
        }
        for (key, _) in bench.pending.take_due(bench.at(0), 10) {
            bench.pending.done(&key, Done::Written, bench.at(0));
        }
        bench.pending.submit("a", Reason(1, 11), bench.at(1));
        bench.pending.submit("b", Reason(2, 10), bench.at(8));
        bench.pending.submit("c", Reason(1, 10), bench.at(9));
        assert_eq!(bench.pending.take_due(bench.at(10), 0), []);
        assert_eq!(bench.pending.take_due(bench.at(10), 2), [("b", Reason(2, 10)), ("c", Reason(1, 10))]);
        assert_eq!(bench.pending.take_due(bench.at(10), 2), [("a", Reason(1, 11))]);
    }
}
