//! A vector whose items keep their number for life; numbers of removed items are used again.

#[derive(Clone, Debug)]
pub(crate) struct Slots<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub fn insert(&mut self, item: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.items[slot as usize] = Some(item);
            return slot;
        }
        self.items.push(Some(item));
        u32::try_from(self.items.len() - 1).expect("fewer than 2^32 objects fit in memory")
    }

    pub fn remove(&mut self, slot: u32) -> T {
        self.free.push(slot);
        self.items[slot as usize].take().expect("a slot is removed once")
    }

    pub fn get(&self, slot: u32) -> &T {
        self.items[slot as usize].as_ref().expect("a slot is used only while its item is there")
    }

    pub fn get_mut(&mut self, slot: u32) -> &mut T {
        self.items[slot as usize].as_mut().expect("a slot is used only while its item is there")
    }

    pub fn find(&self, slot: u32) -> Option<&T> {
        self.items.get(slot as usize)?.as_ref()
    }

    pub fn find_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.items.get_mut(slot as usize)?.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0u32..).zip(&self.items).filter_map(|(slot, item)| Some((slot, item.as_ref()?)))
    }
}
