//! The cluster as the planner sees it: nodes, pods, gangs and queues.
//!
//! ```text
//!   ClusterChange ──► apply ─┬─► nodes ───► classes   nodes that differ only in name and place, by what is free
//!   Plan ───────────► commit │         └──► domains   zone, block, rack, …: nodes per class, free GPUs
//!   time ───────────► advance├─► queues   what each holds, used and saved, its children included
//!                            ├─► near     pods that others want near, avoid or spread with, by domain of a label
//!                            ├─► gangs    those that wait, in planning order and in classes; that run; that are held
//!                            └─► history, workload    what is learned from ends and arrivals
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
//! | a pod that others count, or that keeps others away, comes or goes | the same for each count that it is in |
//! | a pod is the first to define nearness by a label | O(n) |
//! | a namespace changes | O(its pods), for each term that selects namespaces |
//! | a queue changes | O(log n + q); O(pods of a namespace) if that joins or leaves it; O(q · queues) for a ring |
//! | time advances | O(queues whose use changed since) |
//! | a label is the first or last that a pod selects by, or gets more than 64 values; a resource is the first or last that a pod asks for | O(n log n), each time |
//! | `dump`, `domains_at`, `waiting_classes` | what they list |
//!
//! Nothing is ever rebuilt from a list, and a fork copies nothing: it undoes what it did. The state does not depend on
//! the order in which changes of different kinds arrived. Every list has an order of its own; if that is by number, its
//! documentation says so.
//!
//! Rules about other pods enter as [`Neighbours`] of the pods that ask and [`Pod::labels`] of the pods that are looked at;
//! device claims enter as [`DeviceAsk`] and [`DeviceUse`].
//!
//! This crate never decides anything, and never talks to anything: no client, no clock, no randomness.

mod admits;
mod assume_error;
mod budgets;
mod changes;
mod classes;
mod commit;
mod counts;
mod decay;
mod devices;
mod dump;
mod evicted;
mod features;
mod find;
mod fork;
mod gangs;
mod hash;
mod history;
mod holds;
mod ids;
mod labels;
mod memory;
mod moments;
mod names;
mod near;
mod node_affinity;
mod nodes;
mod objects;
mod other_resources;
mod pairs;
pub mod plan;
mod pods;
pub mod policy;
mod ports;
mod priority;
mod queues;
mod ranks;
mod run_times;
mod saved;
mod shapes;
mod slots;
mod snapshot;
mod state;
mod taints;
mod terms;
mod topology;
mod waiting;
pub mod workload;

pub use budgets::{Budget, BudgetCounts, BudgetKey};
pub use classes::{ClassContent, ClassId, ClassLog, KindId, NodeClass, NodeKind};
pub use decay::SavedAccounts;
pub use devices::{DeviceAsk, DevicePart, DeviceState, DeviceUse, MigProfile};
pub use dump::{DomainDump, Dump, GangDump, NodeDump, QueueDump};
pub use features::Features;
pub use fork::Fork;
pub use gangs::Gang;
pub use history::History;
pub use memory::PlannerMemory;
pub use moments::ForkMoment;
pub use names::{GangKey, GpuType, NodeName, PodKey, QueueName};
pub use near::{
    Apart, LabelSet, NearRefusal, NearRule, Neighbours, Operator, PodTerm, Requirement, Scope, Selector,
    SpreadConstraint, TallyDump,
};
pub use node_affinity::{LabelRule, LabelTest, NameRule, NodeAffinity, NodeTerm};
pub use nodes::{NodeId, NodeState};
pub use objects::{
    Amounts, BankTerms, ClusterChange, HALF_LIFE_SECONDS_DEFAULT, Node, Pod, Power, Queue, Reclaim,
    ResourceName, Resources,
};
pub use other_resources::{Extras, OtherResources};
pub use pods::{Place, PodId, PodState};
pub use ports::{HostPort, HostPorts};
pub use priority::Tier;
pub use queues::{QUEUE_DEPTH_MAX, QueueChain, QueueUsage};
pub use run_times::{RUN_TIME_STEPS, RunTimes};
pub use saved::{Saved, SavedPod};
pub use shapes::{PodShape, ShapeId};
pub use snapshot::{SNAPSHOT_FORMAT, Snapshot};
pub use state::{AssumeError, ClusterState};
pub use taints::{Taint, TaintEffect, Toleration};
pub use terms::{EvictionTerms, GroupTerms, Level, Segment, Spread, Terms, TopologyTerms};
pub use topology::{Domain, DomainId};
pub use waiting::{ClassOfGangs, WaitingClass};
pub use workload::LearnedWorkload;
