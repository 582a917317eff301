//! How many streams are open: bounded, for the process and for each user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;

use crate::http::problem::ApiError;

/// Streams of the process. If a client does not read, its stream holds one chunk of ~8 KB here and up to 16 in
/// its connection: 1,000 × 17 × 8 KB = 136 MB if nobody reads at all. A client that reads holds almost nothing.
const STREAMS_MAX: usize = 1_000;
/// Streams of one user: a page has one, so twenty open pages.
const STREAMS_OF_USER_MAX: usize = 20;

/// Counts the open streams.
#[derive(Debug, Default)]
pub struct Slots {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    opened: u64,
    total: usize,
    by_user: HashMap<String, usize>,
}

/// The right to one stream; it ends when this is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    user: String,
    /// How many streams were opened before.
    pub number: u64,
}

impl Slots {
    /// Takes a slot for this user, if one is free.
    pub fn take(self: &Arc<Self>, user: &str) -> Result<Slot, ApiError> {
        let mut open = self.open();
        if open.by_user.get(user).is_some_and(|streams| *streams >= STREAMS_OF_USER_MAX) {
            let detail = format!("`{user}` has {STREAMS_OF_USER_MAX} event streams open, which is the limit");
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyStreams", detail)
                .hint("close pages of the portal that you do not need"));
        }
        if open.total >= STREAMS_MAX {
            return Err(ApiError::unavailable("Busy", "too many event streams at one time"));
        }
        let number = open.opened;
        open.opened += 1;
        open.total += 1;
        *open.by_user.entry(user.to_owned()).or_default() += 1;
        Ok(Slot { slots: Arc::clone(self), user: user.to_owned(), number })
    }

    /// How many streams are open.
    pub fn count(&self) -> usize {
        self.open().total
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // It is changed by total functions only; a poisoned lock holds a usable one.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.slots.open();
        open.total -= 1;
        if let Some(streams) = open.by_user.get_mut(&self.user) {
            *streams -= 1;
            if *streams == 0 {
                open.by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{STREAMS_MAX, STREAMS_OF_USER_MAX, Slots};

    #[test]
    fn one_user_cannot_take_every_stream_and_gets_one_back_for_each_that_ends() {
        let slots = Arc::new(Slots::default());
        let mut mine: Vec<_> =
            (0..STREAMS_OF_USER_MAX).map(|_| slots.take("alice").expect("there is room")).collect();
        let refused = slots.take("alice").expect_err("too many").0;
        assert_eq!((refused.status, refused.code.as_str()), (429, "TooManyStreams"));
        assert!(refused.hint.is_some());
        slots.take("bob").expect("bob has none yet");
        mine.pop();
        slots.take("alice").expect("one ended");
        drop(mine);
        assert_eq!(slots.count(), 0);
        assert!(slots.open().by_user.is_empty());
    }

    #[test]
    fn the_process_keeps_so_many_and_no_more() {
        let slots = Arc::new(Slots::default());
        let all: Vec<_> = (0..STREAMS_MAX)
            .map(|number| {
                slots.take(&format!("user-{}", number / STREAMS_OF_USER_MAX)).expect("there is room")
            })
            .collect();
        assert_eq!(slots.take("other").expect_err("full").0.status, 503);
        drop(all);
        slots.take("other").expect("all ended");
    }
}
