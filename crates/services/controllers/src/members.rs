//! The pods of each Run, kept up to date by one watch. Reading a Run's members costs only the number of its
//! members.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{PoisonError, RwLock};

use indexmap::IndexMap;
use jiff::Timestamp;
use kube::runtime::watcher::Event;
use slim_objects::SlimPod;

pub use crate::run::member::RunKey;
use crate::run::member::{Member, member_of};

type ByRun = HashMap<RunKey, BTreeMap<String, Member>>;

/// Jobs whose last exits are remembered: 100 bytes each. An attempt's end is written about a second after its
/// last pod's, and no cluster has 16,384 ends in a second.
const EXITS_MAX: usize = 16_384;

/// The members of every Run, by pod name.
#[derive(Debug, Default)]
pub struct Members {
    index: RwLock<Index>,
}

#[derive(Debug, Default)]
struct Index {
    runs: ByRun,
    /// The incomplete list; it replaces `runs` when it is complete, so that nobody sees half a list.
    listing: ByRun,
    /// When the last deleted pod of a Job had ended, by the Job's UID; the newest entry comes last.
    exits: IndexMap<String, Timestamp>,
}

impl Index {
    fn note_exit(&mut self, member: &Member) {
        let Some(at) = member.exit.as_ref().and_then(|exit| exit.at) else { return };
        let known = self.exits.shift_remove(&member.job_uid);
        self.exits.insert(member.job_uid.clone(), known.map_or(at, |known| known.max(at)));
        if self.exits.len() > EXITS_MAX {
            self.exits.shift_remove_index(0);
        }
    }
}

impl Members {
    /// The pods of a Run, by name.
    pub fn of(&self, run: &RunKey) -> Vec<Member> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.runs.get(run).map(|members| members.values().cloned().collect()).unwrap_or_default()
    }

    /// When the last of the Job's deleted pods had ended, from their last state: a pod may be deleted before
    /// its end is read.
    pub fn last_exit(&self, job_uid: &str) -> Option<Timestamp> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.exits.get(job_uid).copied()
    }

    /// GPUs that members hold, by node. It looks at every pod of every Run.
    pub fn gpus_by_node(&self) -> BTreeMap<String, u32> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let mut held = BTreeMap::new();
        for member in index.runs.values().flat_map(BTreeMap::values).filter(|member| !member.is_over()) {
            if let Some(node) = &member.node {
                *held.entry(node.clone()).or_default() += member.gpus;
            }
        }
        held
    }

    /// The Runs with a member on one of these nodes. It looks at every pod of every Run, so ask rarely.
    pub fn on_nodes(&self, nodes: &BTreeSet<String>) -> BTreeSet<RunKey> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let is_on = |member: &Member| member.node.as_ref().is_some_and(|node| nodes.contains(node));
        let runs = index.runs.iter().filter(|(_, members)| members.values().any(is_on));
        runs.map(|(run, _)| run.clone()).collect()
    }

    /// Takes in a watch event; returns the Runs whose members changed.
    pub fn apply(&self, event: &Event<SlimPod>) -> BTreeSet<RunKey> {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let mut touched = BTreeSet::new();
        match event {
            Event::Init => index.listing.clear(),
            Event::InitApply(pod) => {
                if let Some((run, member)) = member_of(pod) {
                    index.listing.entry(run).or_default().insert(member.pod.clone(), member);
                }
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut index.listing);
                let before = std::mem::replace(&mut index.runs, listed);
                touched.extend(before.into_keys());
                touched.extend(index.runs.keys().cloned());
            }
            Event::Apply(pod) => {
                if let Some((run, member)) = member_of(pod) {
                    let members = index.runs.entry(run.clone()).or_default();
                    let changed = members.get(&member.pod) != Some(&member);
                    members.insert(member.pod.clone(), member);
                    // Updates that change nothing wake no Run.
                    touched.extend(changed.then_some(run));
                }
            }
            Event::Delete(pod) => {
                if let Some((run, member)) = member_of(pod) {
                    index.note_exit(&member);
                    if let Some(members) = index.runs.get_mut(&run) {
                        members.remove(&member.pod);
                        if members.is_empty() {
                            index.runs.remove(&run);
                        }
                    }
                    touched.insert(run);
                }
            }
        }
        touched
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::json;
    use slim_objects::SlimPod;

    use super::{Members, RunKey};

    fn pod(run: &str, name: &str, phase: &str) -> SlimPod {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": "team", "labels": { "warpyard.dev/run": run },
                "annotations": { "batch.kubernetes.io/job-completion-index": "0" },
                "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job", "controller": true }],
            },
            "spec": {},
            "status": { "phase": phase },
        }))
        .unwrap()
    }

    fn key(name: &str) -> RunKey {
        RunKey { namespace: "team".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn half_a_list_is_never_seen_and_a_whole_one_replaces() {
        let members = Members::default();
        members.apply(&Event::Init);
        assert!(members.apply(&Event::InitApply(pod("a", "a-0", "Running"))).is_empty());
        assert!(members.of(&key("a")).is_empty());
        assert_eq!(members.apply(&Event::InitDone), [key("a")].into());
        assert_eq!(members.of(&key("a")).len(), 1);
        members.apply(&Event::Init);
        members.apply(&Event::InitApply(pod("b", "b-0", "Running")));
        assert_eq!(members.apply(&Event::InitDone), [key("a"), key("b")].into());
        assert!(members.of(&key("a")).is_empty());
    }

    #[test]
    fn the_last_exit_of_a_job_outlives_its_pods() {
        let members = Members::default();
        let ended = |name: &str, second: i64| {
            let at = crate::run::testing::at(second).to_string();
            let state = json!({ "terminated": { "exitCode": 75, "finishedAt": at } });
            let status =
                json!({ "phase": "Failed", "containerStatuses": [{ "name": "main", "state": state }] });
            SlimPod { status: serde_json::from_value(status).unwrap(), ..pod("a", name, "Failed") }
        };
        members.apply(&Event::Apply(ended("a-0", 9)));
        assert_eq!(members.last_exit("job"), None, "it is still there to say so");
        for (name, second) in [("a-0", 9), ("a-1", 12), ("a-2", 7)] {
            members.apply(&Event::Delete(ended(name, second)));
        }
        members.apply(&Event::Delete(pod("a", "a-3", "Running")));
        assert_eq!(members.last_exit("job"), Some(crate::run::testing::at(12)));
        assert_eq!(members.last_exit("another"), None);
    }

    #[test]
    fn only_what_changed_wakes_a_run() {
        let members = Members::default();
        assert_eq!(members.apply(&Event::Apply(pod("a", "a-0", "Pending"))), [key("a")].into());
        assert!(members.apply(&Event::Apply(pod("a", "a-0", "Pending"))).is_empty());
        assert_eq!(members.apply(&Event::Apply(pod("a", "a-0", "Running"))), [key("a")].into());
        assert_eq!(members.apply(&Event::Delete(pod("a", "a-0", "Running"))), [key("a")].into());
        assert!(members.of(&key("a")).is_empty());
    }
}
