//! What was used, and what it costs, exactly: integers from the first second to the last total.
//!
//! ```text
//!   watch ─► records ──────────┐
//!            (joined: any order│, any repetition)
//!                              ├─► fold one account (node × day) ─► closed lines ─┐
//!   price sheets ─► price book ┘                                 └► open lines    ├─► post: what is missing,
//!                                                        lines posted before ─────┘    and reversals of what is wrong
//! ```
//!
//! Closed and open lines of a node together are always its seconds times its price. It never reads a clock, never
//! rounds, never clamps, and never guesses a price: use without a price is a line without an amount.

pub mod account;
mod capacity;
pub mod fold;
mod known;
mod lives;
pub mod money;
pub mod posting;
pub mod price;
pub mod purchase;
pub mod record;
pub mod time;

pub use account::{Account, Attribution, Class, Fold, Line, OpenLine, Problem, Subject};
pub use fold::fold;
pub use money::{Amount, HourlyPrice};
pub use posting::{Posting, post};
pub use price::{CapacityType, Price, PriceBook, PriceUnit};
pub use purchase::{MachineStart, Purchase};
pub use record::{End, NodeRecord, NodeShape, PodRecord};
pub use time::{Day, Moment};
