//! Why an attempt ends, and what that means for its Run.

/// Why an attempt ends although none of its members failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interruption {
    /// The reason, one CamelCase word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

impl Interruption {
    /// An interruption with this reason and sentence.
    pub fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }
}

/// What the end of an attempt means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Another attempt, for free.
    Interrupted(Interruption),
    /// Another attempt if a retry is left.
    Failed(Interruption),
    /// No further attempt, by the Run's own rules or its time limit.
    Final(Interruption),
}
