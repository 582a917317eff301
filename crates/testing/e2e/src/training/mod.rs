//! Real training on real kubelets: `PyTorch` in pods of a Run, on nodes that get notices, lose processes and power.
//!
//! ```text
//!   Yard: kube-apiserver, our processes, real nodes, an agent and a metadata endpoint for each
//!     └─ Trial: one Run ──► members ──► journal: what happened to each, written by themselves
//!          ▲ strikes: a notice, a SIGKILL            └─► judge: lost steps, times, bits; beside an uninterrupted one
//! ```
//!
//! What is trained is `crates/testing/e2e/training/member.py` around the SDK's own test workers. The test `training` and the
//! benchmark `bench-runs` share this.

pub mod away;
pub mod contest;
pub mod elastic;
pub mod interval;
pub mod journal;
pub mod judge;
pub mod reference;
pub mod script;
pub mod strikes;
pub mod trial;
pub mod yard;

pub use journal::Journal;
pub use script::{Framework, Script};
pub use strikes::Strike;
pub use trial::Trial;
pub use yard::{Yard, YardSize};
