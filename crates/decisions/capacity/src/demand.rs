//! What waits for machines, and what it may cost.

use std::collections::BTreeMap;

use crate::offering::{MicrosPerHour, MixCapacityType, MixResources};

/// A gang of identical members, which gets room for all of them or for none. One member is a gang too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Unique; ties are broken by it.
    pub id: String,
    /// The queue whose limits it counts against.
    pub queue: String,
    /// Lower is served first, then by id.
    pub order: u64,
    /// How many members.
    pub members: u32,
    /// What each of them needs.
    pub member: MixResources,
    /// The GPU types that are acceptable; any if empty.
    pub gpu_types: Vec<String>,
    /// The zones that are acceptable; any if empty.
    pub zones: Vec<String>,
    /// The capacity types that are acceptable; any if empty.
    pub capacity_types: Vec<MixCapacityType>,
    /// Whether its members must be near each other.
    pub together: Together,
    /// The most that a machine with one of its members may cost.
    pub machine_ceiling: Option<MicrosPerHour>,
    /// The most that all members together may cost, each by its [share](share_price) of the machine it is on.
    pub gang_ceiling: Option<MicrosPerHour>,
    /// The longest time until a machine is ready.
    pub boot_seconds_max: Option<u32>,
}

/// How near to each other the members of a gang must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Together {
    /// Anywhere.
    Anywhere,
    /// All in one zone, whichever it is.
    OneZone,
    /// All in one topology domain, whichever it is. Machines that name none are in none.
    OneDomain,
}

/// What may be bought at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// By queue; a queue without an entry has no limit.
    pub queues: BTreeMap<String, QueueLimit>,
    /// For all purchases of this decision together, machines counted whole.
    pub budget: Option<MicrosPerHour>,
}

/// What one queue may still get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLimit {
    /// GPUs.
    pub gpus: Option<u64>,
    /// The [shares](share_price) of its members in what is bought.
    pub budget: Option<MicrosPerHour>,
}

/// What one member costs on a machine of this price: by the resource of which it takes the largest part, rounded up.
/// It does not depend on other members there, so a neighbour that leaves breaks no ceiling.
pub fn share_price(price: MicrosPerHour, machine: MixResources, member: MixResources) -> MicrosPerHour {
    let part = |(need, has): (u64, u64)| {
        let cost = (u128::from(price) * u128::from(need)).div_ceil(u128::from(has.max(1)));
        u64::try_from(cost).unwrap_or(u64::MAX)
    };
    member.to_array().into_iter().zip(machine.to_array()).map(part).max().unwrap_or(0)
}
