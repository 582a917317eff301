//! How a `NodeClaim` says which launch it belongs to: labels and annotations that one scheduler writes and the next
//! one reads.

use std::collections::BTreeMap;

use crate::hold::fnv_1a;
use crate::names::{
    EPOCH_LABEL, FOR_GANG_ANNOTATION, FOR_QUEUE_ANNOTATION, LAUNCH_LABEL, LAUNCH_SIZE_ANNOTATION,
    MACHINE_TYPE_ANNOTATION, PRICE_ANNOTATION,
};

/// What a claim says about its launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchMark {
    /// The namespace and the name of the gang that it was bought for; none for a spare.
    pub gang: Option<(String, String)>,
    /// The queue of that gang.
    pub queue: Option<String>,
    /// Which launch for that gang: the second in which it was decided.
    pub number: i64,
    /// How many claims the launch has.
    pub size: u32,
    /// The `MachineType`.
    pub machine_type: String,
    /// The price at which it was bought, in millionths per hour.
    pub price_micros: i64,
    /// The epoch of the scheduler that bought it.
    pub epoch: i64,
}

/// The name of a gang in a taint: 16 hexadecimal digits, because the gang's own name may be too long for a taint.
pub fn gang_mark(namespace: &str, gang: &str) -> String {
    format!("{:016x}", fnv_1a(&format!("{namespace}/{gang}")))
}

/// The name of a launch for a gang, or for spares of a machine type.
pub fn launch_name(gang: Option<(&str, &str)>, machine_type: &str, number: i64) -> String {
    let whose = match gang {
        Some((namespace, gang)) => gang_mark(namespace, gang),
        None => format!("spare-{:08x}", fnv_1a(machine_type) >> 32),
    };
    format!("{whose}-{number}")
}

impl LaunchMark {
    /// The launch's name, a label on all of its claims.
    pub fn launch_name(&self) -> String {
        let gang = self.gang.as_ref().map(|(namespace, gang)| (namespace.as_str(), gang.as_str()));
        launch_name(gang, &self.machine_type, self.number)
    }

    /// The claim's name. It is the same each time, so that a repeated order orders nothing.
    pub fn claim_name(&self, index: u32) -> String {
        format!("warpyard-{}-{index}", self.launch_name())
    }

    /// The claim's labels.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let labels = [(LAUNCH_LABEL, self.launch_name()), (EPOCH_LABEL, self.epoch.to_string())];
        labels.map(|(key, value)| (key.to_owned(), value)).into()
    }

    /// The claim's annotations.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let gang = self.gang.as_ref().map(|(namespace, gang)| format!("{namespace}/{gang}"));
        let annotations = [
            (FOR_GANG_ANNOTATION, gang),
            (FOR_QUEUE_ANNOTATION, self.queue.clone()),
            (LAUNCH_SIZE_ANNOTATION, Some(self.size.to_string())),
            (MACHINE_TYPE_ANNOTATION, Some(self.machine_type.clone())),
            (PRICE_ANNOTATION, Some(self.price_micros.to_string())),
        ];
        annotations.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    /// Reads what a claim says; `None` if it is not one of ours, or cannot be read.
    pub fn read(labels: &BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> Option<Self> {
        let gang = match annotations.get(FOR_GANG_ANNOTATION) {
            Some(gang) => {
                let (namespace, name) = gang.split_once('/')?;
                Some((namespace.to_owned(), name.to_owned()))
            }
            None => None,
        };
        Some(Self {
            gang,
            queue: annotations.get(FOR_QUEUE_ANNOTATION).cloned(),
            number: labels.get(LAUNCH_LABEL)?.rsplit_once('-')?.1.parse().ok()?,
            size: annotations.get(LAUNCH_SIZE_ANNOTATION)?.parse().ok()?,
            machine_type: annotations.get(MACHINE_TYPE_ANNOTATION)?.clone(),
            price_micros: annotations.get(PRICE_ANNOTATION)?.parse().ok()?,
            epoch: labels.get(EPOCH_LABEL)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LaunchMark;

    fn mark(gang: Option<(&str, &str)>) -> LaunchMark {
        LaunchMark {
            gang: gang.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())),
            queue: gang.map(|_| "team".to_owned()),
            number: 1_763_366_400,
            size: 4,
            machine_type: "h100".to_owned(),
            price_micros: 29_400_000,
            epoch: 7,
        }
    }

    #[test]
    fn what_a_claim_says_is_read_back() {
        for gang in [Some(("nlp", "train.1/a")), None] {
            let mark = mark(gang);
            assert_eq!(LaunchMark::read(&mark.labels(), &mark.annotations()), Some(mark));
        }
    }

    #[test]
    fn a_claim_has_one_valid_name() {
        for gang in [Some(("nlp", "Train_1")), Some((&*"n".repeat(63), &*"x".repeat(253))), None] {
            let name = mark(gang).claim_name(1_000);
            let is_valid =
                |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
            assert!(name.chars().all(is_valid) && name.len() <= 63, "{name}");
        }
        assert_ne!(mark(Some(("a", "b"))).claim_name(0), mark(Some(("a", "c"))).claim_name(0));
    }

    #[test]
    fn claims_of_others_are_not_ours() {
        let (labels, mut annotations) = (mark(None).labels(), mark(None).annotations());
        assert_eq!(LaunchMark::read(&labels, &std::collections::BTreeMap::new()), None);
        annotations.insert("warpyard.dev/for-gang".to_owned(), "no slash".to_owned());
        assert_eq!(LaunchMark::read(&labels, &annotations), None);
    }
}
