//! What every process of ours has in common, so that a binary is only its own wiring.
//!
//! ```text
//!   args ──► logs::init ──► client::config ──► client::client ───► [lease::acquire] ──► the binary's work
//!                 │                                                       │ lost ──► exit(1)
//!                 └─► health::serve (/healthz /readyz /metrics)    shutdown::on_signal ──► release, exit(0)
//! ```
//!
//! It knows no object of ours and makes no decision about the cluster. A lease is coordination and never a
//! lock: the fence, not this crate, guarantees what must hold with two leaders.

pub mod args;
pub mod backoff;
pub mod client;
pub mod health;
pub mod lease;
pub mod logs;
pub mod metric_table;
pub mod otlp;
pub mod shutdown;
pub mod tls;
pub mod watch;
