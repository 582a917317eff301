//! A small map whose entries expire and whose size is bounded. The clock is the caller's.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// At most `capacity` entries, each valid for `lifetime`. When it is full, the oldest entry makes room.
#[derive(Debug)]
pub struct ExpiringCache<K, V> {
    capacity: usize,
    lifetime: Duration,
    entries: HashMap<K, (Instant, V)>,
    /// In the order of insertion, which is also the order of expiry because all entries have the same lifetime.
    oldest_first: VecDeque<(Instant, K)>,
}

impl<K: Hash + Eq + Clone, V: Clone> ExpiringCache<K, V> {
    /// An empty cache.
    pub fn new(capacity: usize, lifetime: Duration) -> Self {
        Self { capacity, lifetime, entries: HashMap::new(), oldest_first: VecDeque::new() }
    }

    /// The value, unless it has expired.
    pub fn get(&self, key: &K, now: Instant) -> Option<V> {
        let (inserted, value) = self.entries.get(key)?;
        (now.saturating_duration_since(*inserted) < self.lifetime).then(|| value.clone())
    }

    /// Inserts a value, and removes expired ones.
    pub fn insert(&mut self, key: K, value: V, now: Instant) {
        while let Some((inserted, _)) = self.oldest_first.front() {
            let expired = now.saturating_duration_since(*inserted) >= self.lifetime;
            if !expired && self.oldest_first.len() < self.capacity {
                break;
            }
            self.remove_oldest();
        }
        self.entries.insert(key.clone(), (now, value));
        self.oldest_first.push_back((now, key));
    }

    fn remove_oldest(&mut self) {
        let Some((inserted, key)) = self.oldest_first.pop_front() else { return };
        // If the key was inserted again since, the newer entry stays.
        if self.entries.get(&key).is_some_and(|(at, _)| *at == inserted) {
            self.entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::ExpiringCache;

    #[test]
    fn an_entry_lives_for_its_lifetime_and_not_longer() {
        let start = Instant::now();
        let mut cache = ExpiringCache::new(8, Duration::from_secs(10));
        cache.insert("a", 1, start);
        assert_eq!(cache.get(&"a", start + Duration::from_millis(9_999)), Some(1));
        assert_eq!(cache.get(&"a", start + Duration::from_secs(10)), None);
    }

    #[test]
    fn the_oldest_entry_makes_room_and_the_size_stays_bounded() {
        let start = Instant::now();
        let mut cache = ExpiringCache::new(3, Duration::from_secs(10));
        for key in 0..1_000 {
            cache.insert(key, key, start);
        }
        assert_eq!((cache.entries.len(), cache.oldest_first.len()), (3, 3));
        assert_eq!(cache.get(&996, start), None);
        assert_eq!(cache.get(&999, start), Some(999));
    }

    #[test]
    fn a_renewed_entry_survives_the_expiry_of_its_first_insertion() {
        let start = Instant::now();
        let mut cache = ExpiringCache::new(8, Duration::from_secs(10));
        cache.insert("a", 1, start);
        cache.insert("a", 2, start + Duration::from_secs(5));
        cache.insert("b", 3, start + Duration::from_secs(11));
        assert_eq!(cache.get(&"a", start + Duration::from_secs(12)), Some(2));
    }
}
