//! Real training on real kubelets: `PyTorch` in pods of a Run, on nodes that get notices, lose processes and power.
//!
//! ```text
//!   Yard: kube-apiserver, our processes, real nodes, an agent and a metadata endpoint for each
//!     └─ Trial: one Run ──► members ──► journal: the members' own records
//!          ▲ strikes: a notice, a SIGKILL  └─► judge: lost steps, times, bits; against an uninterrupted one
//! ```
//!
//! The training is `crates/testing/e2e/training/member.py` around the SDK's own test workers. The test
//! `training` and the benchmark `cargo xtask bench runs` share this.

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
