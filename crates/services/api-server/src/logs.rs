//! Logs of members, read from Kubernetes as the caller and merged by time.
//!
//! ```text
//!   pods of the run (cache) ──► choose: which members, in what order ──► read: some at a time, as the caller
//!                                  PURE                                     │ lines with their times
//!                                  first to fail ◄── last lines ◄───────────┤
//!                                                                           └──► merge ──► RunLogs
//!                                                                                 PURE
//! ```
//!
//! Nothing is kept: Kubernetes has the logs for as long as it has the pods.

pub mod choose;
pub mod merge;
pub mod read;
