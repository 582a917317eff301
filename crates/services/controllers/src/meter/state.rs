//! The facts that the meter has seen and the ledger may not have yet. Pure: observations in, batches out.
//!
//! ```text
//!   watch events ─► see / gone ─► record joined ─► dirty ─► batch ─► (the ledger has it) ─► recorded
//!                                                                                             │
//!                                 forgotten, once the object is gone ◄── or ──► releasable: the finalizer may go
//! ```
//!
//! An observation is joined with the known record, and an unconfirmed batch is taken again: nothing depends on
//! the number or the order of events. It holds one record for each pod that exists, or that ended and is not
//! recorded yet, about 500 bytes each: 50 MB for 100,000 pods. Machines that we bought have records like nodes
//! until they have a Node.

mod gangs;
mod machines;
mod nodes;
mod pods;
mod unseen;

use std::collections::BTreeSet;

use costing::Moment;
use kube::runtime::watcher::Event;
use slim_objects::{SlimNode, SlimPod};
use store::Batch;

use super::machine::NodeClaim;

use self::gangs::Gangs;
use self::machines::Machines;
use self::nodes::Nodes;
pub use self::pods::Held;
use self::pods::Pods;

/// Records in one transaction. A record is at most a few KB, so a batch is a few MB and some hundred milliseconds.
const BATCH_MAX: usize = 1_000;

/// All facts from the watches that the ledger may not have.
#[derive(Debug, Default)]
pub struct MeterState {
    pods: Pods,
    nodes: Nodes,
    machines: Machines,
    gangs: Gangs,
    /// Until when everything was seen: objects that vanished unseen are taken to have ended then.
    seen_until: Option<Moment>,
}

impl MeterState {
    /// Takes in an event of the watch of pods.
    pub fn pod_event(&mut self, event: &Event<SlimPod>, now: Moment) {
        match event {
            Event::Init => {
                self.pods.listing = Some(BTreeSet::new());
                self.gangs = Gangs::default();
            }
            Event::InitApply(pod) | Event::Apply(pod) => {
                self.pods.see(pod);
                self.gangs.see(pod);
            }
            Event::Delete(pod) => {
                self.pods.see(pod);
                self.gangs.gone(pod);
                self.pods.gone(pod.metadata.uid.as_deref().unwrap_or_default(), now);
            }
            Event::InitDone => {
                let unseen = self.seen_until.unwrap_or(now);
                for uid in self.pods.not_listed() {
                    self.pods.gone(&uid, unseen);
                }
            }
        }
    }

    /// Takes in an event of the watch of nodes.
    pub fn node_event(&mut self, event: &Event<SlimNode>, now: Moment) {
        match event {
            Event::Init => self.nodes.listing = Some(BTreeSet::new()),
            Event::InitApply(node) | Event::Apply(node) => self.nodes.see(node, now),
            Event::Delete(node) => {
                self.nodes.see(node, now);
                self.nodes.gone(node.metadata.uid.as_deref().unwrap_or_default(), now);
            }
            Event::InitDone => {
                let unseen = self.seen_until.unwrap_or(now);
                for uid in self.nodes.not_listed() {
                    self.nodes.gone(&uid, unseen);
                }
            }
        }
    }

    /// Takes in an event of the watch of our claims.
    pub fn claim_event(&mut self, event: &Event<NodeClaim>, now: Moment) {
        match event {
            Event::Init => self.machines.listing = Some(BTreeSet::new()),
            Event::InitApply(claim) | Event::Apply(claim) => self.machines.see(claim),
            Event::Delete(claim) => {
                self.machines.see(claim);
                self.machines.gone(claim.metadata.uid.as_deref().unwrap_or_default(), now);
            }
            Event::InitDone => {
                let unseen = self.seen_until.unwrap_or(now);
                for uid in self.machines.not_listed() {
                    self.machines.gone(&uid, unseen);
                }
            }
        }
    }

    /// Takes in the ledger's open records. Returns those that the watches have not shown: see
    /// [`Self::vanished`]. The same again changes nothing.
    pub fn in_ledger(&mut self, open: Batch) -> Batch {
        let nodes = self.machines.in_ledger(open.nodes);
        Batch { pods: self.pods.in_ledger(open.pods), nodes: self.nodes.in_ledger(nodes) }
    }

    /// Ends the ledger's open records of objects that do not exist any more, at `unseen`. The lists that show
    /// this must be newer than the ledger's answer: older ones would lack objects that another meter has
    /// recorded since.
    pub fn vanished(&mut self, vanished: Batch, unseen: Moment) {
        for pod in vanished.pods {
            self.pods.vanished(pod, unseen);
        }
        for node in vanished.nodes {
            self.nodes.vanished(node, unseen);
        }
    }

    /// The pods to be charged to their namespace's queue, unless the ledger has another queue for them.
    pub fn pods_without_queue(&self) -> Vec<String> {
        self.pods.without_queue()
    }

    /// Notes that everything up to then was seen and is recorded.
    pub fn seen_until(&mut self, now: Moment) {
        self.seen_until = self.seen_until.max(Some(now));
    }

    /// A part of the facts that the ledger may not have; empty if it has everything. `default_queue` is the
    /// queue of pods in a namespace without a queue label. It does not apply to pods that are already in the
    /// ledger: a bill does not follow later changes of a namespace's queue.
    pub fn batch<'q>(&mut self, default_queue: impl Fn(&str) -> Option<&'q str>) -> Batch {
        self.machines.link(&mut self.nodes, &self.gangs, &default_queue);
        let mut nodes = self.nodes.batch(BATCH_MAX);
        nodes.extend(self.machines.batch(BATCH_MAX - nodes.len()));
        let pods = self.pods.batch(BATCH_MAX - nodes.len(), default_queue);
        Batch { pods, nodes }
    }

    /// The ledger has this batch.
    pub fn recorded(&mut self, batch: &Batch) {
        for node in &batch.nodes {
            self.nodes.recorded(node);
            self.machines.recorded(node);
        }
        for pod in &batch.pods {
            self.pods.recorded(pod);
        }
    }

    /// How many records the ledger may not have.
    pub fn dirty_count(&self) -> usize {
        self.pods.dirty.len() + self.nodes.dirty.len() + self.machines.dirty.len()
    }

    /// Whether there is anything to write.
    pub fn has_work(&self) -> bool {
        self.dirty_count() > 0 || self.pods.has_releasable()
    }

    /// Pods that our finalizer need not hold any more: their use is recorded, or they used nothing.
    pub fn releasable(&self) -> Vec<Held> {
        self.pods.releasable()
    }

    /// Notes that the finalizer of this pod is gone, or the pod is. If that is wrong, the watch shows it again.
    pub fn released(&mut self, pod: &Held) {
        self.pods.released(&pod.uid);
    }
}

#[cfg(test)]
mod machine_tests;
#[cfg(test)]
mod tests;
