//! Answers why a gang waits and when it starts. This only reads: only the caller waits for an answer, and
//! without questions the scheduler does none of this work.
//!
//! ```text
//!   planning thread ── after a plan, if anybody asked since the last picture: another, at most every few seconds ─┐
//!        ▲                                                                                                        ▼
//!        └── "plan once more" ◄── the picture is old ── desk ◄── question ── server ◄── API server, by TLS   desk: picture
//!                                                        │                                                        │
//!                                     bounded questions  └──► forecast thread ── futures, what-ifs ◄──────────────┘
//! ```
//!
//! `learned`: facts for forecasts, from the planning thread. `desk`: the meeting point of the threads.
//! `forecaster`: the forecast thread. `answers`: the answers, pure. `callers`: authentication. `server`: the
//! routes. `door`: the listener.

pub mod answers;
pub mod callers;
pub mod desk;
pub mod door;
pub mod forecaster;
pub mod learned;
mod outcomes;
pub mod picture;
pub mod server;

#[cfg(test)]
pub(crate) mod tests;
