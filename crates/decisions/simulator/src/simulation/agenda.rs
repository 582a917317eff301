//! What will happen and when, apart from arrivals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trace_format::Event;

/// Something that is due. In the order in which it happens within a second: jobs that end leave room for jobs that
/// come.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Due {
    /// A job has done its work, if it is still in that version of its life.
    End { job: u32, version: u32 },
    /// A job that gives way is gone.
    Gone { job: u32, version: u32 },
    /// A job saves its state.
    Checkpoint { job: u32, version: u32 },
    /// Something happens to a node.
    Event(Box<Event>),
}

impl Due {
    fn rank(&self) -> u8 {
        match self {
            Self::End { .. } => 0,
            Self::Gone { .. } => 1,
            Self::Checkpoint { .. } => 2,
            Self::Event(_) => 3,
        }
    }
}

/// By time, then rank, then in the order in which it was noted.
#[derive(Default)]
pub(super) struct Agenda {
    order: BinaryHeap<Reverse<(i64, u8, u64, Slot)>>,
    noted: u64,
    /// Events are large and few; the rest is small and many.
    events: Vec<Option<Box<Event>>>,
    /// What is on the agenda apart from checkpoints, which never change anything by themselves.
    moving: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    End(u32, u32),
    Gone(u32, u32),
    Checkpoint(u32, u32),
    Event(usize),
}

impl Agenda {
    pub fn note(&mut self, at: i64, due: Due) {
        let rank = due.rank();
        let slot = match due {
            Due::End { job, version } => Slot::End(job, version),
            Due::Gone { job, version } => Slot::Gone(job, version),
            Due::Checkpoint { job, version } => Slot::Checkpoint(job, version),
            Due::Event(event) => {
                self.events.push(Some(event));
                Slot::Event(self.events.len() - 1)
            }
        };
        self.moving += usize::from(is_moving(slot));
        self.order.push(Reverse((at, rank, self.noted, slot)));
        self.noted += 1;
    }

    pub fn next_at(&self) -> Option<i64> {
        self.order.peek().map(|Reverse((at, ..))| *at)
    }

    /// Whether nothing but checkpoints is left.
    pub fn is_idle(&self) -> bool {
        self.moving == 0
    }

    /// The next that is due by then.
    pub fn pop(&mut self, by: i64) -> Option<Due> {
        if self.next_at()? > by {
            return None;
        }
        let Reverse((_, _, _, slot)) = self.order.pop()?;
        self.moving -= usize::from(is_moving(slot));
        Some(match slot {
            Slot::End(job, version) => Due::End { job, version },
            Slot::Gone(job, version) => Due::Gone { job, version },
            Slot::Checkpoint(job, version) => Due::Checkpoint { job, version },
            Slot::Event(index) => Due::Event(self.events[index].take().expect("each event is due once")),
        })
    }
}

fn is_moving(slot: Slot) -> bool {
    !matches!(slot, Slot::Checkpoint(..))
}
