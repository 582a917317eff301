//! The controllers' process: it turns a Run into an Indexed Job and a headless Service, and what becomes of them into
//! the Run's status; and it meters what pods and nodes use.
//!
//! ```text
//!   watch Runs ──► store ─┐                     ┌► Service, Job (created once per attempt)
//!   watch Jobs ──► store ─┼─► queue ─► reconcile ┤
//!   watch pods ──► index ─┘   (per Run)          └► Run.status (server-side apply, resource version checked)
//!              └─► meter ─► the ledger, if there is one: see [`meter`]
//! ```
//!
//! It never places a pod, never creates one, and never starts an attempt's work twice: see [`run::decide`] for how
//! that holds with two leaders, an old cache, or a crash between any two writes. It never writes `status.waiting`.

pub mod members;
pub mod meter;
pub mod nodes;
pub mod run;
pub mod service;
pub mod watches;
