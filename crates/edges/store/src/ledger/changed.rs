//! A record before and after a change.

/// A record that says more than before.
pub(crate) struct Changed<T> {
    pub(crate) before: Option<T>,
    pub(crate) now: T,
    /// The number of its events, with this one.
    pub(crate) events: i64,
}
