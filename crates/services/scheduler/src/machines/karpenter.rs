//! Converts orders to our own `NodeClaim`s for Karpenter, and reads from `NodeClaim`s how the orders go. Pure.

use std::collections::BTreeMap;

use api_types::launch::LaunchMark;
use api_types::machine_type::CapacityType;
use api_types::names;
use capacity::catalogue::{CatalogueMachine, OfferKey, OfferPlace};
use capacity::claim::{Claim, Launch, LaunchKey, Purpose};
use cluster_model::GangKey;
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value as Json, json};

/// Keeps Karpenter from disrupting the machine: we decide what runs on it and when it goes.
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// The guard against leaks: a forgotten machine is deleted after this. It is Karpenter's default, and longer
/// than any planned attempt of a run.
const EXPIRES_AFTER: &str = "720h";

/// The kind of its claims.
pub fn node_claims() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim"), "nodeclaims")
}

/// The manifest of one claim of a launch.
pub fn manifest(launch: &Launch, index: usize, machine: &CatalogueMachine, epoch: i64) -> Json {
    let mark = launch.mark(index, epoch);
    let place = &launch.machines[index].0.place;
    let mut labels = mark.labels();
    if let Some(gpu_type) = &machine.gpu_type {
        labels.insert(names::GPU_TYPE_NODE_LABEL.to_owned(), gpu_type.to_string());
    }
    if let Some(pool) = &machine.node_pool {
        // Without it, Karpenter neither repairs nor counts the machine.
        labels.insert(names::NODE_POOL_LABEL.to_owned(), pool.clone());
    }
    let mut annotations = mark.annotations();
    annotations.insert(DO_NOT_DISRUPT.to_owned(), "true".to_owned());
    if let Some(price_micros) = on_demand_price(machine, place) {
        annotations.insert(names::ON_DEMAND_PRICE_ANNOTATION.to_owned(), price_micros.to_string());
    }
    let taint = |key: &str, value: &str| json!({ "key": key, "value": value, "effect": "NoSchedule" });
    let gpu_taint = (machine.room.gpus > 0).then(|| taint(names::GPU_NODE_TAINT, "true"));
    let barrier = launch.key.mark().map(|mark| taint(names::FOR_GANG_TAINT, &mark));
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": launch.claim_name(index),
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "nodeClassRef": machine.node_class,
            "requirements": requirements(machine, place),
            "resources": { "requests": requests(machine) },
            "taints": gpu_taint.into_iter().collect::<Vec<_>>(),
            // Karpenter leaves the machine alone until these are removed.
            "startupTaints": barrier.into_iter().collect::<Vec<_>>(),
            "expireAfter": EXPIRES_AFTER,
        },
    })
}

/// The on-demand price of a spot machine: in its zone, or else in the cheapest one.
fn on_demand_price(machine: &CatalogueMachine, place: &OfferPlace) -> Option<i64> {
    let on_demand = machine.offers.iter().filter(|offer| offer.place.capacity_type == CapacityType::OnDemand);
    let cheapest = on_demand.min_by_key(|offer| (offer.place.zone != place.zone, offer.price_micros))?;
    (place.capacity_type == CapacityType::Spot).then_some(cheapest.price_micros)
}

/// The requirements of the claim: exactly one offer.
fn requirements(machine: &CatalogueMachine, place: &OfferPlace) -> Vec<Json> {
    let labels = machine.labels(place);
    let asked = labels.iter().filter(|(key, _)| *key != names::GPU_TYPE_NODE_LABEL);
    asked.map(|(key, value)| json!({ "key": key, "operator": "In", "values": [value] })).collect()
}

/// The instance type is fixed, so this decides nothing, but Karpenter calls a machine initialized only when
/// these devices are there. CPU and memory are left out: pods may use less of them than the type has, and only
/// the node knows how much.
fn requests(machine: &CatalogueMachine) -> BTreeMap<&'static str, String> {
    let gpus = machine.room.gpus;
    if gpus > 0 { [(names::GPU_RESOURCE, gpus.to_string())].into() } else { [("cpu", "1".to_owned())].into() }
}

/// Reads a `NodeClaim`; `None` if it is not ours.
pub fn claim(object: &DynamicObject) -> Option<Claim> {
    let metadata = &object.metadata;
    let empty = BTreeMap::new();
    let annotations = metadata.annotations.as_ref().unwrap_or(&empty);
    let mark = LaunchMark::read(metadata.labels.as_ref().unwrap_or(&empty), annotations)?;
    let purpose = match mark.gang {
        Some((namespace, gang)) => Purpose::Gang(GangKey::new(namespace, gang)),
        None => Purpose::Spare(mark.machine_type.as_str().into()),
    };
    let status = &object.data["status"];
    let trouble = status["conditions"].as_array().into_iter().flatten().find_map(trouble);
    let node = status["nodeName"].as_str().filter(|name| !name.is_empty()).map(Into::into);
    Some(Claim {
        name: metadata.name.as_deref()?.into(),
        launch: LaunchKey { purpose, number: mark.number },
        queue: mark.queue.as_deref().map(Into::into),
        of: mark.size,
        offer: OfferKey { machine: mark.machine_type.as_str().into(), place: place(&object.data["spec"])? },
        price_micros: mark.price_micros,
        created: metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |created| created.0),
        ready: node.is_some() && is_true(status, "Registered"),
        node,
        // Karpenter writes conditions as soon as it sees a claim.
        taken_up: status["conditions"].as_array().is_some_and(|conditions| !conditions.is_empty()),
        leaving: metadata.deletion_timestamp.is_some(),
        trouble,
    })
}

fn place(spec: &Json) -> Option<OfferPlace> {
    let requirements = spec["requirements"].as_array()?;
    let value = |key: &str| {
        let requirement = requirements.iter().find(|requirement| requirement["key"] == key)?;
        requirement["values"][0].as_str()
    };
    Some(OfferPlace {
        zone: value(names::ZONE_LABEL)?.into(),
        block: value(names::BLOCK_LABEL).map(Into::into),
        rack: value(names::RACK_LABEL).map(Into::into),
        capacity_type: match value(names::CAPACITY_TYPE_NODE_LABEL)? {
            "spot" => CapacityType::Spot,
            "reserved" => CapacityType::Reserved,
            _ => CapacityType::OnDemand,
        },
    })
}

fn is_true(status: &Json, kind: &str) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn trouble(condition: &Json) -> Option<String> {
    let is_false = condition["type"] == "Launched" && condition["status"] == "False";
    let message = condition["message"].as_str().filter(|message| !message.is_empty());
    is_false.then_some(message?.to_owned())
}

#[cfg(test)]
mod tests {
    use api_types::machine_type::CapacityType;
    use capacity::catalogue::{CatalogueMachine, Offer, OfferKey, OfferPlace};
    use capacity::claim::{Launch, LaunchKey, Purpose};
    use cluster_model::{GangKey, Resources};
    use jiff::Timestamp;
    use kube::api::DynamicObject;
    use serde_json::json;

    use super::{claim, manifest};
    use crate::machines::testing;

    fn machine() -> CatalogueMachine {
        CatalogueMachine {
            room: Resources { gpus: 8, cpu_millis: 192_000, memory_bytes: 1 << 40, pods: 110 },
            idle_seconds: 300,
            node_pool: Some("gangs".to_owned()),
            ..testing::machine()
        }
    }

    fn launch(purpose: Purpose) -> Launch {
        let place = OfferPlace {
            zone: "a".into(),
            block: None,
            rack: Some("r1".into()),
            capacity_type: CapacityType::Spot,
        };
        Launch {
            queue: matches!(purpose, Purpose::Gang(_)).then(|| "team".into()),
            key: LaunchKey { purpose, number: 1_000 },
            machines: vec![(OfferKey { machine: "h100".into(), place }, 29_400_000); 2],
            ready_by: Timestamp::UNIX_EPOCH,
            price_micros: 58_800_000,
            why: String::new(),
        }
    }

    #[test]
    fn a_claim_that_was_ordered_is_read_back() {
        let gang = Purpose::Gang(GangKey::new("nlp", "train"));
        for purpose in [gang, Purpose::Spare("h100".into())] {
            let launch = launch(purpose.clone());
            let mut manifest = manifest(&launch, 1, &machine(), 7);
            manifest["metadata"]["creationTimestamp"] = json!("2026-11-17T08:00:00Z");
            manifest["status"] = json!({
                "nodeName": "node-1",
                "conditions": [
                    { "type": "Launched", "status": "True", "message": "" },
                    { "type": "Registered", "status": "True", "message": "" },
                ],
            });
            let object: DynamicObject = serde_json::from_value(manifest).unwrap();
            let claim = claim(&object).unwrap();
            assert_eq!(claim.name, launch.claim_name(1));
            assert_eq!((&claim.launch, &claim.queue), (&launch.key, &launch.queue));
            assert_eq!((&claim.offer, claim.price_micros), (&launch.machines[1].0, 29_400_000));
            assert_eq!((claim.of, claim.ready, claim.leaving, claim.trouble), (2, true, false, None));
            assert!(claim.taken_up);
        }
    }

    #[test]
    fn exactly_one_offer_is_asked_for_with_all_of_its_gpus() {
        let manifest = manifest(&launch(Purpose::Gang(GangKey::new("nlp", "train"))), 0, &machine(), 7);
        let mut asked: Vec<String> = manifest["spec"]["requirements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| format!("{}={}", it["key"].as_str().unwrap(), it["values"][0].as_str().unwrap()))
            .collect();
        asked.sort();
        assert_eq!(
            asked,
            [
                "karpenter.sh/capacity-type=spot",
                "node.kubernetes.io/instance-type=h100-8x",
                "topology.kubernetes.io/zone=a",
                "topology.warpyard.dev/rack=r1",
            ]
        );
        assert_eq!(manifest["spec"]["resources"]["requests"]["nvidia.com/gpu"], "8");
        assert_eq!(manifest["spec"]["startupTaints"][0]["key"], "warpyard.dev/for-gang");
    }

    #[test]
    fn a_claim_that_nobody_has_looked_at_is_not_taken_up() {
        let manifest = manifest(&launch(Purpose::Spare("h100".into())), 0, &machine(), 7);
        let object: DynamicObject = serde_json::from_value(manifest).unwrap();
        assert!(!claim(&object).unwrap().taken_up);
    }

    #[test]
    fn a_spot_claim_says_what_it_would_cost_on_demand_in_its_zone() {
        let offer = |zone: &str, capacity_type, price_micros| Offer {
            place: OfferPlace { zone: zone.into(), block: None, rack: None, capacity_type },
            price_micros,
            most: None,
        };
        let offers = vec![
            offer("a", CapacityType::Spot, 29_400_000),
            offer("a", CapacityType::OnDemand, 98_000_000),
            offer("a", CapacityType::OnDemand, 97_000_000),
            offer("b", CapacityType::OnDemand, 90_000_000),
        ];
        let said = |launch: &Launch, offers: &[Offer]| {
            let machine = CatalogueMachine { offers: offers.to_vec(), ..machine() };
            let manifest = manifest(launch, 0, &machine, 7);
            let price = &manifest["metadata"]["annotations"]["warpyard.dev/on-demand-price-per-hour-micros"];
            price.as_str().map(str::to_owned)
        };
        let mut launch = launch(Purpose::Spare("h100".into()));
        assert_eq!(said(&launch, &offers).as_deref(), Some("97000000"));
        assert_eq!(said(&launch, &offers[3..]).as_deref(), Some("90000000"), "only elsewhere");
        assert_eq!(said(&launch, &offers[..1]), None, "nowhere");
        launch.machines[0].0.place.capacity_type = CapacityType::OnDemand;
        assert_eq!(said(&launch, &offers), None, "it is on demand");
    }

    #[test]
    fn claims_of_others_are_left_alone() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": "theirs" },
            "spec": { "requirements": [] },
        }))
        .unwrap();
        assert_eq!(claim(&object), None);
    }
}
