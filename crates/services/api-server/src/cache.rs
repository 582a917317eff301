//! A copy of the cluster's objects, kept current by one watch for each kind, and indexed for readers.

pub mod cluster_cache;
pub mod node_index;
pub mod pod_index;
pub mod queue_index;
pub mod run_index;
