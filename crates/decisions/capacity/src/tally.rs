//! What was bought, compared with the caps.
//!
//! Every machine counts from its order until it is gone, because it is paid for all that time; also one whose claim was not
//! seen yet. What would be beyond a cap is not bought, not even in part. Whoever carries orders out checks the same again,
//! without this code (`machines/guard.rs` of the scheduler).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use cluster_model::{ClusterState, QueueName};

use crate::caps::Cap;
use crate::catalogue::{Catalogue, OfferKey};
use crate::claim::Launch;
use crate::memory::Memory;
use crate::money::money;
use crate::view::View;

/// What was bought, in sums that are compared with caps.
pub struct Tally<'a> {
    state: &'a ClusterState,
    catalogue: &'a Catalogue,
    cluster: Cap,
    sums: BTreeMap<Part, Sum>,
}

/// A part of the cluster that may have a cap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Cluster,
    Type(Arc<str>),
    Queue(QueueName),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    machines: u32,
    per_hour_micros: i64,
}

impl Sum {
    /// One more machine.
    fn add(&mut self, price_micros: i64) {
        self.machines = self.machines.saturating_add(1);
        self.per_hour_micros = self.per_hour_micros.saturating_add(price_micros);
    }
}

impl<'a> Tally<'a> {
    /// Everything that was ordered and is not gone, with what this decision has ordered so far.
    pub fn so_far(view: &View<'a>, memory: &Memory, launches: &[Launch]) -> Self {
        let View { state, catalogue, buying, .. } = *view;
        let mut tally = Self { state, catalogue, cluster: buying.cap, sums: BTreeMap::new() };
        for claim in view.claims {
            tally.count(claim.queue.as_ref(), &claim.offer, claim.price_micros);
        }
        let is_seen = |name: &Arc<str>| view.claims.iter().any(|claim| claim.name == *name);
        for ordered in memory.ordered.values() {
            let unseen = ordered.names().zip(&ordered.launch.machines);
            for (_, (offer, price)) in unseen.filter(|(name, _)| !is_seen(name)) {
                tally.count(ordered.launch.queue.as_ref(), offer, *price);
            }
        }
        for launch in launches {
            tally.take(launch.queue.as_ref(), &launch.machines);
        }
        tally
    }

    /// Counts machines that were decided on, with the price of each.
    pub fn take(&mut self, queue: Option<&QueueName>, machines: &[(OfferKey, i64)]) {
        for (offer, price) in machines {
            self.count(queue, offer, *price);
        }
    }

    /// Whether not even one more machine may be bought in the cluster.
    pub fn is_full(&self) -> bool {
        let Sum { machines, per_hour_micros } = self.sums.get(&Part::Cluster).copied().unwrap_or_default();
        self.cluster.machines.is_some_and(|most| machines >= most)
            || self.cluster.per_hour_micros.is_some_and(|most| per_hour_micros >= most)
    }

    fn count(&mut self, queue: Option<&QueueName>, offer: &OfferKey, price_micros: i64) {
        for part in self.parts(queue, &offer.machine) {
            self.sums.entry(part).or_default().add(price_micros);
        }
    }

    /// Why these machines may not be bought as well.
    pub fn refuses(&self, queue: Option<&QueueName>, machines: &[(OfferKey, i64)]) -> Option<Beyond> {
        let mut more: BTreeMap<Part, Sum> = BTreeMap::new();
        for (offer, price) in machines {
            for part in self.parts(queue, &offer.machine) {
                more.entry(part).or_default().add(*price);
            }
        }
        more.into_iter().find_map(|(part, more)| self.beyond(part, more))
    }

    fn beyond(&self, part: Part, more: Sum) -> Option<Beyond> {
        let cap = match &part {
            Part::Cluster => self.cluster,
            Part::Type(name) => self.catalogue.get(name)?.cap,
            Part::Queue(name) => self.state.queue(name).map(|(queue, _)| Cap::of_queue(queue))?,
        };
        let there = self.sums.get(&part).copied().unwrap_or_default();
        let machines = there.machines.saturating_add(more.machines);
        let micros = there.per_hour_micros.saturating_add(more.per_hour_micros);
        let limit = match (cap.machines, cap.per_hour_micros) {
            (Some(most), _) if machines > most => {
                format!(
                    "{most} machines are allowed, {} are there, and {} would be needed",
                    there.machines, more.machines
                )
            }
            (_, Some(most)) if micros > most => format!(
                "{} an hour are allowed, {} are spent, and {} would be needed",
                money(most),
                money(there.per_hour_micros),
                money(more.per_hour_micros)
            ),
            _ => return None,
        };
        Some(Beyond { part, limit })
    }

    fn parts(&self, queue: Option<&QueueName>, machine: &Arc<str>) -> Vec<Part> {
        let mut parts = vec![Part::Cluster, Part::Type(Arc::clone(machine))];
        let mut next = queue.cloned();
        while let Some(name) = next.take_if(|_| parts.len() < PARTS_MAX) {
            next = self.state.queue(&name).and_then(|(queue, _)| queue.parent.clone());
            parts.push(Part::Queue(name));
        }
        parts
    }
}

/// A tree of queues is not deeper than this; a circle would be.
const PARTS_MAX: usize = 2 + cluster_model::QUEUE_DEPTH_MAX;

/// A cap that would be passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beyond {
    part: Part,
    limit: String,
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Part::Cluster => f.write_str("in the whole cluster ")?,
            Part::Type(name) => write!(f, "of type {name} ")?,
            Part::Queue(name) => write!(f, "for queue {name} ")?,
        }
        f.write_str(&self.limit)
    }
}
