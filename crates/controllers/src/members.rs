//! Which pods each Run has, kept up to date by one watch: reading a Run's members costs its members, never all pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{PoisonError, RwLock};

use cluster_convert::SlimPod;
use kube::runtime::watcher::Event;

use crate::run::member::{Member, member_of};

/// A Run by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

type ByRun = HashMap<RunKey, BTreeMap<String, Member>>;

/// The members of every Run, by pod name.
#[derive(Debug, Default)]
pub struct Members {
    index: RwLock<Index>,
}

#[derive(Debug, Default)]
struct Index {
    runs: ByRun,
    /// What a list has brought so far; it replaces `runs` when it is complete, so that nobody sees half a list.
    listing: ByRun,
}

impl Members {
    /// The pods of a Run, by name.
    pub fn of(&self, run: &RunKey) -> Vec<Member> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.runs.get(run).map(|members| members.values().cloned().collect()).unwrap_or_default()
    }

    /// Takes in what the watch said; returns the Runs whose members changed.
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
                    // Heartbeats of a pod that say nothing new wake nobody.
                    touched.extend(changed.then_some(run));
                }
            }
            Event::Delete(pod) => {
                if let Some((run, member)) = member_of(pod) {
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
    use cluster_convert::SlimPod;
    use kube::runtime::watcher::Event;
    use serde_json::json;

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
    fn only_what_changed_wakes_a_run() {
        let members = Members::default();
        assert_eq!(members.apply(&Event::Apply(pod("a", "a-0", "Pending"))), [key("a")].into());
        assert!(members.apply(&Event::Apply(pod("a", "a-0", "Pending"))).is_empty());
        assert_eq!(members.apply(&Event::Apply(pod("a", "a-0", "Running"))), [key("a")].into());
        assert_eq!(members.apply(&Event::Delete(pod("a", "a-0", "Running"))), [key("a")].into());
        assert!(members.of(&key("a")).is_empty());
    }
}
