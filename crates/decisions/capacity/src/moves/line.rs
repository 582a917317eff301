//! What outlives a gang: the run that it is an attempt of.

use std::sync::Arc;

use cluster_model::Pod;

/// What outlives a gang: the namespace, and the run that it is an attempt of, or else its own name.
pub type Lineage = (Arc<str>, Arc<str>);

/// The line of a gang, by one of its pods.
pub fn line(pod: &Pod) -> Lineage {
    let run = pod.run.as_ref().map(|run| Arc::from(format!("run/{run}")));
    (Arc::clone(&pod.gang.namespace), run.unwrap_or_else(|| Arc::clone(&pod.gang.name)))
}
