//! What could be asked for instead.

use std::fmt;

use cluster_model::{GpuType, Level, QueueName};

/// Something that could be asked for instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestChange {
    /// Members that ask for more GPUs ask for this many.
    FewerGpus {
        /// GPUs of each.
        gpus: i64,
    },
    /// The gang has this many members, the first by index, and starts with all of them.
    FewerMembers {
        /// Members.
        members: u32,
    },
    /// GPUs of another type.
    GpuType {
        /// The type.
        gpu_type: GpuType,
    },
    /// Members that must be together may be further apart: the gang, its groups, its segments.
    Topology {
        /// How far.
        within: Topology,
    },
    /// Another queue that is open to its namespace.
    Queue {
        /// The queue.
        queue: QueueName,
    },
    /// It takes spot nodes.
    Spot,
}

/// What members must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topology {
    /// One domain of a level.
    Domain(Level),
    /// Nothing.
    Anywhere,
}

impl fmt::Display for RequestChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewerGpus { gpus: 1 } => f.write_str("with 1 GPU per member"),
            Self::FewerGpus { gpus } => write!(f, "with {gpus} GPUs per member"),
            Self::FewerMembers { members: 1 } => f.write_str("with 1 member"),
            Self::FewerMembers { members } => write!(f, "with {members} members"),
            Self::GpuType { gpu_type } => write!(f, "with GPUs of type {gpu_type}"),
            Self::Topology { within: Topology::Domain(level) } => {
                write!(f, "within one domain of level {}", level.0)
            }
            Self::Topology { within: Topology::Anywhere } => f.write_str("without a required topology"),
            Self::Queue { queue } => write!(f, "in queue {queue}"),
            Self::Spot => f.write_str("on spot nodes"),
        }
    }
}
