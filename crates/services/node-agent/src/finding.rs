//! What the sources find.

use api_types::names::{LEAVING_MAINTENANCE, LEAVING_SPOT};
use jiff::{SignedDuration, Timestamp};

/// The longest text of a source that goes on into an object: a line that a person reads.
const TEXT_CHARS_MAX: usize = 160;

/// The cloud says that something will happen to the machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// Whether the machine goes, and why.
    pub kind: NoticeKind,
    /// When.
    pub due: Due,
    /// What, in the cloud's own words, with its cloud before it.
    pub what: String,
}

/// What a notice means for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeKind {
    /// The cloud takes the machine back.
    Spot,
    /// The machine is restarted, moved or retired.
    Maintenance,
    /// Worth a sentence, and no reason to leave: a rebalance recommendation, a live migration, a pause of seconds.
    Advice,
}

impl NoticeKind {
    /// The value of the taint, if the machine goes.
    pub fn taint_value(self) -> Option<&'static str> {
        match self {
            Self::Spot => Some(LEAVING_SPOT),
            Self::Maintenance => Some(LEAVING_MAINTENANCE),
            Self::Advice => None,
        }
    }
}

/// When a notice comes true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// At a time that the cloud names.
    At(Timestamp),
    /// The cloud names no time, but documents how long after the first sight of the notice it waits.
    Within(SignedDuration),
}

/// A GPU that needs somebody's help.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The GPU: its PCI address where that is known, else its UUID or index.
    pub gpu: String,
    /// What is wrong, for a person.
    pub what: String,
    /// What helps.
    pub remedy: Remedy,
    /// Who says so.
    pub origin: Origin,
}

/// What helps a sick GPU, from the least to the most effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// Nothing may run on it, then it is reset.
    ResetGpu,
    /// The machine is restarted.
    RestartNode,
    /// A person looks at the hardware.
    Inspect,
}

/// Where a fault was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// An event: the record of the kernel log with this sequence number, which counts from boot.
    KernelLog(u64),
    /// A state, which DCGM exporter shows for as long as it likes: an Xid until the exporter is restarted.
    Dcgm,
}

/// What sources have found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View<T> {
    /// All findings that stand.
    pub found: Vec<T>,
    /// Whether every source has answered since the agent started. Before that, nothing found means nothing.
    pub complete: bool,
}

/// A source's text as it may go into an object: short, and on one line.
pub fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::{TEXT_CHARS_MAX, line};

    #[test]
    fn texts_become_one_short_line() {
        assert_eq!(line(" a\n\tb\u{7}c  d "), "a b c d");
        assert_eq!(line(&"ä".repeat(1_000)).chars().count(), TEXT_CHARS_MAX);
    }
}
