//! The pod whose versions show how far the watch of pods has come.

use std::sync::Arc;

use cluster_model::PodKey;
use kube::api::ObjectMeta;
use tokio::sync::Notify;

/// A pod, and the version of it that was reported but not yet taken.
#[derive(Debug)]
pub struct Landmark {
    pod: PodKey,
    version: Option<u64>,
    late: Arc<Notify>,
}

impl Landmark {
    /// A landmark that was not seen yet. If a version is awaited in vain, `late` is notified: the
    /// watch may be dead without noticing, and a new list has the version. A list that is under way
    /// goes on.
    pub fn new(pod: PodKey, late: Arc<Notify>) -> Self {
        Self { pod, version: None, late }
    }

    /// Looks at an object that was reported.
    pub fn look(&mut self, object: &ObjectMeta) {
        let PodKey { namespace, name, uid } = &self.pod;
        let is_it = object.name.as_deref() == Some(&**name)
            && object.namespace.as_deref() == Some(&**namespace)
            && object.uid.as_deref() == Some(&**uid);
        if is_it {
            self.version = object.resource_version.as_deref().and_then(|version| version.parse().ok());
        }
    }

    /// A list begins: a version seen before does not count.
    pub fn forget(&mut self) {
        self.version = None;
    }

    /// The version to report; each is returned once.
    pub fn take_version(&mut self) -> Option<u64> {
        self.version.take()
    }

    /// Completes when a version is awaited in vain.
    pub async fn late(&self) {
        self.late.notified().await;
    }
}
