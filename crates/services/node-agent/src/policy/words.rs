//! The words about one topic: those on the Node now, and those it should have.

/// The words that the Node should have about one topic.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub taint: Option<&'static str>,
    pub annotation: Option<String>,
    pub condition: Option<Condition>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

/// The words on the Node now about one topic.
#[derive(Clone, Copy)]
pub(super) struct Said<'a> {
    pub taint: Option<&'a str>,
    pub annotation: Option<&'a str>,
}

impl Said<'_> {
    /// Whether others set the taint: we never set it without the annotation.
    pub fn is_by_others(&self) -> bool {
        self.taint.is_some() && self.annotation.is_none()
    }
}
