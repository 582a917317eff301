//! The tree of queues, for the bill. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api_types::queue::default_queue;
use api_types::{Queue, Spend};
use costing::{Amount, Day};
use jiff::civil::Date;
use kube::runtime::watcher::Event;
use store::ledger::QueueSpend;

/// All queues, by name.
#[derive(Debug, Default)]
pub struct Queues {
    known: BTreeMap<String, Known>,
    /// The incomplete list; it replaces `known` when it is complete.
    listing: BTreeMap<String, Known>,
    /// Which queues list a namespace.
    by_namespace: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, PartialEq)]
struct Known {
    parent: Option<String>,
    namespaces: Vec<String>,
    spend: Option<Spend>,
}

impl Queues {
    /// Takes in a watch event.
    pub fn apply(&mut self, event: Event<Queue>) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(queue) => drop(insert(&mut self.listing, queue)),
            Event::InitDone => self.known = std::mem::take(&mut self.listing),
            Event::Apply(queue) => {
                let namespaces = queue.spec.namespaces.clone();
                let before = insert(&mut self.known, queue);
                // Nearly every event is a status write of the scheduler.
                if before.is_some_and(|before| before.namespaces == namespaces) {
                    return;
                }
            }
            Event::Delete(queue) => {
                drop(self.known.remove(queue.metadata.name.as_deref().unwrap_or_default()));
            }
        }
        self.by_namespace.clear();
        for (name, queue) in &self.known {
            for namespace in &queue.namespaces {
                self.by_namespace.entry(namespace.clone()).or_default().insert(name.clone());
            }
        }
    }

    /// The queue of pods without a queue label, by the scheduler's rule: the one that lists their namespace.
    pub fn default_of(&self, namespace: &str) -> Option<&str> {
        default_queue(self.by_namespace.get(namespace)?)
    }

    /// The spends to write into statuses of queues: in the order of names, each including the queues below it.
    /// A queue that never had a spend gets none.
    pub fn news(&self, spends: &[QueueSpend], currency: &str, month: Date) -> Vec<(String, Spend)> {
        let sums = self.with_children(spends);
        let mut news = Vec::new();
        for (name, queue) in &self.known {
            let sum = sums.get(name.as_str());
            if sum.is_none() && queue.spend.is_none() {
                continue;
            }
            let (amount, gpu_seconds) = sum.copied().unwrap_or_default();
            let now_spent = Spend {
                month: format!("{:04}-{:02}", month.year(), month.month()),
                amount: amount.to_decimal().round_dp(2).to_string(),
                currency: currency.to_owned(),
                gpu_hours: hours(gpu_seconds),
            };
            if queue.spend.as_ref() != Some(&now_spent) {
                news.push((name.clone(), now_spent));
            }
        }
        news
    }

    /// Notes that the status of a queue was written.
    pub fn written(&mut self, name: &str, spend: Spend) {
        if let Some(queue) = self.known.get_mut(name) {
            queue.spend = Some(spend);
        }
    }

    /// The spend of each queue including those below it. A deleted queue counts for no queue above it: its
    /// place in the tree is not known any more.
    fn with_children(&self, spends: &[QueueSpend]) -> BTreeMap<&str, (Amount, i64)> {
        let mut sums: BTreeMap<&str, (Amount, i64)> = BTreeMap::new();
        for spend in spends {
            // Parents may form a circle; each queue in it counts once.
            let mut chain: BTreeSet<&str> = BTreeSet::new();
            let mut next = Some(spend.queue.as_str());
            while let Some((known, queue)) = next.and_then(|name| self.known.get_key_value(name)) {
                if !chain.insert(known) {
                    break;
                }
                let sum = sums.entry(known).or_default();
                sum.0 += spend.amount;
                sum.1 += spend.gpu_seconds;
                next = queue.parent.as_deref();
            }
        }
        sums
    }
}

fn insert(queues: &mut BTreeMap<String, Known>, queue: Queue) -> Option<Known> {
    let known = Known {
        parent: queue.spec.parent,
        namespaces: queue.spec.namespaces,
        spend: queue.status.and_then(|status| status.spend),
    };
    queues.insert(queue.metadata.name?, known)
}

/// The first day of the month that a day is in, and the same as a date.
pub fn month_of(day: Day) -> (Day, Date) {
    let seconds = jiff::Timestamp::from_second(day.start().0).unwrap_or_default();
    let date = seconds.to_zoned(jiff::tz::TimeZone::UTC).date();
    (Day(day.0 - i32::from(date.day()) + 1), date.first_of_month())
}

/// GPU seconds as hours with two decimals, rounded down.
fn hours(gpu_seconds: i64) -> String {
    let hundredths = gpu_seconds.div_euclid(36);
    format!("{}.{:02}", hundredths.div_euclid(100), hundredths.rem_euclid(100))
}

#[cfg(test)]
mod tests {
    use api_types::{Queue, QueueSpec};
    use costing::money::UNITS_PER_CURRENCY;
    use costing::{Amount, Moment};
    use kube::runtime::watcher::Event;
    use store::ledger::QueueSpend;

    use super::{Queues, hours, month_of};

    fn queue(name: &str, parent: Option<&str>, namespaces: &[&str]) -> Event<Queue> {
        let spec = QueueSpec {
            parent: parent.map(str::to_owned),
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            ..QueueSpec::default()
        };
        Event::Apply(Queue::new(name, spec))
    }

    fn spent(queue: &str, units: i128, gpu_seconds: i64) -> QueueSpend {
        QueueSpend { queue: queue.to_owned(), amount: Amount(units * UNITS_PER_CURRENCY / 100), gpu_seconds }
    }

    #[test]
    fn a_queue_has_spent_what_those_below_it_have_and_what_is_known_is_not_written_again() {
        let mut queues = Queues::default();
        queues.apply(queue("org", None, &[]));
        queues.apply(queue("nlp", Some("org"), &["nlp"]));
        queues.apply(queue("vision", Some("org"), &["vision"]));
        queues.apply(queue("idle", None, &[]));
        let (_, month) = month_of(Moment(1_794_700_000).day());
        let spent = [spent("nlp", 1234, 7200), spent("org", 100, 36), spent("deleted", 5, 5)];
        let news = queues.news(&spent, "EUR", month);
        let said: Vec<_> = news
            .iter()
            .map(|(name, it)| (name.as_str(), it.amount.as_str(), it.gpu_hours.as_str()))
            .collect();
        assert_eq!(said, [("nlp", "12.34", "2.00"), ("org", "13.34", "2.01")]);
        assert_eq!((news[0].1.month.as_str(), news[0].1.currency.as_str()), ("2026-11", "EUR"));
        for (name, spend) in news {
            queues.written(&name, spend);
        }
        assert_eq!(queues.news(&spent, "EUR", month), []);
        // In a month without spend, the spend of the last one is removed.
        assert_eq!(queues.news(&[], "EUR", month).len(), 2);
    }

    #[test]
    fn queues_in_a_circle_count_once_each() {
        let mut queues = Queues::default();
        queues.apply(queue("a", Some("b"), &[]));
        queues.apply(queue("b", Some("a"), &[]));
        let sums = queues.with_children(&[spent("a", 1, 7)]);
        assert_eq!(sums.values().map(|(_, gpu_seconds)| *gpu_seconds).collect::<Vec<_>>(), [7, 7]);
    }

    #[test]
    fn a_namespaces_queue_is_the_one_that_lists_it() {
        let mut queues = Queues::default();
        queues.apply(queue("a", None, &["one", "two"]));
        queues.apply(queue("b", None, &["two"]));
        assert_eq!(queues.default_of("one"), Some("a"));
        assert_eq!(queues.default_of("two"), None);
        assert_eq!(queues.default_of("three"), None);
    }

    #[test]
    fn hours_have_two_decimals() {
        assert_eq!(
            [hours(0), hours(35), hours(36), hours(3600), hours(360_036)],
            ["0.00", "0.00", "0.01", "1.00", "100.01"]
        );
    }

    #[test]
    fn a_month_begins_on_its_first_day() {
        let day = Moment::of("2026-11-15T23:00:00Z".parse().unwrap()).day();
        let (first, date) = month_of(day);
        assert_eq!(first, Moment::of("2026-11-01T00:00:00Z".parse().unwrap()).day());
        assert_eq!((date.year(), date.month(), date.day()), (2026, 11, 1));
    }
}
