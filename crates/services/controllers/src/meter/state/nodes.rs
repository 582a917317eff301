//! Nodes that exist, with their shapes.

use std::collections::{BTreeMap, BTreeSet};

use costing::{End, Moment, NodeRecord, Purchase};
use slim_objects::SlimNode;

use super::unseen::unseen_end;
use crate::meter::observe::{node_record, shape};

#[derive(Debug, Default)]
pub(super) struct Nodes {
    known: BTreeMap<String, Node>,
    pub(super) dirty: BTreeSet<String>,
    /// UIDs by the cloud's address of the machine.
    by_machine: BTreeMap<String, String>,
    /// The incomplete list.
    pub(super) listing: Option<BTreeSet<String>>,
}

#[derive(Debug)]
struct Node {
    exists: bool,
    /// When we saw it first. For the time before, the ledger may know more.
    first_seen: Moment,
    record: NodeRecord,
}

impl Nodes {
    /// A new node is taken to have had its shape from the beginning; a changed shape of a known node counts
    /// from now on.
    pub(super) fn see(&mut self, node: &SlimNode, now: Moment) {
        let Some(said) = node_record(node) else { return };
        let uid = said.uid.clone();
        if let Some(listing) = &mut self.listing {
            listing.insert(uid.clone());
        }
        if let Some(machine) = &node.spec.provider_id {
            self.by_machine.insert(machine.clone(), uid.clone());
        }
        let Some(known) = self.known.get_mut(&uid) else {
            self.known.insert(uid.clone(), Node { exists: true, first_seen: now, record: said });
            self.dirty.insert(uid);
            return;
        };
        if known.record.learn_purchase(said.bought) {
            self.dirty.insert(uid.clone());
        }
        let shape = shape(node);
        if known.record.is_news(now, &shape) {
            known.record.shapes.push((now, shape));
            known.record.shapes.sort_unstable();
            self.dirty.insert(uid);
        }
    }

    /// Copies a machine's purchase, and the time at which it was told to end, to its Node. Returns when the
    /// Node was created, if there is one.
    pub(super) fn learn_purchase(
        &mut self,
        machine: &str,
        bought: Purchase,
        terminating_at: Option<Moment>,
    ) -> Option<Moment> {
        let uid = self.by_machine.get(machine)?;
        let node = self.known.get_mut(uid)?;
        let mut is_news = node.record.learn_purchase(Some(bought));
        // A machine that was told to end is not paid for any more. If its Node went before, the machine had
        // ended by itself.
        if let Some(at) = terminating_at
            && matches!(node.record.ended, None | Some(End::Provisional(_)))
            && node.record.ended.is_none_or(|end| at <= end.at())
        {
            node.record.ended = Some(End::Certain(at.max(node.record.created_at)));
            is_news = true;
        }
        if is_news {
            self.dirty.insert(uid.clone());
        }
        Some(node.record.created_at)
    }

    /// Notes that the node is gone.
    pub(super) fn gone(&mut self, uid: &str, at: Moment) {
        let Some(node) = self.known.get_mut(uid) else { return };
        node.exists = false;
        if node.record.ended.is_none() {
            node.record.ended = Some(unseen_end(at, node.record.created_at));
            self.dirty.insert(uid.to_owned());
        }
        self.settle(uid);
    }

    /// The UIDs that the completed list did not have.
    pub(super) fn not_listed(&mut self) -> Vec<String> {
        let listed = self.listing.take().unwrap_or_default();
        let existing = self.known.iter().filter(|(_, node)| node.exists).map(|(uid, _)| uid);
        existing.filter(|uid| !listed.contains(*uid)).cloned().collect()
    }

    pub(super) fn vanished(&mut self, mut record: NodeRecord, at: Moment) {
        if self.known.contains_key(&record.uid) {
            return;
        }
        record.ended = Some(unseen_end(at, record.created_at));
        self.dirty.insert(record.uid.clone());
        self.known.insert(record.uid.clone(), Node { exists: false, first_seen: at, record });
    }

    pub(super) fn in_ledger(&mut self, open: Vec<NodeRecord>) -> Vec<NodeRecord> {
        let mut unknown = Vec::new();
        for recorded in open {
            let Some(node) = self.known.get_mut(&recorded.uid) else {
                unknown.push(recorded);
                continue;
            };
            let joined = node.joined_with(&recorded);
            if joined == recorded {
                self.dirty.remove(&recorded.uid);
            } else {
                self.dirty.insert(recorded.uid.clone());
            }
            node.record = joined;
            self.settle(&recorded.uid);
        }
        unknown
    }

    pub(super) fn batch(&self, max: usize) -> Vec<NodeRecord> {
        let dirty = self.dirty.iter().take(max).filter_map(|uid| self.known.get(uid));
        dirty.map(|node| node.record.clone()).collect()
    }

    pub(super) fn recorded(&mut self, record: &NodeRecord) {
        // A record that changed since the batch was taken is not in the ledger yet.
        if self.known.get(&record.uid).is_some_and(|node| node.record == *record) {
            self.dirty.remove(&record.uid);
            self.settle(&record.uid);
        }
    }

    fn settle(&mut self, uid: &str) {
        let forgettable = self.known.get(uid).is_some_and(|node| !node.exists) && !self.dirty.contains(uid);
        if forgettable {
            self.known.remove(uid);
            self.by_machine.retain(|_, of| of != uid);
        }
    }
}

impl Node {
    /// The ledger's record, joined with our newer observations.
    fn joined_with(&self, recorded: &NodeRecord) -> NodeRecord {
        let mut joined = recorded.clone();
        let news = self.record.shapes.iter().filter(|seen| !recorded.shapes.contains(seen));
        for (at, shape) in news {
            let at = (*at).max(self.first_seen);
            if joined.is_news(at, shape) {
                joined.shapes.push((at, shape.clone()));
                joined.shapes.sort_unstable();
            }
        }
        joined.learn_purchase(self.record.bought.clone());
        joined.ended = self.record.ended.or(recorded.ended);
        joined
    }
}
