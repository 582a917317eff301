//! The controllers' process. It turns a Run into an Indexed Job and a headless Service, and their state into
//! the Run's status. It also meters the use of pods and nodes.
//!
//! ```text
//!   watch Runs ──► store ─┐                      ┌► Service, Job (created once per attempt)
//!   watch Jobs ──► store ─┼─► queue ─► reconcile ┤
//!   watch pods ──► index ─┘   (per Run)          └► Run.status (server-side apply, resource version checked)
//!              └─► meter ─► the ledger, if there is one: see [`meter`]
//!   ended Runs ──► archive, then delete: see [`cleanup`]
//! ```
//!
//! It never places or creates a pod, and never starts an attempt's work twice: [`run::decide`] explains how
//! that holds with two leaders, an old cache, or a crash between any two writes. It never writes
//! `status.waiting`.

pub mod cleanup;
pub mod members;
pub mod meter;
pub mod nodes;
pub mod run;
pub mod service;
pub mod watches;
