//! The findings of the sources.

use api_types::names::{LEAVING_MAINTENANCE, LEAVING_SPOT};
use jiff::{SignedDuration, Timestamp};

/// The longest text of a source in an object: one line for a person.
const TEXT_CHARS_MAX: usize = 160;

/// The cloud announces an event for the machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// Whether the machine leaves, and why.
    pub kind: NoticeKind,
    /// When.
    pub due: Due,
    /// The event in the cloud's own words, after the cloud's name.
    pub what: String,
}

/// What a notice means for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeKind {
    /// The cloud takes the machine back.
    Spot,
    /// The machine is restarted, moved or retired.
    Maintenance,
    /// Shown to people, but no reason to leave: a rebalance recommendation, a live migration, a pause of
    /// seconds.
    Advice,
}

impl NoticeKind {
    /// The value of the taint, if the machine leaves.
    pub fn taint_value(self) -> Option<&'static str> {
        match self {
            Self::Spot => Some(LEAVING_SPOT),
            Self::Maintenance => Some(LEAVING_MAINTENANCE),
            Self::Advice => None,
        }
    }
}

/// When the announced event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// At a time that the cloud names.
    At(Timestamp),
    /// The cloud names no time, but documents how long after the notice the event happens.
    Within(SignedDuration),
}

/// A GPU that needs help.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuFault {
    /// The GPU: its PCI address where that is known, else its UUID or index.
    pub gpu: String,
    /// What is wrong, for a person.
    pub what: String,
    /// The remedy.
    pub remedy: Remedy,
    /// The origin of the finding.
    pub origin: Origin,
}

/// The remedy for a sick GPU, from the least to the most effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// The GPU is reset while nothing runs on it.
    ResetGpu,
    /// The machine is restarted.
    RestartNode,
    /// A person inspects the hardware.
    Inspect,
}

/// Where a fault was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// An event: the record of the kernel log with this sequence number, which counts from boot.
    KernelLog(u64),
    /// A state that DCGM exporter may show for long: an Xid until the exporter is restarted.
    Dcgm,
}

/// The findings of sources so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View<T> {
    /// All present findings.
    pub found: Vec<T>,
    /// Whether every source has answered since the agent started. Before that, the absence of findings has no
    /// meaning.
    pub complete: bool,
}

/// A source's text in a form for objects: short, and on one line.
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
