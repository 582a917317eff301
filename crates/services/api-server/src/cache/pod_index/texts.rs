//! Texts that many pods share.

use std::collections::HashSet;
use std::sync::Arc;

/// Texts that many pods share. There are few of them.
#[derive(Debug, Default)]
pub(super) struct Texts {
    pub(super) shared: HashSet<Arc<str>>,
    /// At this size, texts that no pod has any more are removed.
    next_sweep: usize,
}

impl Texts {
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.shared.get(text) {
            return Arc::clone(shared);
        }
        if self.shared.len() >= self.next_sweep {
            self.shared.retain(|text| Arc::strong_count(text) > 1);
            // A sweep costs its size, so each may be followed by as many additions: constant cost for each.
            self.next_sweep = (self.shared.len() * 2).max(1_024);
        }
        let shared: Arc<str> = text.into();
        self.shared.insert(Arc::clone(&shared));
        shared
    }
}
