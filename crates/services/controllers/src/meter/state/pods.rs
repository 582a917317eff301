//! Pods: which exist, their use, and which of them our finalizer holds.

use std::collections::{BTreeMap, BTreeSet};

use costing::PodRecord;
use slim_objects::SlimPod;

use super::unseen::unseen_end;
use crate::meter::observe::{is_held, is_ours, is_over, pod_record};

/// A pod that our finalizer holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: another pod of the same name is left alone.
    pub uid: String,
}

#[derive(Debug, Default)]
pub(super) struct Pods {
    known: BTreeMap<String, Pod>,
    pub(super) dirty: BTreeSet<String>,
    releasable: BTreeSet<String>,
    /// The incomplete list.
    pub(super) listing: Option<BTreeSet<String>>,
}

#[derive(Debug)]
struct Pod {
    namespace: String,
    name: String,
    presence: Presence,
    /// It uses nothing any more.
    over: bool,
    /// Whether its namespace's queue is charged if it names none. False if the ledger had the pod before us:
    /// then the ledger's queue counts.
    may_default_queue: bool,
    /// `None` before it has a node.
    record: Option<PodRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// It is gone.
    Gone,
    /// It exists without our finalizer.
    Free,
    /// Our finalizer holds it.
    Held,
}

impl Pods {
    pub(super) fn see(&mut self, pod: &SlimPod) {
        let metadata = &pod.metadata;
        let (Some(uid), Some(namespace), Some(name)) = (&metadata.uid, &metadata.namespace, &metadata.name)
        else {
            return;
        };
        if let Some(listing) = &mut self.listing {
            listing.insert(uid.clone());
        }
        let before = self.known.remove(uid);
        let may_default_queue =
            before.as_ref().map_or_else(|| is_ours(pod), |before| before.may_default_queue);
        let before = before.and_then(|before| before.record);
        let said = pod_record(pod);
        let record = match (before.clone(), said) {
            (Some(before), Some(said)) => Some(before.join(said)),
            (before, said) => before.or(said),
        };
        if record != before {
            self.dirty.insert(uid.clone());
        }
        let held = is_held(pod);
        // A pod that waits for a node and does not have our finalizer is of no interest.
        if held || record.is_some() {
            let seen = Pod {
                namespace: namespace.clone(),
                name: name.clone(),
                presence: if held { Presence::Held } else { Presence::Free },
                over: is_over(pod),
                may_default_queue,
                record,
            };
            self.known.insert(uid.clone(), seen);
        }
        self.settle(uid);
    }

    /// Notes that the pod is gone; `at` is its end if the object did not show one.
    pub(super) fn gone(&mut self, uid: &str, at: costing::Moment) {
        let Some(pod) = self.known.get_mut(uid) else { return };
        pod.presence = Presence::Gone;
        if let Some(record) = &mut pod.record
            && record.ended.is_none()
        {
            record.ended = Some(unseen_end(at, record.started_at.unwrap_or(record.scheduled_at)));
            self.dirty.insert(uid.to_owned());
        }
        self.settle(uid);
    }

    pub(super) fn vanished(&mut self, mut record: PodRecord, at: costing::Moment) {
        if self.known.contains_key(&record.uid) {
            return;
        }
        record.ended = Some(unseen_end(at, record.started_at.unwrap_or(record.scheduled_at)));
        let (uid, namespace, name) = (record.uid.clone(), record.namespace.clone(), record.name.clone());
        let pod = Pod {
            namespace,
            name,
            presence: Presence::Gone,
            over: true,
            may_default_queue: false,
            record: Some(record),
        };
        self.dirty.insert(uid.clone());
        self.known.insert(uid, pod);
    }

    /// The UIDs that the completed list did not have.
    pub(super) fn not_listed(&mut self) -> Vec<String> {
        let listed = self.listing.take().unwrap_or_default();
        let existing =
            self.known.iter().filter(|(_, pod)| pod.presence != Presence::Gone).map(|(uid, _)| uid);
        existing.filter(|uid| !listed.contains(*uid)).cloned().collect()
    }

    pub(super) fn in_ledger(&mut self, open: Vec<PodRecord>) -> Vec<PodRecord> {
        let mut unknown = Vec::new();
        for recorded in open {
            let Some(pod) = self.known.get_mut(&recorded.uid) else {
                unknown.push(recorded);
                continue;
            };
            let uid = recorded.uid.clone();
            let joined = match pod.record.take() {
                Some(known) => known.join(recorded.clone()),
                None => recorded.clone(),
            };
            if joined == recorded {
                self.dirty.remove(&uid);
            }
            pod.record = Some(joined);
            pod.may_default_queue = false;
            self.settle(&uid);
        }
        unknown
    }

    pub(super) fn without_queue(&self) -> Vec<String> {
        let to_default = self.known.iter().filter(|(_, pod)| {
            pod.may_default_queue && pod.record.as_ref().is_some_and(|record| record.queue.is_none())
        });
        to_default.map(|(uid, _)| uid.clone()).collect()
    }

    pub(super) fn batch<'q>(
        &mut self,
        max: usize,
        default_queue: impl Fn(&str) -> Option<&'q str>,
    ) -> Vec<PodRecord> {
        let mut records = Vec::new();
        for uid in self.dirty.iter().take(max) {
            let Some(pod) = self.known.get_mut(uid) else { continue };
            let Some(record) = &mut pod.record else { continue };
            if pod.may_default_queue && record.queue.is_none() {
                record.queue = default_queue(&record.namespace).map(str::to_owned);
            }
            records.push(record.clone());
        }
        records
    }

    pub(super) fn recorded(&mut self, record: &PodRecord) {
        // A record that changed since the batch was taken is not in the ledger yet.
        if self.known.get(&record.uid).is_some_and(|pod| pod.record.as_ref() == Some(record)) {
            self.dirty.remove(&record.uid);
            self.settle(&record.uid);
        }
    }

    pub(super) fn has_releasable(&self) -> bool {
        !self.releasable.is_empty()
    }

    pub(super) fn releasable(&self) -> Vec<Held> {
        let held = self.releasable.iter().filter_map(|uid| Some((uid, self.known.get(uid)?)));
        held.map(|(uid, pod)| Held {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: uid.clone(),
        })
        .collect()
    }

    pub(super) fn released(&mut self, uid: &str) {
        if let Some(pod) = self.known.get_mut(uid)
            && pod.presence == Presence::Held
        {
            pod.presence = Presence::Free;
        }
        self.settle(uid);
    }

    /// Updates whether a pod may be released, and whether it may be forgotten.
    fn settle(&mut self, uid: &str) {
        let Some(pod) = self.known.get(uid) else {
            self.releasable.remove(uid);
            return;
        };
        let clean = !self.dirty.contains(uid);
        if clean && pod.presence == Presence::Held && pod.over {
            self.releasable.insert(uid.to_owned());
        } else {
            self.releasable.remove(uid);
        }
        if clean && pod.presence == Presence::Gone {
            self.known.remove(uid);
        }
    }
}
