//! What a planner remembers of a state from plan to plan. It is kept with the state, so it is never taken for
//! knowledge of another state. The model does not look into it.

use std::any::Any;
use std::fmt;

/// A slot for one value.
#[derive(Default)]
pub struct PlannerMemory(Option<Box<dyn Any + Send + Sync>>);

impl PlannerMemory {
    /// Takes the value out, if it is of this type.
    pub fn take<T: Any>(&mut self) -> Option<T> {
        self.0.take().and_then(|thing| thing.downcast().ok()).map(|thing| *thing)
    }

    /// Puts a value in, in place of the one before.
    pub fn put<T: Any + Send + Sync>(&mut self, thing: T) {
        self.0 = Some(Box::new(thing));
    }
}

impl Clone for PlannerMemory {
    /// Empty: a copy of a state goes its own way, and a planner can work without memory.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for PlannerMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}
