//! Which moment of a what-if came after which, and whether anything was given back in between.
//!
//! A gang that found no nodes finds none later either, as long as others have only taken nodes since. Forks make
//! moments a tree: what was seen on a branch that was undone says nothing about another branch.

/// A moment of a what-if.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkMoment {
    pub(crate) steps: usize,
    pub(crate) stamp: u64,
}

/// The steps of forks that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    pub(crate) steps: Vec<Step>,
    stamps: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    pub(crate) stamp: u64,
    /// How many steps up to this one gave something back.
    pub(crate) given_back: u64,
}

impl Steps {
    pub fn push(&mut self, gives_back: bool) {
        self.stamps += 1;
        let given = self.last().given_back + u64::from(gives_back);
        self.steps.push(Step { stamp: self.stamps, given_back: given });
    }

    pub fn truncate(&mut self, len: usize) {
        self.steps.truncate(len);
    }

    pub fn last(&self) -> Step {
        self.steps.last().copied().unwrap_or_default()
    }
}
