//! What a gang asks beyond its members' resources: the same for all its members, so they share one value.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The terms of one gang. All members of a gang have the same; `Default` is a gang that asks for nothing special.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Terms {
    /// The most members that may run; further pods wait while the gang runs. `None`: all that exist. (The fewest is
    /// [`crate::Pod::gang_size`].)
    pub members_max: Option<u32>,
    /// Groups of members within the gang, by name; each starts whole, and may have its own place in the topology. A
    /// group may be within another one.
    pub groups: BTreeMap<Arc<str>, GroupTerms>,
    /// Where the gang as a whole must or should be.
    pub topology: TopologyTerms,
    /// How long it may run, from its start. Its expected end is at most this.
    pub time_limit_seconds: Option<u32>,
    /// When it must have ended.
    pub deadline: Option<Timestamp>,
    /// What may be done to it once it runs.
    pub eviction: EvictionTerms,
    /// How its members are spread over domains; packing is the rule where this is absent.
    pub spread: Option<Spread>,
    /// Whether it may run on nodes that can be taken away at short notice.
    pub takes_spot: bool,
    /// Whether such nodes are bought for it.
    #[serde(default)]
    pub buys_spot: bool,
    /// The most that the machines bought for it may cost per hour, all together, in millionths of the currency.
    #[serde(default)]
    pub max_price_micros: Option<i64>,
}

impl Terms {
    /// The group that a member counts in: the one it names, if that exists and its parents lead to the gang as a
    /// whole; else none.
    pub fn place_of<'a>(&'a self, group: Option<&Arc<str>>) -> Option<&'a Arc<str>> {
        let (name, _) = self.groups.get_key_value(group?)?;
        let mut above = name;
        for _ in 0..self.groups.len() {
            match &self.groups.get(above)?.parent {
                None => return Some(name),
                Some(parent) => above = parent,
            }
        }
        None
    }

    /// The groups directly within another one, or within the gang as a whole.
    pub fn groups_within<'a>(
        &'a self,
        parent: Option<&Arc<str>>,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a GroupTerms)> {
        self.groups.iter().filter(move |(_, group)| group.parent.as_ref() == parent)
    }
}

/// Members that belong closer together than the gang as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupTerms {
    /// The group it is within.
    pub parent: Option<Arc<str>>,
    /// The fewest members that must start together with the gang; `None`: all that exist.
    pub members_min: Option<u32>,
    /// Where the group must or should be.
    pub topology: TopologyTerms,
}

/// A level of the topology tree: 0 is the outermost (zone), and each level is within the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Level(pub u8);

/// Where members must or should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopologyTerms {
    /// All members must be in one domain of this level.
    pub required: Option<Level>,
    /// All members should be in one domain of this level, or else in one of the next level further out.
    pub preferred: Option<Level>,
    /// Members, by index, are cut into segments of equal size. Each segment is in one domain of a level.
    pub segment: Option<Segment>,
}

/// See [`TopologyTerms::segment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Segment {
    /// Members of one segment, at least 1. The last segment may have fewer.
    pub members: u32,
    /// The level of the domain that each segment is in.
    pub level: Level,
}

/// What may be done to a gang that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EvictionTerms {
    /// It never gives way.
    pub never: bool,
    /// It saves its state, so that it loses only the time since then; otherwise all its time is lost.
    pub checkpoints: bool,
}

/// Members are spread over domains of a level: no domain has over `skew_max` more than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Spread {
    /// The level; `None` is the node.
    pub level: Option<Level>,
    /// The most that two domains may differ by, at least 1.
    pub skew_max: u32,
}
