//! What a gang asks beyond resources, as its pods write it: how long it may run, where it must lie, and what may be done
//! to it once it runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::{names, price};
use cluster_model::{EvictionTerms, Level, Terms, TopologyTerms};
use jiff::Timestamp;

use crate::pod::{annotation, quoted};
use crate::slim::SlimPod;

/// The levels of the topology, the outermost first: what people call them, and the node label that says where a node is.
const LEVELS: [(&str, &str); 3] =
    [("zone", names::ZONE_LABEL), ("block", names::BLOCK_LABEL), ("rack", names::RACK_LABEL)];

/// The terms of the pod's gang. What cannot be read is said in `unsupported`, and never guessed.
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
            // Who wrote anything but no meant to be left alone.
            never: flag(pod, names::NEVER_EVICT_ANNOTATION, true, unsupported),
            checkpoints: flag(pod, names::CHECKPOINTS_ANNOTATION, false, unsupported),
        },
        // Who says nothing takes what is there, as under any other scheduler.
        takes_spot: spot != Some(false),
        buys_spot: spot == Some(true),
        max_price_micros: read(pod, names::MAX_PRICE_ANNOTATION, price::micros, "no price", unsupported),
        deadline: read(pod, names::DEADLINE_ANNOTATION, |text| text.parse().ok(), "no time", unsupported),
        ..Terms::default()
    };
    Arc::new(terms)
}

/// When a pod last saved its state. What is no time is no news.
pub(crate) fn checkpointed(pod: &SlimPod) -> Option<Timestamp> {
    annotation(pod, names::CHECKPOINTED_AT_ANNOTATION)?.parse().ok()
}

/// The domains that a node lies in. A level that it does not name, but has one further in, is a domain without a name: so
/// a rack is always the third level, also where nobody has labelled zones.
pub fn topology(labels: &BTreeMap<String, String>) -> Vec<Arc<str>> {
    let named = LEVELS.map(|(_, label)| labels.get(label).map_or("", String::as_str));
    let depth = named.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    named.iter().take(depth).map(|name| Arc::from(*name)).collect()
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

/// Yes or no; `unclear` if it is neither, which errs on the side that costs the gang nothing.
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

/// An annotation, also if it is empty.
fn written<'a>(pod: &'a SlimPod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cluster_model::Level;
    use serde_json::json;

    use super::{checkpointed, terms, topology};
    use crate::slim::SlimPod;

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
        assert!(found.eviction.never, "nobody is evicted for a slip of the pen");
        assert!(!found.eviction.checkpoints, "nor moved");
        assert_eq!(found.topology.required, None);
        assert_eq!(checkpointed(&pod), None);
        assert_eq!(
            unsupported,
            [
                "annotation warpyard.dev/topology-required is galaxy, not one of zone, block, rack",
                "annotation warpyard.dev/never-evict is yes, neither true nor false",
                "annotation warpyard.dev/checkpoints is yes, neither true nor false",
                "annotation warpyard.dev/max-price is much, which is no price",
                "annotation warpyard.dev/deadline is soon, which is no time",
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

    #[test]
    fn a_rack_is_the_third_level_whatever_else_is_labelled() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let path = |pairs: &[(&str, &str)]| topology(&labels(pairs)).join("/");
        let (zone, block, rack) =
            ("topology.kubernetes.io/zone", "topology.warpyard.dev/block", "topology.warpyard.dev/rack");
        assert_eq!(path(&[(zone, "z"), (block, "b"), (rack, "r")]), "z/b/r");
        assert_eq!(path(&[(rack, "r")]), "//r");
        assert_eq!(path(&[(zone, "z"), (rack, "r")]), "z//r");
        assert_eq!(topology(&labels(&[(zone, "z")])).len(), 1);
        assert!(topology(&labels(&[])).is_empty(), "in no domain at all");
    }
}
