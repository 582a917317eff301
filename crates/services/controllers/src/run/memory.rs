//! Reads from a pod that a member ran out of memory: the kernel killed it, or its framework says so.

use api_types::names::OUT_OF_MEMORY_WORDS;
use slim_objects::{SlimContainerStatus, SlimPod};

/// The most characters that are kept of a framework's words.
const WORDS_MAX: usize = 300;

/// The memory that a member ran out of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exhausted {
    /// The kernel killed it.
    Host {
        /// Its limit; without one, the memory of its node was used up.
        limit: Option<String>,
    },
    /// Its framework said so, in these words: in most cases about the memory of a GPU.
    Framework {
        /// The words.
        words: String,
    },
}

impl Exhausted {
    /// What the ended container ran out of, if that is why it ended.
    pub fn of(pod: &SlimPod, status: &SlimContainerStatus) -> Option<Self> {
        let ended = status.state.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
        if ended.reason.as_deref() == Some("OOMKilled") {
            let container = pod.spec.containers.iter().find(|container| container.name == status.name);
            let limit = container.and_then(|container| container.resources.limits.get("memory")).cloned();
            return Some(Self::Host { limit });
        }
        let words = ended.message.as_deref()?.strip_prefix(OUT_OF_MEMORY_WORDS)?.trim();
        let kept = words.chars().filter(|c| !c.is_control()).take(WORDS_MAX);
        Some(Self::Framework { words: kept.collect() })
    }

    /// What happened and what to change, as the rest of a sentence about a member.
    pub fn tell(&self) -> String {
        match self {
            Self::Host { limit: Some(limit) } => format!(
                "ran out of memory: its limit is {limit}; set a larger `memory` in the job file, or use less"
            ),
            Self::Host { limit: None } => {
                "was killed because its node ran out of memory; set `memory` in the job file, so that it gets \
                 a node with enough"
                    .to_owned()
            }
            Self::Framework { words } => format!(
                "ran out of memory, says its framework: {words}; use a smaller batch or model part for each \
                 GPU, or GPUs with more memory"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use slim_objects::SlimPod;

    use super::Exhausted;

    fn exhausted(code: i32, reason: &str, message: &str, limit: Option<&str>) -> Option<Exhausted> {
        let limits = limit.map_or(json!({}), |limit| json!({ "memory": limit }));
        let ended = json!({ "exitCode": code, "reason": reason, "message": message });
        let pod: SlimPod = serde_json::from_value(json!({
            "metadata": { "name": "x" },
            "spec": { "containers": [{ "name": "other" }, { "name": "main", "resources": { "limits": limits } }] },
            "status": { "containerStatuses": [{ "name": "main", "state": { "terminated": ended } }] },
        }))
        .unwrap();
        Exhausted::of(&pod, &pod.status.container_statuses[0])
    }

    #[test]
    fn the_limit_is_named_and_a_node_without_memory_is_told_apart() {
        let told = |limit| exhausted(137, "OOMKilled", "", limit).unwrap().tell();
        assert!(told(Some("64Gi")).contains("its limit is 64Gi; set a larger `memory`"));
        assert!(told(None).contains("its node ran out of memory; set `memory`"));
    }

    #[test]
    fn a_framework_says_it_in_its_last_words() {
        let said = |code, message| exhausted(code, "Error", message, Some("64Gi"));
        let told = said(1, "OutOfMemory: CUDA out of memory.\n").unwrap().tell();
        assert!(told.contains("says its framework: CUDA out of memory.; use a smaller batch"), "{told}");
        assert_eq!(said(1, "Traceback: out of memory"), None);
        assert_eq!(said(0, "OutOfMemory: caught, and went on"), None);
        let Some(Exhausted::Framework { words }) = said(1, &format!("OutOfMemory: {}", "x".repeat(9999)))
        else {
            panic!("it says so");
        };
        assert_eq!(words.len(), 300, "tenants write the words, so they are bounded");
    }
}
