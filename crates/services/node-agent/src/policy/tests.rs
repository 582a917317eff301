//! The decisions about the Node, by cases and by laws.

use proptest::prelude::*;

use super::*;
use crate::finding::{Due, NoticeKind, Origin, Remedy};

const LEAD: SignedDuration = SignedDuration::from_hours(1);
const BOOT: &str = "0b8ac1a2";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-11-16T12:00:00Z")
}

/// A Node with eight GPUs and a foreign taint, annotation and condition.
fn node() -> Node {
    serde_json::from_value(serde_json::json!({
        "metadata": { "name": "node-0", "resourceVersion": "1", "annotations": { "example.com/of": "others" } },
        "spec": { "taints": [{ "key": "warpyard.dev/gpu", "value": "true", "effect": "NoSchedule" }] },
        "status": {
            "capacity": { "nvidia.com/gpu": "8" },
            "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }],
        },
    }))
    .unwrap()
}

/// The Node as it is after the change, as the API server merges it.
fn after(mut node: Node, change: NodePatch) -> Node {
    if let Some(taints) = change.taints {
        node.spec.get_or_insert_default().taints = Some(taints);
    }
    let annotations = node.metadata.annotations.get_or_insert_default();
    for (name, value) in change.annotations {
        match value {
            Some(value) => annotations.insert(name.to_owned(), value),
            None => annotations.remove(name),
        };
    }
    let conditions = node.status.get_or_insert_default().conditions.get_or_insert_default();
    for condition in change.conditions {
        conditions.retain(|before| before.type_ != condition.type_);
        conditions.push(condition);
    }
    node
}

/// Ours, as `value @ annotation`.
fn leaving(node: &Node) -> Option<String> {
    let Said { taint, annotation } = LEAVING.said(node);
    taint.map(|taint| format!("{taint} @ {}", annotation.unwrap_or_default()))
}

fn sick(node: &Node) -> Option<&str> {
    GPU.said(node).taint
}

/// A condition of ours as `status reason`.
fn condition(node: &Node, type_: &str) -> String {
    let found = conditions(node).iter().find(|condition| condition.type_ == type_);
    found.map_or("none".into(), |it| format!("{} {}", it.status, it.reason.as_deref().unwrap_or_default()))
}

fn notices(found: Vec<Notice>) -> Seen {
    Seen { notices: Some(View { found, complete: true }), boot: BOOT.into(), ..Seen::default() }
}

fn faults(found: Vec<GpuFault>) -> Seen {
    Seen { faults: Some(View { found, complete: true }), boot: BOOT.into(), ..Seen::default() }
}

fn notice(kind: NoticeKind, due: Due) -> Notice {
    Notice { kind, due, what: "AWS: something".into() }
}

fn fault(remedy: Remedy, origin: Origin) -> GpuFault {
    GpuFault { gpu: "0000:cb:00".into(), what: "Xid 79, GPU has fallen off the bus".into(), remedy, origin }
}

fn told(node: Node, seen: &Seen, now: Timestamp) -> Node {
    let change = decide(&node, seen, LEAD, now);
    let node = after(node, change);
    assert_eq!(decide(&node, seen, LEAD, now), NodePatch::default(), "what is said is not said again");
    node
}

#[test]
fn an_interruption_taints_until_it_is_withdrawn() {
    let due = Due::At(at("2026-11-16T12:02:00Z"));
    let told_once = told(node(), &notices(vec![notice(NoticeKind::Spot, due)]), now());
    assert_eq!(leaving(&told_once).as_deref(), Some("spot @ 2026-11-16T12:02:00Z"));
    assert_eq!(condition(&told_once, NODE_NOTICE_CONDITION), "True SpotInterruption");
    let withdrawn = told(told_once, &notices(Vec::new()), now());
    assert_eq!(leaving(&withdrawn), None);
    assert_eq!(condition(&withdrawn, NODE_NOTICE_CONDITION), "False NoNotice");
    assert_eq!(taints(&withdrawn), taints(&node()), "others' taints are as they were");
    assert_eq!(withdrawn.metadata.annotations, node().metadata.annotations);
}

#[test]
fn a_notice_is_not_withdrawn_by_a_source_that_has_not_answered() {
    let due = Due::At(at("2026-11-16T12:02:00Z"));
    let told_once = told(node(), &notices(vec![notice(NoticeKind::Spot, due)]), now());
    let unknown = Seen { notices: Some(View { found: Vec::new(), complete: false }), ..Seen::default() };
    assert!(decide(&told_once, &unknown, LEAD, now()).is_empty());
    assert!(
        decide(&told_once, &Seen::default(), LEAD, now()).is_empty(),
        "nor by an agent that does not ask"
    );
    let part = View { found: vec![notice(NoticeKind::Spot, due)], complete: false };
    let seen = Seen { notices: Some(part), ..Seen::default() };
    assert!(leaving(&told(node(), &seen, now())).is_some(), "but a notice counts before all have answered");
}

#[test]
fn maintenance_taints_from_the_lead_on() {
    let seen = notices(vec![notice(NoticeKind::Maintenance, Due::At(at("2026-11-16T14:00:00Z")))]);
    let early = told(node(), &seen, now());
    assert_eq!(leaving(&early), None);
    assert_eq!(condition(&early, NODE_NOTICE_CONDITION), "True MaintenanceScheduled");
    let late = told(early, &seen, at("2026-11-16T13:00:00Z"));
    assert_eq!(leaving(&late).as_deref(), Some("maintenance @ 2026-11-16T14:00:00Z"));
    assert_eq!(condition(&late, NODE_NOTICE_CONDITION), "True Maintenance");
    let turned = |node: &Node| conditions(node).last().unwrap().last_transition_time.clone();
    assert_eq!(turned(&late), Some(Time(now())), "the status did not change, only the reason");
}

#[test]
fn of_several_notices_the_first_to_come_true_counts() {
    let seen = notices(vec![
        notice(NoticeKind::Advice, Due::At(at("2026-11-16T11:00:00Z"))),
        notice(NoticeKind::Maintenance, Due::At(at("2026-11-16T12:30:00Z"))),
        notice(NoticeKind::Spot, Due::At(at("2026-11-16T12:02:00Z"))),
    ]);
    assert_eq!(leaving(&told(node(), &seen, now())).as_deref(), Some("spot @ 2026-11-16T12:02:00Z"));
}

#[test]
fn advice_is_only_a_sentence() {
    let seen = notices(vec![notice(NoticeKind::Advice, Due::At(now()))]);
    let told = told(node(), &seen, now());
    assert_eq!(leaving(&told), None);
    assert_eq!(condition(&told, NODE_NOTICE_CONDITION), "False Advice");
}

#[test]
fn a_notice_without_a_time_is_counted_from_when_it_was_first_told() {
    let seen = notices(vec![notice(NoticeKind::Spot, Due::Within(SignedDuration::from_secs(30)))]);
    let first = told(node(), &seen, now());
    assert_eq!(leaving(&first).as_deref(), Some("spot @ 2026-11-16T12:00:30Z"));
    // Also by an agent that was restarted.
    let later = told(first, &seen, at("2026-11-16T12:00:20Z"));
    assert_eq!(leaving(&later).as_deref(), Some("spot @ 2026-11-16T12:00:30Z"));
    // And never from what was told of another notice, hours ahead.
    let due = Due::At(at("2026-11-16T15:00:00Z"));
    let hours_ahead = told(node(), &notices(vec![notice(NoticeKind::Spot, due)]), now());
    let sooner = told(hours_ahead, &seen, now());
    assert_eq!(leaving(&sooner).as_deref(), Some("spot @ 2026-11-16T12:00:30Z"));
}

#[test]
fn what_others_tainted_in_our_name_is_not_ours_to_remove() {
    let mut by_hand = node();
    let taint = |key: &str| Taint {
        key: key.into(),
        effect: EFFECT.into(),
        value: Some("by-hand".into()),
        ..Taint::default()
    };
    by_hand.spec = Some(k8s_openapi::api::core::v1::NodeSpec {
        taints: Some(vec![taint(LEAVING_TAINT), taint(GPU_SICK_TAINT)]),
        ..Default::default()
    });
    let seen = Seen { faults: faults(Vec::new()).faults, ..notices(Vec::new()) };
    assert!(decide(&by_hand, &seen, LEAD, now()).is_empty());
}

#[test]
fn a_sick_gpu_taints_by_what_helps_the_most() {
    for (remedies, value, reason) in [
        (vec![Remedy::ResetGpu], "reset-gpu", "False GpuNeedsReset"),
        (vec![Remedy::RestartNode, Remedy::ResetGpu], "restart-node", "False NodeNeedsRestart"),
        (vec![Remedy::Inspect, Remedy::RestartNode], "inspect", "False GpuNeedsInspection"),
    ] {
        let found = (1..).zip(remedies).map(|(number, remedy)| GpuFault {
            what: format!("Xid {number}"),
            ..fault(remedy, Origin::KernelLog(number))
        });
        let told = told(node(), &faults(found.collect()), now());
        assert_eq!(sick(&told), Some(value));
        assert_eq!(condition(&told, GPU_HEALTHY_CONDITION), reason);
    }
}

#[test]
fn a_fault_that_gets_worse_is_told_as_such() {
    let first = told(node(), &faults(vec![fault(Remedy::ResetGpu, Origin::KernelLog(1))]), now());
    let worse = told(first, &faults(vec![fault(Remedy::RestartNode, Origin::KernelLog(2))]), now());
    assert_eq!(sick(&worse), Some("restart-node"));
}

#[test]
fn the_message_says_which_gpu_what_and_what_to_do() {
    let told = told(node(), &faults(vec![fault(Remedy::RestartNode, Origin::KernelLog(5))]), now());
    let condition = conditions(&told).last().unwrap();
    assert_eq!(
        condition.message.as_deref(),
        Some(
            "GPU 0000:cb:00: Xid 79, GPU has fallen off the bus. Drain the node and restart the machine; the taint \
             goes with the next boot without a fault, or when you remove it."
        )
    );
}

#[test]
fn a_sick_gpu_stays_so_while_its_machine_is_not_restarted() {
    let told_once = told(node(), &faults(vec![fault(Remedy::ResetGpu, Origin::Dcgm)]), now());
    let gone = told(told_once.clone(), &faults(Vec::new()), now());
    assert_eq!(sick(&gone), Some("reset-gpu"), "the state went, and nobody looked at it");
    let rebooted = |complete| Seen {
        faults: Some(View { found: Vec::new(), complete }),
        boot: "another".into(),
        ..Seen::default()
    };
    assert!(decide(&told_once, &rebooted(false), LEAD, now()).is_empty(), "not all sources have answered");
    let well = told(told_once, &rebooted(true), now());
    assert_eq!(sick(&well), None);
    assert_eq!(condition(&well, GPU_HEALTHY_CONDITION), "True NoFault");
    assert_eq!(well.metadata.annotations, node().metadata.annotations);
}

#[test]
fn a_fault_that_is_there_after_a_reboot_taints_again() {
    let told_once = told(node(), &faults(vec![fault(Remedy::ResetGpu, Origin::KernelLog(9_000))]), now());
    let seen = Seen { boot: "another".into(), ..faults(vec![fault(Remedy::Inspect, Origin::KernelLog(7))]) };
    assert_eq!(sick(&told(told_once, &seen, now())), Some("inspect"));
}

#[test]
fn who_removes_the_taint_is_believed_until_there_is_a_new_fault() {
    for origin in [Origin::KernelLog(5), Origin::Dcgm] {
        let seen = faults(vec![fault(Remedy::ResetGpu, origin)]);
        let mut node = told(node(), &seen, now());
        node.spec = super::tests::node().spec;
        // The agent may be restarted meanwhile: it finds the same again.
        let dismissed = told(node, &seen, now());
        assert_eq!(sick(&dismissed), None, "{origin:?}");
        assert_eq!(condition(&dismissed, GPU_HEALTHY_CONDITION), "True NoFault");
        let again = match origin {
            Origin::KernelLog(_) => {
                told(dismissed, &faults(vec![fault(Remedy::ResetGpu, Origin::KernelLog(6))]), now())
            }
            // A state must have gone before it can come.
            Origin::Dcgm => told(told(dismissed, &faults(Vec::new()), now()), &seen, now()),
        };
        assert_eq!(sick(&again), Some("reset-gpu"), "{origin:?}");
    }
}

#[test]
fn a_fault_that_both_sources_tell_is_dismissed_once() {
    let both =
        faults(vec![fault(Remedy::ResetGpu, Origin::KernelLog(5)), fault(Remedy::ResetGpu, Origin::Dcgm)]);
    let mut node = told(node(), &both, now());
    let message = conditions(&node).last().unwrap().message.clone().unwrap();
    assert_eq!(message.matches("Xid 79").count(), 1);
    node.spec = super::tests::node().spec;
    assert_eq!(sick(&told(node, &both, now())), None);
}

#[test]
fn a_machine_without_gpus_says_nothing_about_them() {
    let mut plain = node();
    plain.status.as_mut().unwrap().capacity = None;
    assert!(decide(&plain, &faults(Vec::new()), LEAD, now()).is_empty());
    assert_eq!(condition(&told(node(), &faults(Vec::new()), now()), GPU_HEALTHY_CONDITION), "True NoFault");
}

#[test]
fn a_node_with_many_faults_lists_a_bounded_number() {
    let many = (0..1_000).map(|number| GpuFault {
        gpu: format!("{number}"),
        ..fault(Remedy::ResetGpu, Origin::KernelLog(number))
    });
    let told = told(node(), &faults(many.collect()), now());
    assert!(told.metadata.annotations.unwrap()[GPU_FAULTS_ANNOTATION].len() < 8_000);
}

fn any_taint() -> impl Strategy<Value = Taint> {
    let key = prop_oneof![
        Just(LEAVING_TAINT.to_owned()),
        Just(GPU_SICK_TAINT.to_owned()),
        Just("warpyard.dev/gpu".to_owned()),
        "[a-z]{1,3}",
    ];
    let value = prop_oneof![Just(None), Just(Some("spot".to_owned())), Just(Some("inspect".to_owned()))];
    let effect = prop_oneof![Just("NoSchedule"), Just("NoExecute"), Just("PreferNoSchedule")];
    (key, value, effect).prop_map(|(key, value, effect)| Taint {
        key,
        value,
        effect: effect.to_owned(),
        time_added: None,
    })
}

fn any_seen() -> impl Strategy<Value = Seen> {
    let kind = prop_oneof![Just(NoticeKind::Spot), Just(NoticeKind::Maintenance), Just(NoticeKind::Advice)];
    let due = prop_oneof![
        (0..10_000_i64).prop_map(|seconds| Due::At(now() + SignedDuration::from_secs(seconds))),
        (0..100_i64).prop_map(|seconds| Due::Within(SignedDuration::from_secs(seconds))),
    ];
    let notices = prop::collection::vec((kind, due).prop_map(|(kind, due)| notice(kind, due)), 0..3);
    let remedy = prop_oneof![Just(Remedy::ResetGpu), Just(Remedy::RestartNode), Just(Remedy::Inspect)];
    let origin = prop_oneof![Just(Origin::Dcgm), (0..5_u64).prop_map(Origin::KernelLog)];
    let faults =
        prop::collection::vec((remedy, origin).prop_map(|(remedy, origin)| fault(remedy, origin)), 0..3);
    (notices, faults, any::<bool>(), "[ab]").prop_map(|(notices, faults, complete, boot)| Seen {
        notices: Some(View { found: notices, complete }),
        faults: Some(View { found: faults, complete }),
        boot,
    })
}

/// Everything that is not the agent's.
fn of_others(node: &Node) -> (Vec<Taint>, BTreeMap<String, String>, Vec<NodeCondition>) {
    let topics = [&LEAVING, &GPU];
    let mut annotations = node.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|name, _| topics.iter().all(|topic| topic.annotation != name));
    let taints = taints(node).iter().filter(|taint| !topics.iter().any(|topic| topic.is_ours(taint)));
    let conditions =
        conditions(node).iter().filter(|it| topics.iter().all(|topic| topic.condition != it.type_));
    (taints.cloned().collect(), annotations, conditions.cloned().collect())
}

proptest! {
    #[test]
    fn others_taints_annotations_and_conditions_survive_whatever_happens(
        taints in prop::collection::vec(any_taint(), 0..6),
        course in prop::collection::vec(any_seen(), 1..8),
    ) {
        let mut node = node();
        node.spec.get_or_insert_default().taints = Some(taints);
        let before = of_others(&node);
        for (seen, minute) in course.iter().zip(0_i64..) {
            let now = now() + SignedDuration::from_mins(minute);
            node = told(node, seen, now);
            prop_assert_eq!(&of_others(&node), &before);
        }
    }
}
