//! Machines that were ordered, as the backend reports them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use api_types::launch::{LaunchMark, gang_mark, launch_name};
use cluster_model::{GangKey, NodeName, QueueName};
use jiff::Timestamp;

use crate::catalogue::OfferKey;

/// What machines were bought for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// For a gang.
    Gang(GangKey),
    /// To be there for whichever gang comes next: machines of this type.
    Spare(Arc<str>),
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gang(gang) => write!(f, "gang {gang}"),
            Self::Spare(machine) => write!(f, "a spare {machine}"),
        }
    }
}

/// One launch: machines that were ordered together. No two of one purpose are decided in the same second.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaunchKey {
    /// What it is for.
    pub purpose: Purpose,
    /// When it was decided, in whole seconds.
    pub number: i64,
}

impl LaunchKey {
    /// The label of its claims and nodes.
    pub fn name(&self) -> String {
        match &self.purpose {
            Purpose::Gang(gang) => launch_name(Some((&gang.namespace, &gang.name)), "", self.number),
            Purpose::Spare(machine) => launch_name(None, machine, self.number),
        }
    }

    /// The gang that it is for, if it is for one.
    pub fn gang(&self) -> Option<&GangKey> {
        match &self.purpose {
            Purpose::Gang(gang) => Some(gang),
            Purpose::Spare(_) => None,
        }
    }

    /// The taint of its machines, if they are for a gang.
    pub fn mark(&self) -> Option<String> {
        self.gang().map(|gang| gang_mark(&gang.namespace, &gang.name))
    }
}

/// A machine that was ordered and has not been given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub name: Arc<str>,
    /// The launch that it is a part of.
    pub launch: LaunchKey,
    /// The queue of the gang that it was bought for.
    pub queue: Option<QueueName>,
    /// How many claims the launch has.
    pub of: u32,
    /// What was bought.
    pub offer: OfferKey,
    /// Its price, in millionths of the currency per hour.
    pub price_micros: i64,
    /// When it was ordered.
    pub created: Timestamp,
    /// The node that it became.
    pub node: Option<NodeName>,
    /// Whether that node is ready for pods.
    pub ready: bool,
    /// Whether the buyer has begun to work on it.
    pub taken_up: bool,
    /// Whether it is being given back.
    pub leaving: bool,
    /// What the backend says is wrong with it.
    pub trouble: Option<String>,
}

/// Claims by their launch.
pub fn by_launch(claims: &[Claim]) -> BTreeMap<&LaunchKey, Vec<&Claim>> {
    let mut launches: BTreeMap<&LaunchKey, Vec<&Claim>> = BTreeMap::new();
    for claim in claims {
        launches.entry(&claim.launch).or_default().push(claim);
    }
    for claims in launches.values_mut() {
        claims.sort_by(|one, other| one.name.cmp(&other.name));
    }
    launches
}

/// An order: all of it, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Its name.
    pub key: LaunchKey,
    /// The queue of the gang that it is for: its caps count the machines.
    pub queue: Option<QueueName>,
    /// What is bought, one entry for each machine.
    pub machines: Vec<(OfferKey, i64)>,
    /// When it should be ready.
    pub ready_by: Timestamp,
    /// What all of it costs, in millionths of the currency per hour.
    pub price_micros: i64,
    /// Why it is bought, and why these machines.
    pub why: String,
}

impl Launch {
    /// Its state when it has just been ordered, if a gang waits for it.
    pub fn under_way(&self, now: Timestamp) -> Option<(GangKey, UnderWay)> {
        let gang = self.key.gang()?;
        let mut machines: BTreeMap<OfferKey, u32> = BTreeMap::new();
        for (offer, _) in &self.machines {
            *machines.entry(offer.clone()).or_default() += 1;
        }
        let under_way = UnderWay {
            launch: self.key.clone(),
            ready: 0,
            of: u32::try_from(self.machines.len()).unwrap_or(u32::MAX),
            ready_by: self.ready_by,
            price_micros: self.price_micros,
            since: now,
            machines,
            why: self.why.clone(),
        };
        Some((gang.clone(), under_way))
    }

    /// The name of one of its claims.
    pub fn claim_name(&self, index: usize) -> Arc<str> {
        // Names do not depend on the epoch.
        self.mark(index, 0).claim_name(u32::try_from(index).unwrap_or(u32::MAX)).into()
    }

    /// The labels and annotations of one of its claims.
    pub fn mark(&self, index: usize, epoch: i64) -> LaunchMark {
        let (offer, price_micros) = &self.machines[index];
        LaunchMark {
            gang: match &self.key.purpose {
                Purpose::Gang(gang) => Some((gang.namespace.to_string(), gang.name.to_string())),
                Purpose::Spare(_) => None,
            },
            queue: self.queue.as_ref().map(ToString::to_string),
            number: self.key.number,
            size: u32::try_from(self.machines.len()).unwrap_or(u32::MAX),
            machine_type: offer.machine.to_string(),
            price_micros: *price_micros,
            epoch,
        }
    }
}

/// A machine to give back. If a pod is on its node by the time it is done, it stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The claim.
    pub claim: Arc<str>,
    /// The node that it became.
    pub node: Option<NodeName>,
    /// The launch that it belongs to, if that is given up before its gang has started. All of the launch stays if the
    /// gang was faster.
    pub given_up: Option<LaunchKey>,
    /// Why.
    pub why: String,
}

/// A launch that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// The launch.
    pub launch: LaunchKey,
    /// How many of its machines are ready.
    pub ready: u32,
    /// How many it has.
    pub of: u32,
    /// When all should be ready.
    pub ready_by: Timestamp,
    /// What it costs, in millionths of the currency per hour.
    pub price_micros: i64,
    /// When it was ordered.
    pub since: Timestamp,
    /// What was ordered: each offer once, with the number of machines.
    pub machines: BTreeMap<OfferKey, u32>,
    /// Why.
    pub why: String,
}
