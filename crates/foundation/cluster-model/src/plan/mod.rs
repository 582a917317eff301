//! What a plan says. The types live here, not with the planner, so that the judge can read plans without it.

mod decided;
mod effect;
mod reason;
mod refusals;
mod sentence;

pub use decided::{
    Eviction, EvictionRule, GangPlacement, Hold, MemberPlacement, Plan, Reservation, WaitingGang,
};
pub use effect::{Committed, Departure, Effect, EvictCause, EvictRequest, HoldEnd, HoldRecord, VictimRecord};

pub use reason::{Nature, OverQuota, WaitReason};
pub use refusals::{NeighbourRefusal, Refusals};
pub use sentence::{About, ReasonNumber};
