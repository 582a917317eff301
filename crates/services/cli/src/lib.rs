//! The `warpyard` command.
//!
//! ```text
//!   arguments ─► session (flags, environment, config file) ─► api-client ─► render ─► Output { stdout, stderr, exit }
//! ```
//!
//! Data goes to stdout, all else to stderr, and the exit code is a contract (see [`exit::Exit`]). It never
//! draws colours, redraws nothing but `cost --watch` and the progress of `simulate` on a terminal, never prints a token,
//! never sends one to another server than it was stored for, and never stops a run on Ctrl-C. `simulate`
//! contacts no server.

pub mod args;
pub mod asks;
pub mod commands;
pub mod config;
pub mod cost;
pub mod day;
pub mod exit;
pub mod job_file;
pub mod logs;
pub mod money;
mod print;
pub mod reference;
pub mod render;
pub mod render_attempts;
pub mod render_board;
pub mod render_capacity;
pub mod render_cost;
pub mod render_logs;
pub mod render_run;
pub mod session;
pub mod simulate;
mod since;
mod text;
pub mod wait;

pub use job_file::job_file_schema_json;
pub use reference::cli_reference_markdown;
