//! What the meter knows and the ledger may not know yet. Pure: observations in, batches out.
//!
//! ```text
//!   watch events ─► see / gone ─► record joined ─► dirty ─► batch ─► (the ledger has it) ─► recorded
//!                                                                                             │
//!                                 forgotten, once the object is gone ◄── or ──► releasable: the finalizer may go
//! ```
//!
//! An observation is joined with what was known, and a batch that was not confirmed is taken again: nothing here
//! depends on how often or in which order things are said. It holds one record per pod that exists or that ended and
//! is not recorded yet, about 500 bytes each: 50 MB for 100,000 pods. Machines that we bought are records like nodes' until
//! a Node stands for them.

mod gangs;
mod machines;
mod nodes;
mod pods;

use std::collections::BTreeSet;

use cluster_convert::{SlimNode, SlimPod};
use costing::{End, Moment};
use kube::runtime::watcher::Event;
use store::Batch;

use super::machine::NodeClaim;

use self::gangs::Gangs;
use self::machines::Machines;
use self::nodes::Nodes;
pub use self::pods::Held;
use self::pods::Pods;

/// Records in one transaction. A record is at most a few KB, so a batch is a few MB and some hundred milliseconds.
const BATCH_MAX: usize = 1_000;

/// Everything that the watches said and the ledger may not have.
#[derive(Debug, Default)]
pub struct State {
    pods: Pods,
    nodes: Nodes,
    machines: Machines,
    gangs: Gangs,
    /// Until when everything is known to have been seen: what vanished unseen is taken to have ended then.
    seen_until: Option<Moment>,
}

impl State {
    /// What the watch of pods said.
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

    /// What the watch of nodes said.
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

    /// What the watch of our claims said.
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

    /// What the ledger has. Returns what of it the watches have not brought: see [`Self::vanished`]. The same again
    /// changes nothing.
    pub fn in_ledger(&mut self, open: Batch) -> Batch {
        let nodes = self.machines.in_ledger(open.nodes);
        Batch { pods: self.pods.in_ledger(open.pods), nodes: self.nodes.in_ledger(nodes) }
    }

    /// What the ledger has without an end and does not exist, as lists say that were begun after the ledger was
    /// asked. (Older lists would not have what another meter has seen and recorded since.) It ended at `unseen`.
    pub fn vanished(&mut self, vanished: Batch, unseen: Moment) {
        for pod in vanished.pods {
            self.pods.vanished(pod, unseen);
        }
        for node in vanished.nodes {
            self.nodes.vanished(node, unseen);
        }
    }

    /// The pods that their namespace's queue is about to be charged for, unless the ledger has another.
    pub fn pods_without_queue(&self) -> Vec<String> {
        self.pods.without_queue()
    }

    /// Everything up to then was seen and is recorded.
    pub fn seen_until(&mut self, now: Moment) {
        self.seen_until = self.seen_until.max(Some(now));
    }

    /// What the ledger may not have, a part of it; empty if it has everything. `default_queue` is the queue of pods
    /// of a namespace that name none, unless the ledger was found to have them: a bill does not follow a namespace's
    /// queue that changed since.
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

    /// Pods that our finalizer holds for nothing: what they used is recorded, or they used nothing.
    pub fn releasable(&self) -> Vec<Held> {
        self.pods.releasable()
    }

    /// The finalizer of this pod is gone, or the pod is. If not so, the watch says it again.
    pub fn released(&mut self, pod: &Held) {
        self.pods.released(&pod.uid);
    }
}

/// The end of something that is not there any more and did not tell: never before it began.
fn unseen_end(at: Moment, began: Moment) -> End {
    End::Provisional(at.max(began))
}

#[cfg(test)]
mod machine_tests;
#[cfg(test)]
mod tests;
