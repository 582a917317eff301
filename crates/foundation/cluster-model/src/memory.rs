//! What a planner remembers of a state from plan to plan. It goes where the state goes, so it is never taken for what is
//! known of another one; the model does not look into it.

use std::any::Any;
use std::fmt;

/// Room for one thing.
#[derive(Default)]
pub struct Memory(Option<Box<dyn Any + Send + Sync>>);

impl Memory {
    /// Takes what was put there, if it is of the type.
    pub fn take<T: Any>(&mut self) -> Option<T> {
        self.0.take().and_then(|thing| thing.downcast().ok()).map(|thing| *thing)
    }

    /// Puts something there, in place of what was there.
    pub fn put<T: Any + Send + Sync>(&mut self, thing: T) {
        self.0 = Some(Box::new(thing));
    }
}

impl Clone for Memory {
    /// Empty: a copy of a state goes its own way, and a planner can do without.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}
