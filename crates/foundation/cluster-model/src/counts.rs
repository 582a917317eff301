//! How many of each: a short list while they are few, a tree when they are many.

use std::collections::BTreeMap;

/// A list this long is searched and shifted within a few cache lines.
const LIST_MAX: usize = 256;

/// Counts of things; none is zero.
#[derive(Clone, Debug)]
pub(crate) struct Counts<T> {
    list: Vec<(T, u32)>,
    tree: BTreeMap<T, u32>,
}

impl<T> Default for Counts<T> {
    fn default() -> Self {
        Self { list: Vec::new(), tree: BTreeMap::new() }
    }
}

impl<T: Ord + Copy> Counts<T> {
    pub fn add(&mut self, item: T) {
        if !self.tree.is_empty() {
            *self.tree.entry(item).or_default() += 1;
            return;
        }
        match self.list.binary_search_by(|(other, _)| other.cmp(&item)) {
            Ok(index) => self.list[index].1 += 1,
            Err(index) => {
                self.list.insert(index, (item, 1));
                if self.list.len() > LIST_MAX {
                    self.tree.extend(self.list.drain(..));
                }
            }
        }
    }

    /// Takes back one that was added.
    pub fn remove(&mut self, item: T) {
        if let Some(count) = self.tree.get_mut(&item) {
            *count -= 1;
            if *count == 0 {
                self.tree.remove(&item);
            }
            // Half as many, so that a list that just became a tree does not become a list again at once.
            if self.tree.len() <= LIST_MAX / 2 {
                self.list.extend(std::mem::take(&mut self.tree));
            }
        } else if let Ok(index) = self.list.binary_search_by(|(other, _)| other.cmp(&item)) {
            self.list[index].1 -= 1;
            if self.list[index].1 == 0 {
                self.list.remove(index);
            }
        }
    }

    pub fn first(&self) -> Option<T> {
        self.iter().next().map(|(item, _)| item)
    }

    /// In the order of the items.
    pub fn iter(&self) -> impl Iterator<Item = (T, u32)> {
        self.list.iter().copied().chain(self.tree.iter().map(|(item, count)| (*item, *count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_counted_alike() {
        let (mut counts, mut plain) = (Counts::default(), BTreeMap::<u32, u32>::new());
        let mut number = 1u32;
        for round in 0..20_000u32 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let item = (number >> 8) % 600;
            // It grows for the first half, and shrinks after.
            if plain.contains_key(&item) && (round > 10_000 || number >> 30 == 0) {
                counts.remove(item);
                let count = plain.get_mut(&item).unwrap();
                *count -= 1;
                if *count == 0 {
                    plain.remove(&item);
                }
            } else if round <= 10_000 {
                counts.add(item);
                *plain.entry(item).or_default() += 1;
            }
            if round % 100 == 0 {
                let found: Vec<_> = counts.iter().collect();
                assert_eq!(found, plain.clone().into_iter().collect::<Vec<_>>());
                assert_eq!(counts.first(), plain.first_key_value().map(|(item, _)| *item));
            }
        }
        assert!(plain.len() < LIST_MAX, "it was a list, a tree and a list again");
    }
}
