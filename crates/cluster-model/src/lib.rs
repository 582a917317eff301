//! The cluster as the planner sees it: nodes, pods, gangs and queues.
//!
//! ```text
//!   Change ──► ClusterState::apply ─┬─► nodes   what each has and what is in use of it
//!                                   ├─► pools   nodes alike in GPU type and taints, ordered by what is free
//!                                   ├─► queues  what each holds, its children included
//!                                   └─► gangs   who waits, in the order of planning
//!   ClusterState::fork ──► assume, assume, … ──► drop: everything is as it was
//! ```
//!
//! A change costs O(log n) in the number of nodes and pods, and O(depth) in the tree of queues; nothing is ever
//! rebuilt from a list. The state is the same whatever the order in which changes of different kinds arrived.
//!
//! This crate never decides anything, and never talks to anything: no client, no clock, no randomness.

mod dump;
mod fork;
mod gangs;
mod names;
mod nodes;
mod objects;
pub mod plan;
mod queues;
mod slots;
mod state;

pub use dump::{Dump, NodeDump, QueueDump};
pub use fork::Fork;
pub use gangs::Gang;
pub use names::{GangKey, GpuType, NodeName, PodKey, QueueName};
pub use nodes::{NodeId, NodeState, Pool, PoolKey};
pub use objects::{
    Amounts, Change, Node, Pod, Queue, ResourceName, Resources, Taint, TaintEffect, Toleration,
};
pub use queues::{QUEUE_DEPTH_MAX, QueueChain, QueueUsage};
pub use state::{AssumeError, ClusterState, PodId, PodState};
