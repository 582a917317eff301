//! `Hold`: nodes kept for a gang, written before the first victim is told to leave. It is the scheduler's log of a
//! preemption under way: a new leader reads it and continues where the old one stopped. People read it too: it says
//! which gang gives way for which, and why.

#![allow(clippy::duplicated_attributes, reason = "columns may have the same type")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// The longest part of a gang's name that goes into the name of its Hold.
const READABLE_MAX: usize = 40;

/// Nodes kept for a gang of the Hold's namespace until it starts there, or until the Hold expires.
///
/// 10,000 members and 10,000 pods that give way take some 1.2 MB, within the 1.5 MiB that etcd stores.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "warpyard.dev",
    version = "v1alpha1",
    kind = "Hold",
    plural = "holds",
    namespaced,
    doc = "Nodes kept for a gang while others leave them. Written and deleted by the scheduler.",
    category = "warpyard",
    printcolumn(name = "Claimant", type_ = "string", json_path = ".spec.claimant"),
    printcolumn(name = "Why", type_ = "string", json_path = ".spec.why"),
    printcolumn(name = "Expires", type_ = "string", json_path = ".spec.expires"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HoldSpec {
    /// The gang that will start there.
    #[schemars(length(min = 1, max = 320))]
    pub claimant: String,
    /// The rule by which victims give way: `Priority`, `Reclaim`, `ExpectedWork` or `Consolidation`; `Room` if the
    /// nodes are for a gang that moves for another claimant.
    #[schemars(with = "String", length(max = 64))]
    pub why: HoldReason,
    /// Which member goes where.
    #[schemars(length(max = 10_000))]
    pub members: Vec<HeldMember>,
    /// The gangs that give way for it.
    // Written even if it is empty: a merge patch without it would keep the victims of the previous Hold. Left out
    // only in the schema, so that the CRD has no default for it.
    #[serde(default)]
    #[schemars(length(max = 10_000), skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<HoldVictim>,
    /// Until when, if the gang has not started by then.
    #[serde(serialize_with = "exactly")]
    pub expires: Time,
    /// The epoch of the scheduler that wrote it.
    pub epoch: i64,
}

/// Kubernetes' own times have whole seconds. Read back, such a hold would end before the one that was committed.
fn exactly<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&time.0)
}

/// Why nodes are kept, in a word. Any word can be read, so that a Hold of another version does not keep a leader from
/// starting.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(from = "String", into = "&'static str")]
pub enum HoldReason {
    /// The claimant has a higher priority.
    Priority,
    /// The claimant's queue takes back its quota.
    Reclaim,
    /// The claimant is expected to end long before its victims.
    ExpectedWork,
    /// Its victims move, so that the claimant finds nodes in one piece.
    Consolidation,
    /// The nodes are for a gang that moves for another claimant.
    Room,
    /// A word of another version.
    Unknown,
}

impl HoldReason {
    const KNOWN: [(Self, &str); 5] = [
        (Self::Priority, "Priority"),
        (Self::Reclaim, "Reclaim"),
        (Self::ExpectedWork, "ExpectedWork"),
        (Self::Consolidation, "Consolidation"),
        (Self::Room, "Room"),
    ];
}

impl From<String> for HoldReason {
    fn from(word: String) -> Self {
        Self::KNOWN.iter().find(|(_, known)| *known == word).map_or(Self::Unknown, |(reason, _)| *reason)
    }
}

impl From<HoldReason> for &'static str {
    fn from(reason: HoldReason) -> Self {
        HoldReason::KNOWN.iter().find(|(known, _)| *known == reason).map_or("Unknown", |(_, word)| word)
    }
}

/// A member and its node.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HeldMember {
    /// UID of the pod. If the gang is moved, this pod still runs elsewhere.
    pub uid: String,
    /// The node.
    pub node: String,
}

/// A gang that gives way as a whole.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HoldVictim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub gang: String,
    /// UIDs of its pods that were told to leave. Pods created later were not told.
    pub uids: Vec<String>,
}

/// The name of a gang's Hold: the same each time, readable, and valid for any gang name.
pub fn hold_name(gang: &str) -> String {
    let readable: String = gang
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .take(READABLE_MAX)
        .collect();
    format!("{}-{:016x}", readable.trim_matches('-'), fnv_1a(gang)).trim_start_matches('-').to_owned()
}

/// 64 bits of FNV-1a. A collision gains nobody anything: objects named by it say themselves which gang they are for.
pub(crate) fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::{HoldReason, HoldSpec, hold_name};

    #[test]
    fn a_hold_that_is_read_back_expires_when_the_one_that_was_written_does() {
        for nanoseconds in [0, 1, 123_456_789, 500_000_000] {
            let expires = Timestamp::new(1_800_000_000, nanoseconds).expect("in range");
            let why = HoldReason::Room;
            let (claimant, members, victims) = ("a".to_owned(), Vec::new(), Vec::new());
            let hold = HoldSpec { claimant, why, members, victims, expires: Time(expires), epoch: 1 };
            let written = serde_json::to_string(&hold).expect("a hold");
            assert_eq!(serde_json::from_str::<HoldSpec>(&written).expect("a hold"), hold, "{written}");
        }
    }

    #[test]
    fn a_reason_is_one_word_and_an_unknown_word_can_be_read() {
        for (reason, word) in HoldReason::KNOWN {
            assert_eq!(serde_json::to_value(reason).expect("a word"), word);
            assert_eq!(HoldReason::from(word.to_owned()), reason);
        }
        assert_eq!(HoldReason::from("Magic".to_owned()), HoldReason::Unknown);
    }

    #[test]
    fn a_hold_has_one_valid_name_per_gang() {
        assert_eq!(hold_name("train-1"), "train-1-ebfdab7cefd81a47");
        for gang in ["train-1", "Train_1", "pod/a", "---", &"x".repeat(63)] {
            let name = hold_name(gang);
            let is_valid =
                |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
            assert!(name.chars().all(is_valid) && !name.starts_with('-') && name.len() <= 63, "{name}");
        }
        assert_ne!(hold_name("train-1"), hold_name("Train-1"), "other gangs have other holds");
    }
}
