//! What status reads of a member's pod.

use jiff::Timestamp;

/// One pod of a Run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The pod's name.
    pub pod: String,
    /// The UID of the Job that made it.
    pub job_uid: String,
    /// Which member it is, from 0.
    pub index: u32,
    /// When the pod was created.
    pub created: Option<Timestamp>,
    /// Where it is placed.
    pub node: Option<String>,
    /// How far it has come.
    pub phase: PodPhase,
    /// Somebody deleted the pod: after a failure, the Job controller does so with the others.
    pub deleted: bool,
    /// Why it is being taken away from outside (condition `DisruptionTarget`).
    pub disruption: Option<String>,
    /// The pod's own word for its failure, such as `Evicted` or `DeadlineExceeded`.
    pub reason: Option<String>,
    /// Why the container does not start, such as `ImagePullBackOff`.
    pub stuck: Option<String>,
    /// How the container ended.
    pub exit: Option<Exit>,
    /// When the container started.
    pub started_at: Option<Timestamp>,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// The exit code.
    pub code: i32,
    /// The kubelet's word, such as `Error` or `OOMKilled`.
    pub reason: Option<String>,
    /// When.
    pub at: Option<Timestamp>,
}

/// A pod's phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPhase {
    /// Not running yet.
    Pending,
    /// Running.
    Running,
    /// Ended with 0.
    Succeeded,
    /// Ended otherwise.
    Failed,
}

impl Member {
    /// Whether it failed by itself, and not because it was taken away.
    pub fn failed_itself(&self) -> bool {
        self.phase == PodPhase::Failed && self.disruption.is_none()
    }

    /// Word and sentence on why it does not start.
    pub fn trouble(&self) -> Option<(String, String)> {
        let stuck = self.stuck.as_ref()?;
        let place = self.node.as_deref().unwrap_or("no node");
        Some((stuck.clone(), format!("member {} on {place} does not start ({stuck})", self.index)))
    }

    /// What became of it, for people; `None` unless it failed by itself.
    pub fn failure(&self) -> Option<String> {
        if !self.failed_itself() {
            return None;
        }
        let place = self.node.as_deref().map(|node| format!(" on {node}")).unwrap_or_default();
        let word = |reason: &Option<String>| {
            reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default()
        };
        let after = if self.deleted { " after its pod was deleted" } else { "" };
        Some(match &self.exit {
            // A pod that was ended for a reason of its own says more by that reason than by the exit code.
            Some(exit) if self.reason.is_none() => {
                format!("member {}{place} exited with {}{}{after}", self.index, exit.code, word(&exit.reason))
            }
            _ => format!("member {}{place} failed{}{after}", self.index, word(&self.reason)),
        })
    }
}
