//! The cluster as the planner sees it: nodes, pods, gangs and queues.
//!
//! ```text
//!   Change ──► apply ─┬─► nodes ───► classes   nodes alike in all but name and place, ordered by what is free
//!   Plan ────► commit │         └──► domains   zone, block, rack, …: nodes per class, free GPUs, marks
//!   time ────► advance├─► queues   what each holds, used and saved, its children included
//!                     ├─► gangs    who waits, in the order of planning and in classes alike; who runs, who is held
//!                     └─► history, workload    what is learned from what ends and arrives
//!   fork ──► assume, evict, hold, land, release, … ──► drop: everything is as it was
//!                                                  └─► keep: handed to the fork before, or to the state
//! ```
//!
//! What a change costs, with n nodes (or pods, or gangs), d levels of topology and q queues above:
//!
//! | change | cost |
//! |---|---|
//! | a pod comes, goes, is assumed, held, evicted, or any of it undone | O((1 + d) log n + q) |
//! | a node comes, goes or changes | O(d log n + its pods); O(log² n) on average for its place in the order |
//! | a queue changes | O(log n + q); O(pods of a namespace) where that joins or leaves it; O(q · queues) for a ring |
//! | time goes on | O(queues whose use changed since) |
//! | a label is the first or last that a pod selects by, or gets more than 64 values | O(n log n), each time |
//! | `dump`, `domains_at`, `waiting_classes` | what they list |
//!
//! Nothing is ever rebuilt from a list, and a fork copies nothing: it undoes what it did. The state is the same whatever
//! the order in which changes of different kinds arrived. Everything that is listed has an order of its own; where it is
//! by number, its documentation says so.
//!
//! Predicates that look at other pods enter as [`Terms`] of those who ask and [`Pod::marks`] of those who are looked at,
//! counted per node and domain ([`KeepApart`] is the example); device claims enter as [`DeviceAsk`] and [`DeviceUse`].
//!
//! This crate never decides anything, and never talks to anything: no client, no clock, no randomness.

mod changes;
mod classes;
mod counts;
mod decay;
mod devices;
mod dump;
mod evicted;
mod find;
mod fork;
mod gangs;
mod hash;
mod history;
mod holds;
mod labels;
mod memory;
mod moments;
mod names;
mod nodes;
mod objects;
pub mod plan;
mod pods;
pub mod policy;
mod queues;
mod ranks;
mod run_times;
mod shapes;
mod slots;
mod state;
mod terms;
mod topology;
mod waiting;
pub mod workload;

pub use classes::{ClassContent, ClassId, ClassLog, KindId, NodeClass, NodeKind};
pub use devices::{DeviceAsk, DevicePart, DeviceState, DeviceUse, MigProfile};
pub use dump::{DomainDump, Dump, GangDump, NodeDump, QueueDump};
pub use fork::Fork;
pub use gangs::Gang;
pub use history::History;
pub use memory::Memory;
pub use moments::Moment;
pub use names::{GangKey, GpuType, NodeName, PodKey, QueueName};
pub use nodes::{NodeId, NodeState};
pub use objects::{
    Amounts, BankTerms, Change, HALF_LIFE_SECONDS_DEFAULT, Node, Pod, Power, Queue, Reclaim, ResourceName,
    Resources, Taint, TaintEffect, Toleration,
};
pub use pods::{Place, PodId, PodState};
pub use queues::{QUEUE_DEPTH_MAX, QueueChain, QueueUsage};
pub use run_times::{RUN_TIME_STEPS, RunTimes};
pub use shapes::{PodShape, ShapeId};
pub use state::{AssumeError, ClusterState};
pub use terms::{EvictionTerms, GroupTerms, KeepApart, Level, Segment, Spread, Terms, TopologyTerms};
pub use topology::{Domain, DomainId};
pub use waiting::{ClassOfGangs, WaitingClass};
pub use workload::Workload;
