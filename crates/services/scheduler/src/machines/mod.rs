//! Buys machines for waiting gangs, and gives them back; `capacity` decides.
//!
//! ```text
//!   MachineTypes, NodeClaims,
//!   the BuyingPolicy         ──watch──┐
//!   the desk's picture of the cluster ┴─► capacity::decide (a thread of its own) ─► the planner's loop
//!                                                                                     │ closes what goes, in its state
//!                                                                                     ▼
//!                                                              CapacityBackend: orders, gives back, opens
//! ```
//!
//! An order is made only if `guard.rs` finds it within every cap too.
//!
//! Decisions pass through the planner's loop, so that no gang is placed on a machine that is about to go. If
//! the backend does not answer, nothing is bought, and all else goes on.

mod backend;
mod buyer;
mod coming;
pub mod guard;
pub mod karpenter;
mod karpenter_backend;
mod kept;
mod seen;
#[cfg(test)]
pub mod testing;

pub use backend::{CapacityBackend, Decided, Order};
pub use buyer::Buyer;
pub use karpenter_backend::Karpenter;
