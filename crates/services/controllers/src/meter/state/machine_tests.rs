use costing::{Attribution, End, HourlyPrice, Moment, NodeRecord};
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use slim_objects::{SlimNode, SlimPod};
use store::Batch;

use super::MeterState;
use crate::meter::machine::NodeClaim;

fn time(second: i64) -> String {
    jiff::Timestamp::from_second(at(second).0).unwrap().to_string()
}

fn at(second: i64) -> Moment {
    Moment(1_794_700_800 + second)
}

/// A claim for the gang `train-2` of `team`, with conditions that became true at these seconds.
fn claim(node: Option<&str>, conditions: &[(&str, i64)]) -> NodeClaim {
    let condition = |(kind, second): &(&str, i64)| json!({ "type": kind, "status": "True", "lastTransitionTime": time(*second) });
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    serde_json::from_value(json!({
        "metadata": {
            "name": "claim-0", "uid": "claim", "creationTimestamp": time(0),
            "labels": { "warpyard.dev/launch": "0123-1000", "warpyard.dev/epoch": "7", "warpyard.dev/gpu-type": "H100" },
            "annotations": {
                "warpyard.dev/for-gang": "team/train-2", "warpyard.dev/launch-size": "1",
                "warpyard.dev/machine-type": "h100", "warpyard.dev/price-per-hour-micros": "29400000",
                "warpyard.dev/on-demand-price-per-hour-micros": "98000000",
            },
        },
        "spec": { "requirements": [
            { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["h100-8x"] },
            { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] },
        ] },
        "status": {
            "nodeName": node, "providerID": "cloud://1", "conditions": conditions,
            "capacity": { "cpu": "192", "nvidia.com/gpu": "8" },
        },
    }))
    .unwrap()
}

fn node() -> SlimNode {
    serde_json::from_value(json!({
        "metadata": { "name": "node-0", "uid": "node", "creationTimestamp": time(40) },
        "spec": { "providerID": "cloud://1" },
        "status": { "capacity": { "cpu": "192", "nvidia.com/gpu": "8" } },
    }))
    .unwrap()
}

/// A pod of the gang, which waits.
fn pod() -> SlimPod {
    serde_json::from_value(json!({
        "metadata": {
            "name": "train-2-0", "namespace": "team", "uid": "pod",
            "labels": { "warpyard.dev/gang": "train-2", "warpyard.dev/run": "train", "warpyard.dev/attempt": "2" },
            "annotations": { "warpyard.dev/submitted-by": "alice" },
        },
        "spec": { "schedulerName": "warpyard", "containers": [{ "name": "main" }] },
        "status": { "phase": "Pending" },
    }))
    .unwrap()
}

fn flush(state: &mut MeterState) -> Vec<NodeRecord> {
    let batch = state.batch(|_| Some("queue-of-team"));
    state.recorded(&batch);
    let mut nodes = batch.nodes;
    nodes.sort_by(|one, other| one.uid.cmp(&other.uid));
    nodes
}

const LAUNCHED: &[(&str, i64)] = &[("Launched", 5)];
const OPEN: &[(&str, i64)] = &[("Launched", 5), ("Registered", 42), ("Initialized", 50)];

#[test]
fn a_machine_is_charged_from_its_launch_to_whom_it_was_bought_for() {
    let mut state = MeterState::default();
    state.pod_event(&Event::Apply(pod()), at(1));
    state.claim_event(&Event::Apply(claim(None, &[])), at(2));
    assert!(flush(&mut state).is_empty(), "nothing is launched");
    state.claim_event(&Event::Apply(claim(None, LAUNCHED)), at(6));
    let [record] = flush(&mut state).try_into().unwrap();
    assert_eq!((record.uid.as_str(), record.name.as_str()), ("claim", "claim-0"));
    assert_eq!((record.created_at, record.ended), (at(5), None));
    let (_, shape) = &record.shapes[0];
    assert_eq!((shape.gpus, shape.cpu_millis, shape.capacity_type.as_str()), (8, 192_000, "spot"));
    let bought = record.bought.unwrap();
    assert_eq!((bought.paid, bought.on_demand), (HourlyPrice(29_400_000), Some(HourlyPrice(98_000_000))));
    let start = bought.start.unwrap();
    let buyer = Attribution {
        namespace: Some("team".to_owned()),
        pod: None,
        run: Some("train".to_owned()),
        attempt: Some(2),
        queue: Some("queue-of-team".to_owned()),
        user: Some("alice".to_owned()),
    };
    assert_eq!((start.buyer, start.opened_at), (buyer, None));
    assert!(!state.has_work());
}

#[test]
fn with_its_node_the_claims_record_ends_and_the_nodes_knows_the_purchase_in_whatever_order_they_are_seen() {
    type Say = fn(&mut MeterState);
    let say: [Say; 3] = [
        |state| state.claim_event(&Event::Apply(claim(Some("node-0"), OPEN)), at(51)),
        |state| state.node_event(&Event::Apply(node()), at(51)),
        |state| state.pod_event(&Event::Apply(pod()), at(51)),
    ];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut state = MeterState::default();
        let mut ledger: std::collections::BTreeMap<String, NodeRecord> = std::collections::BTreeMap::new();
        for step in order {
            say[step](&mut state);
            for record in flush(&mut state) {
                let known = ledger.remove(&record.uid).unwrap_or_else(|| record.clone());
                ledger.insert(record.uid.clone(), known.join(record));
            }
        }
        let (own, of_node) = (&ledger["claim"], &ledger["node"]);
        assert_eq!((own.created_at, own.ended), (at(5), Some(End::Certain(at(40)))), "{order:?}");
        assert_eq!((of_node.created_at, of_node.ended), (at(40), None), "{order:?}");
        let bought = of_node.bought.clone().unwrap();
        assert_eq!(bought.paid, HourlyPrice(29_400_000), "{order:?}");
        let start = bought.start.unwrap();
        assert_eq!((start.opened_at, start.buyer.run.as_deref()), (Some(at(50)), Some("train")), "{order:?}");
    }
}

#[test]
fn a_machine_is_paid_for_until_it_is_told_to_end_whether_a_node_stood_for_it_or_not() {
    let ending: Vec<(&str, i64)> = OPEN.iter().copied().chain([("InstanceTerminating", 90)]).collect();
    let mut state = MeterState::default();
    state.node_event(&Event::Apply(node()), at(41));
    state.claim_event(&Event::Apply(claim(Some("node-0"), &ending)), at(91));
    state.node_event(&Event::Delete(node()), at(130));
    state.claim_event(&Event::Delete(claim(Some("node-0"), &ending)), at(131));
    let [own, of_node] = flush(&mut state).try_into().unwrap();
    assert_eq!(own.ended, Some(End::Certain(at(40))));
    assert_eq!(of_node.ended, Some(End::Certain(at(90))), "also if all of it is seen at once");
    // Seen as it happens, one after the other.
    let mut state = MeterState::default();
    state.node_event(&Event::Apply(node()), at(41));
    state.claim_event(&Event::Apply(claim(Some("node-0"), &ending)), at(91));
    assert_eq!(flush(&mut state)[1].ended, Some(End::Certain(at(90))));
    state.node_event(&Event::Delete(node()), at(130));
    assert!(flush(&mut state).is_empty());
    // Without a Node.
    let mut state = MeterState::default();
    state.claim_event(&Event::Apply(claim(None, &[("Launched", 5), ("InstanceTerminating", 30)])), at(31));
    assert_eq!(flush(&mut state)[0].ended, Some(End::Certain(at(30))));
}

#[test]
fn a_node_that_went_before_its_machine_was_told_to_end_had_ended_by_itself() {
    let ending: Vec<(&str, i64)> = OPEN.iter().copied().chain([("InstanceTerminating", 200)]).collect();
    let mut state = MeterState::default();
    state.claim_event(&Event::Apply(claim(Some("node-0"), OPEN)), at(51));
    state.node_event(&Event::Apply(node()), at(51));
    flush(&mut state);
    state.node_event(&Event::Delete(node()), at(80));
    state.claim_event(&Event::Apply(claim(Some("node-0"), &ending)), at(201));
    let nodes = flush(&mut state);
    let of_node = nodes.iter().find(|record| record.uid == "node").unwrap();
    assert_eq!(of_node.ended, Some(End::Provisional(at(80))));
}

#[test]
fn a_claim_that_goes_without_a_word_ends_when_it_was_seen_to_go_and_is_forgotten_once_recorded() {
    let mut state = MeterState::default();
    state.claim_event(&Event::Apply(claim(None, LAUNCHED)), at(6));
    let taken = state.batch(|_| None);
    state.claim_event(&Event::Delete(claim(None, LAUNCHED)), at(70));
    state.recorded(&taken);
    assert!(state.has_work(), "its end is not recorded yet");
    assert_eq!(flush(&mut state)[0].ended, Some(End::Provisional(at(70))));
    assert!(!state.has_work());
    assert!(flush(&mut state).is_empty());
}

#[test]
fn a_new_meter_goes_on_with_what_the_ledger_has_of_a_claim() {
    let mut before = MeterState::default();
    before.pod_event(&Event::Apply(pod()), at(1));
    before.claim_event(&Event::Apply(claim(None, LAUNCHED)), at(6));
    let recorded = flush(&mut before);
    // The gang's pods are gone; the ledger knows the gang that it was bought for.
    let mut state = MeterState::default();
    for event in [Event::Init, Event::InitApply(claim(None, LAUNCHED)), Event::InitDone] {
        state.claim_event(&event, at(60));
    }
    let unknown = state.in_ledger(Batch { pods: Vec::new(), nodes: recorded.clone() });
    assert!(unknown.nodes.is_empty());
    assert!(flush(&mut state).iter().all(|record| *record == recorded[0]));
    // A list without the claim: the machine ended when everything was last seen.
    state.seen_until(at(65));
    for event in [Event::Init, Event::InitDone] {
        state.claim_event(&event, at(99));
    }
    assert_eq!(flush(&mut state)[0].ended, Some(End::Provisional(at(65))));
}

#[test]
fn a_node_without_a_claim_to_be_seen_costs_what_its_annotation_says_and_nothing_of_it_starts() {
    let mut node = node();
    let price = [("warpyard.dev/price-per-hour-micros".to_owned(), "29400000".to_owned())];
    let mut state = MeterState::default();
    state.node_event(&Event::Apply(node.clone()), at(41));
    assert_eq!(flush(&mut state)[0].bought, None);
    node.metadata.annotations = Some(price.into());
    state.node_event(&Event::Apply(node.clone()), at(42));
    let bought = flush(&mut state)[0].bought.clone().unwrap();
    assert_eq!((bought.paid, bought.start), (HourlyPrice(29_400_000), None));
    let nonsense = [("warpyard.dev/price-per-hour-micros".to_owned(), "-1".to_owned())];
    node.metadata.annotations = Some(nonsense.into());
    node.metadata.uid = Some("other".to_owned());
    state.node_event(&Event::Apply(node), at(43));
    assert_eq!(flush(&mut state)[0].bought, None, "the price sheets' price counts");
}
