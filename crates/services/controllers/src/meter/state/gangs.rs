//! Gangs, to find who is charged for machines that were bought for one.

use std::collections::{BTreeMap, BTreeSet};

use api_types::names;
use costing::Attribution;
use slim_objects::SlimPod;

use crate::meter::observe::{attribution, is_ours};

/// Gangs that have pods, by namespace and name. About 100 bytes for each pod: 10 MB for 100,000.
#[derive(Debug, Default)]
pub(super) struct Gangs {
    known: BTreeMap<(String, String), Gang>,
}

#[derive(Debug)]
struct Gang {
    buyer: Attribution,
    pods: BTreeSet<String>,
}

impl Gangs {
    pub(super) fn see(&mut self, pod: &SlimPod) {
        let (Some(key), Some(uid)) = (key(pod), &pod.metadata.uid) else { return };
        let buyer = || Attribution { pod: None, ..attribution(pod) };
        let gang = self.known.entry(key).or_insert_with(|| Gang { buyer: buyer(), pods: BTreeSet::new() });
        gang.pods.insert(uid.clone());
    }

    pub(super) fn gone(&mut self, pod: &SlimPod) {
        let (Some(key), Some(uid)) = (key(pod), &pod.metadata.uid) else { return };
        let Some(gang) = self.known.get_mut(&key) else { return };
        gang.pods.remove(uid);
        if gang.pods.is_empty() {
            self.known.remove(&key);
        }
    }

    pub(super) fn buyer(&self, gang: &(String, String)) -> Option<&Attribution> {
        self.known.get(gang).map(|gang| &gang.buyer)
    }
}

/// Pods of other schedulers are left out: their labels charge nobody, and no machines are bought for them.
fn key(pod: &SlimPod) -> Option<(String, String)> {
    let gang = pod.metadata.labels.as_ref()?.get(names::GANG_LABEL)?;
    is_ours(pod).then(|| Some((pod.metadata.namespace.clone()?, gang.clone()))).flatten()
}
