//! What a gang asks beyond resources, as its pods write it: how long it may run, where it must be, and what may be
//! done to it once it runs.

use std::sync::Arc;

use api_types::{names, price};
use cluster_model::{EvictionTerms, Level, Terms, TopologyTerms};
use jiff::Timestamp;
use slim_objects::requests::quoted;
use slim_objects::{LEVELS, SlimPod, annotation};

/// The terms of the pod's gang. Values that cannot be read are named in `unsupported`, and never guessed.
pub(crate) fn terms(pod: &SlimPod, unsupported: &mut Vec<String>) -> Arc<Terms> {
    let spot =
        written(pod, names::SPOT_ANNOTATION).map(|_| flag(pod, names::SPOT_ANNOTATION, false, unsupported));
    let terms = Terms {
        time_limit_seconds: pod.spec.active_deadline_seconds.map(|it| u32::try_from(it).unwrap_or(u32::MAX)),
        topology: TopologyTerms {
            required: level(pod, names::TOPOLOGY_REQUIRED_ANNOTATION, unsupported),
            preferred: level(pod, names::TOPOLOGY_PREFERRED_ANNOTATION, unsupported),
            segment: None,
        },
        eviction: EvictionTerms {
            // Any value but a clear no is taken as a wish to be left alone.
            never: flag(pod, names::NEVER_EVICT_ANNOTATION, true, unsupported),
            checkpoints: flag(pod, names::CHECKPOINTS_ANNOTATION, false, unsupported),
        },
        // Without an answer, the gang takes existing spot nodes, as under any other scheduler.
        takes_spot: spot != Some(false),
        buys_spot: spot == Some(true),
        max_price_micros: read(pod, names::MAX_PRICE_ANNOTATION, price::micros, "not a price", unsupported),
        deadline: read(pod, names::DEADLINE_ANNOTATION, |text| text.parse().ok(), "not a time", unsupported),
        ..Terms::default()
    };
    Arc::new(terms)
}

/// When a pod last saved its state. A text that is not a time is ignored.
pub(crate) fn checkpointed(pod: &SlimPod) -> Option<Timestamp> {
    annotation(pod, names::CHECKPOINTED_AT_ANNOTATION)?.parse().ok()
}

fn level(pod: &SlimPod, name: &str, unsupported: &mut Vec<String>) -> Option<Level> {
    let asked = annotation(pod, name)?;
    let position = LEVELS.iter().position(|(level, _)| *level == asked);
    if position.is_none() {
        let levels = LEVELS.map(|(level, _)| level).join(", ");
        unsupported.push(format!("annotation {name} is {}, not one of {levels}", quoted(asked)));
    }
    position.and_then(|position| u8::try_from(position).ok()).map(Level)
}

fn read<T>(
    pod: &SlimPod,
    name: &str,
    meaning: impl FnOnce(&str) -> Option<T>,
    otherwise: &str,
    unsupported: &mut Vec<String>,
) -> Option<T> {
    let text = written(pod, name)?;
    let found = meaning(text);
    if found.is_none() {
        unsupported.push(format!("annotation {name} is {}, which is {otherwise}", quoted(text)));
    }
    found
}

/// Yes or no; `unclear` if it is neither, which is the side that costs the gang nothing.
fn flag(pod: &SlimPod, name: &str, unclear: bool, unsupported: &mut Vec<String>) -> bool {
    match written(pod, name) {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            unsupported.push(format!("annotation {name} is {}, neither true nor false", quoted(other)));
            unclear
        }
    }
}

/// An annotation, even if it is empty.
fn written<'a>(pod: &'a SlimPod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use cluster_model::Level;
    use serde_json::json;
    use slim_objects::SlimPod;

    use super::{checkpointed, terms};

    fn pod(annotations: &serde_json::Value) -> SlimPod {
        serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "n", "uid": "u", "annotations": annotations },
            "spec": { "activeDeadlineSeconds": 3600 },
        }))
        .unwrap()
    }

    #[test]
    fn annotations_become_terms() {
        let mut unsupported = Vec::new();
        let pod = pod(&json!({
            "warpyard.dev/never-evict": "true",
            "warpyard.dev/checkpoints": "true",
            "warpyard.dev/checkpointed-at": "2026-11-15T02:00:00Z",
            "warpyard.dev/topology-required": "zone",
            "warpyard.dev/topology-preferred": "rack",
            "warpyard.dev/max-price": "29.4",
            "warpyard.dev/deadline": "2026-12-01T09:00:00+01:00",
        }));
        let found = terms(&pod, &mut unsupported);
        assert_eq!(found.max_price_micros, Some(29_400_000));
        assert_eq!(found.deadline.map(|at| at.to_string()).as_deref(), Some("2026-12-01T08:00:00Z"));
        assert_eq!(found.time_limit_seconds, Some(3600));
        assert_eq!((found.topology.required, found.topology.preferred), (Some(Level(0)), Some(Level(2))));
        assert!(found.eviction.never && found.eviction.checkpoints);
        assert_eq!(checkpointed(&pod).map(|at| at.to_string()).as_deref(), Some("2026-11-15T02:00:00Z"));
        assert!(unsupported.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let mut unsupported = Vec::new();
        let pod = pod(&json!({
            "warpyard.dev/never-evict": "yes",
            "warpyard.dev/checkpoints": "yes",
            "warpyard.dev/topology-required": "galaxy",
            "warpyard.dev/checkpointed-at": "yesterday",
            "warpyard.dev/max-price": "much",
            "warpyard.dev/deadline": "soon",
        }));
        let found = terms(&pod, &mut unsupported);
        assert!(found.eviction.never, "no gang is evicted for a slip of the pen");
        assert!(!found.eviction.checkpoints, "nor moved");
        assert_eq!(found.topology.required, None);
        assert_eq!(checkpointed(&pod), None);
        assert_eq!(
            unsupported,
            [
                "annotation warpyard.dev/topology-required is galaxy, not one of zone, block, rack",
                "annotation warpyard.dev/never-evict is yes, neither true nor false",
                "annotation warpyard.dev/checkpoints is yes, neither true nor false",
                "annotation warpyard.dev/max-price is much, which is not a price",
                "annotation warpyard.dev/deadline is soon, which is not a time",
            ]
        );
    }

    #[test]
    fn spot_machines_are_taken_unless_refused_and_bought_only_if_asked_for() {
        let spot = |annotations: serde_json::Value| {
            let found = terms(&pod(&annotations), &mut Vec::new());
            (found.takes_spot, found.buys_spot)
        };
        assert_eq!(spot(json!({})), (true, false));
        assert_eq!(spot(json!({ "warpyard.dev/spot": "true" })), (true, true));
        assert_eq!(spot(json!({ "warpyard.dev/spot": "false" })), (false, false));
        assert_eq!(spot(json!({ "warpyard.dev/spot": "" })), (false, false), "it is unsupported anyway");
    }

    #[test]
    fn a_gang_stays_unless_it_says_in_plain_words_that_it_may_go() {
        let stays = |text: &str| {
            let pod = pod(&json!({ "warpyard.dev/never-evict": text }));
            terms(&pod, &mut Vec::new()).eviction.never
        };
        assert!(["true", "True", "1", ""].into_iter().all(stays));
        assert!(!stays("false"));
        assert!(!terms(&pod(&json!({})), &mut Vec::new()).eviction.never);
    }
}
