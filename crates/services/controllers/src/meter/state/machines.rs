//! Machines that we bought: the record of each until it has a Node, and the purchase to note on the Node.
//!
//! ```text
//!   claim ──────────── record under the claim's name ────────────┬── the Node's record, at the price paid ──
//!         launched                                     Node created
//! ```
//!
//! So no second is on two records, and seconds without a Node are on the claim's record.

use std::collections::{BTreeMap, BTreeSet};

use costing::{Attribution, End, MachineStart, Moment, NodeRecord, Purchase};

use super::gangs::Gangs;
use super::nodes::Nodes;
use super::unseen::unseen_end;
use crate::meter::machine::{LaunchedMachine, NodeClaim, machine};

#[derive(Debug, Default)]
pub(super) struct Machines {
    known: BTreeMap<String, Bought>,
    pub(super) dirty: BTreeSet<String>,
    /// The incomplete list.
    pub(super) listing: Option<BTreeSet<String>>,
}

#[derive(Debug)]
struct Bought {
    machine: LaunchedMachine,
    /// Who is charged, once its gang is known.
    buyer: Option<Attribution>,
    /// Whether it had a Node: its own record ended with the Node's creation.
    had_node: bool,
    /// When its claim was gone.
    gone: Option<Moment>,
    /// Whether its record and its Node have its end.
    is_settled: bool,
    record: NodeRecord,
}

impl Machines {
    pub(super) fn see(&mut self, claim: &NodeClaim) {
        let Some(machine) = machine(claim) else { return };
        let uid = machine.uid.clone();
        if let Some(listing) = &mut self.listing {
            listing.insert(uid.clone());
        }
        match self.known.get_mut(&uid) {
            Some(known) if known.machine == machine => return,
            Some(known) => known.machine = machine,
            None => drop(self.known.insert(uid.clone(), Bought::new(machine))),
        }
        self.dirty.insert(uid);
    }

    /// Notes that its claim is gone.
    pub(super) fn gone(&mut self, uid: &str, at: Moment) {
        let Some(bought) = self.known.get_mut(uid) else { return };
        bought.gone = bought.gone.or(Some(at));
        self.dirty.insert(uid.to_owned());
    }

    /// The UIDs that the completed list did not have.
    pub(super) fn not_listed(&mut self) -> Vec<String> {
        let listed = self.listing.take().unwrap_or_default();
        let existing = self.known.iter().filter(|(_, bought)| bought.gone.is_none()).map(|(uid, _)| uid);
        existing.filter(|uid| !listed.contains(*uid)).cloned().collect()
    }

    /// Links machines with their Nodes and with the gangs that they were bought for.
    pub(super) fn link<'q>(
        &mut self,
        nodes: &mut Nodes,
        gangs: &Gangs,
        default_queue: impl Fn(&str) -> Option<&'q str>,
    ) {
        for (uid, bought) in &mut self.known {
            bought.find_buyer(gangs, &default_queue);
            let machine = &bought.machine;
            let purchase = bought.purchase(machine.opened_at);
            let node = machine.address.as_ref();
            let node =
                node.and_then(|address| nodes.learn_purchase(address, purchase, machine.terminating_at));
            bought.had_node |= node.is_some();
            bought.is_settled = bought.gone.is_some();
            let said = bought.own_record(node);
            let joined = bought.record.clone().join(said);
            if joined != bought.record {
                bought.record = joined;
                self.dirty.insert(uid.clone());
            }
        }
    }

    /// Takes in the ledger's records of machines; returns the other records.
    pub(super) fn in_ledger(&mut self, open: Vec<NodeRecord>) -> Vec<NodeRecord> {
        let mut others = Vec::new();
        for recorded in open {
            let Some(bought) = self.known.get_mut(&recorded.uid) else {
                others.push(recorded);
                continue;
            };
            bought.record = bought.record.clone().join(recorded.clone());
            if bought.record != recorded {
                self.dirty.insert(recorded.uid);
            }
        }
        others
    }

    pub(super) fn batch(&self, max: usize) -> Vec<NodeRecord> {
        let dirty = self.dirty.iter().take(max).filter_map(|uid| self.known.get(uid));
        dirty.map(|bought| bought.record.clone()).collect()
    }

    pub(super) fn recorded(&mut self, record: &NodeRecord) {
        // A record that changed since the batch was taken is not in the ledger yet.
        let Some(bought) = self.known.get(&record.uid).filter(|bought| bought.record == *record) else {
            return;
        };
        let (is_gone, is_settled) = (bought.gone.is_some(), bought.is_settled);
        if is_gone == is_settled {
            self.dirty.remove(&record.uid);
        }
        if is_settled {
            self.known.remove(&record.uid);
        }
    }
}

impl Bought {
    fn new(machine: LaunchedMachine) -> Self {
        let record = NodeRecord {
            uid: machine.uid.clone(),
            name: machine.name.clone(),
            created_at: machine.launched_at,
            shapes: vec![(machine.launched_at, machine.shape.clone())],
            ended: None,
            bought: None,
        };
        Self { machine, buyer: None, had_node: false, gone: None, is_settled: false, record }
    }

    /// The bill does not follow a namespace's queue that changes later.
    fn find_buyer<'q>(&mut self, gangs: &Gangs, default_queue: impl Fn(&str) -> Option<&'q str>) {
        let Some(gang) = self.machine.gang.as_ref().filter(|_| self.buyer.is_none()) else { return };
        self.buyer = gangs.buyer(gang).map(|buyer| Attribution {
            queue: buyer.queue.clone().or_else(|| default_queue(&gang.0).map(str::to_owned)),
            ..buyer.clone()
        });
    }

    fn purchase(&self, opened_at: Option<Moment>) -> Purchase {
        let of_its_gang = || Attribution {
            namespace: self.machine.gang.as_ref().map(|(namespace, _)| namespace.clone()),
            ..Attribution::default()
        };
        let buyer = self.buyer.clone().unwrap_or_else(of_its_gang);
        let LaunchedMachine { paid, on_demand, .. } = self.machine;
        Purchase { paid, on_demand, start: Some(MachineStart { buyer, opened_at }) }
    }

    /// The record of its time without a Node. `node` is when the Node was created, if it has one.
    fn own_record(&self, node: Option<Moment>) -> NodeRecord {
        let LaunchedMachine { launched_at, terminating_at, has_node, .. } = self.machine;
        let had_node = self.had_node || has_node;
        let unseen = self.gone.map(|at| unseen_end(at, launched_at));
        let ended = match (node, terminating_at) {
            (Some(created), _) => Some(End::Certain(created.max(launched_at))),
            (None, Some(at)) if !had_node => Some(End::Certain(at.max(launched_at))),
            _ => unseen,
        };
        let shapes = vec![(launched_at, self.machine.shape.clone())];
        // Only a Node can be open to pods.
        let bought = Some(self.purchase(None));
        NodeRecord { created_at: launched_at, shapes, ended, bought, ..self.record.clone() }
    }
}
