//! Answers to those who ask why something waits and when it starts. Reads alone: nothing waits for an answer but
//! whoever asked, and a scheduler that nobody asks does none of this.
//!
//! ```text
//!   planning thread ── after a plan, if somebody asked since the last picture: another, at most every few seconds ─┐
//!        ▲                                                                                                        ▼
//!        └── "plan once more" ◄── the picture is old ── desk ◄── question ── server ◄── API server, by TLS   desk: picture
//!                                                        │                                                        │
//!                                     bounded questions  └──► forecast thread ── futures, what-ifs ◄──────────────┘
//! ```
//!
//! `learned`: what the planning thread notes for forecasts. `desk`: where the threads meet. `forecaster`: the thread that
//! looks ahead. `answers`: what is said, pure. `callers`: who may ask. `server`: the routes. `door`: where they are.

pub mod answers;
pub mod callers;
pub mod desk;
pub mod door;
pub mod forecaster;
pub mod learned;
pub mod picture;
pub mod server;

#[cfg(test)]
mod tests;
