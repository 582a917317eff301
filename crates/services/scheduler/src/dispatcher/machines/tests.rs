//! The memory of machines, and how decisions about them are carried out.

use std::sync::Arc;
use std::time::Duration;

use api_types::machine_type::CapacityType;
use api_types::names::LAUNCH_LABEL;
use capacity::Decision;
use capacity::catalogue::OfferPlace;
use capacity::claim::{Launch, LaunchKey, Purpose};
use capacity::launches::Release;
use capacity::reserve;
use cluster_apply::Target;
use cluster_model::plan::{WaitReason, WaitingGang};
use cluster_model::{ClusterChange, ClusterState, GangKey, Pod, PodKey};
use jiff::Timestamp;
use tokio::time::Instant;

use super::super::notices::Notices;
use super::super::outbox::Notice;
use super::{DispatcherEffect, MachineEffect, Machines, Said};
use crate::machines::Decided;
use crate::machines::testing::machine;

/// A state, and the machines in it.
struct Shop {
    state: ClusterState,
    machines: Machines,
}

impl Shop {
    fn new() -> Self {
        Self { state: ClusterState::default(), machines: Machines::new(true) }
    }

    fn apply(&mut self, change: ClusterChange) {
        self.machines.apply(&mut self.state, change);
    }

    /// Carries a decision out; returns the effects, in words.
    fn carry_out(&mut self, decision: Decision) -> Vec<String> {
        let decided = Decided { decision, catalogue: Arc::default() };
        self.machines.carry_out(&mut self.state, &decided).into_iter().map(words).collect()
    }

    fn tolerates(&self, gang: &GangKey) -> bool {
        let pod = self.state.pod(self.state.pod_id(&pod(gang).key).expect("it is there")).pod();
        pod.tolerations.iter().any(|it| it.value.as_deref() == Some(&*reserve::mark(&self::gang())))
    }

    fn takes_pods(&self, node: &str) -> bool {
        self.state.node_object(&node.into()).expect("it is there").schedulable
    }
}

fn words(effect: DispatcherEffect) -> String {
    match effect {
        DispatcherEffect::Machines(MachineEffect::Order(order)) => {
            format!("order for {}", order.launch.key.purpose)
        }
        DispatcherEffect::Machines(MachineEffect::GiveBack(claim)) => format!("give back {claim}"),
        DispatcherEffect::Machines(MachineEffect::PatchNode(node, patch)) => {
            format!("patch {node}: {}", patch[1]["path"])
        }
        other => panic!("not for machines: {other:?}"),
    }
}

/// A gang that waits, without a reason yet.
fn waits() -> WaitingGang {
    WaitingGang { gang: gang(), run: None, first_pod: pod(&gang()).key, reasons: Vec::new() }
}

fn gang() -> GangKey {
    GangKey::new("ns", "train")
}

fn node(name: &str, is_kept: bool) -> ClusterChange {
    let place =
        OfferPlace { zone: "a".into(), block: None, rack: None, capacity_type: CapacityType::OnDemand };
    let mut node = machine().node(&place, name, &reserve::mark(&gang()));
    node.taints.retain(|taint| is_kept || reserve::mark(&gang()) != *taint.value);
    ClusterChange::Node(node)
}

fn pod(gang: &GangKey) -> Pod {
    Pod::new(PodKey::new("ns", format!("{}-0", gang.name), "uid"), gang.clone())
}

fn release() -> Decision {
    let (claim, node, why) = ("claim".into(), Some("one".into()), "idle".to_owned());
    Decision { releases: vec![Release { claim, node, given_up: None, why }], ..Decision::default() }
}

/// A launch of two machines that is given up; their claims have not heard of their nodes yet.
fn give_up() -> Decision {
    let launch = LaunchKey { purpose: Purpose::Gang(gang()), number: 7 };
    let release = |claim: &str| {
        let (claim, given_up, why) = (claim.into(), Some(launch.clone()), "late".to_owned());
        Release { claim, node: None, given_up, why }
    };
    let releases = vec![release("claim-0"), release("claim-1")];
    Decision { releases, given_up: [launch].into(), ..Decision::default() }
}

/// The same, and another one in its place.
fn try_again() -> Decision {
    let key = LaunchKey { purpose: Purpose::Gang(gang()), number: 8 };
    let (machines, ready_by) = (Vec::new(), Timestamp::MAX);
    let launch = Launch { key, queue: None, machines, ready_by, price_micros: 0, why: String::new() };
    Decision { launches: vec![launch], ..give_up() }
}

fn of_launch(name: &str) -> ClusterChange {
    let ClusterChange::Node(mut node) = node(name, true) else { unreachable!("it is a node") };
    let launch = LaunchKey { purpose: Purpose::Gang(gang()), number: 7 }.name();
    node.labels.insert(LAUNCH_LABEL.into(), launch.as_str().into());
    ClusterChange::Node(node)
}

#[test]
fn only_the_gang_that_a_machine_was_bought_for_may_use_it_whatever_is_seen_first() {
    let another = GangKey::new("ns", "another");
    for node_first in [true, false] {
        let mut shop = Shop::new();
        let pods = [pod(&gang()), pod(&another)].map(ClusterChange::Pod);
        let changes = if node_first {
            vec![node("one", true), pods[0].clone(), pods[1].clone()]
        } else {
            vec![pods[0].clone(), pods[1].clone(), node("one", true)]
        };
        for change in changes {
            shop.apply(change);
        }
        assert!(shop.tolerates(&gang()) && !shop.tolerates(&another));
        shop.apply(node("one", false));
        shop.apply(ClusterChange::Pod(pod(&gang())));
        assert!(!shop.tolerates(&gang()), "it is like any other pod again");
    }
}

#[test]
fn a_decision_is_due_when_more_wait_and_not_while_the_same_do() {
    let mut shop = Shop::new();
    let mut is_due = |waiting: &mut [WaitingGang]| shop.machines.explain(waiting).is_some();
    assert!(!is_due(&mut []));
    assert!(is_due(&mut [waits()]));
    assert!(!is_due(&mut [waits()]));
}

#[test]
fn who_lacks_only_machines_that_are_coming_waits_for_them_before_all() {
    let mut shop = Shop::new();
    let coming = WaitReason::MachinesComing { machines: 2, ready_by: Timestamp::MAX };
    let refused = WaitReason::NoMachines { why: "none suits".into() };
    let nodes = WaitReason::NoSuchGpuType { gpu_type: None };
    let queue = WaitReason::NoQueue { namespace: "team".into() };
    for (said, reason, codes) in [
        (&coming, &nodes, ["MachinesComing", "NoSuchGpuType"]),
        (&coming, &queue, ["NoQueue", "MachinesComing"]),
        (&refused, &nodes, ["NoSuchGpuType", "NoMachines"]),
    ] {
        shop.machines.said = [(gang(), Said::Reason(said.clone()))].into();
        let mut waiting = [WaitingGang { reasons: vec![reason.clone()], ..waits() }];
        shop.machines.explain(&mut waiting);
        assert_eq!(waiting[0].reasons.iter().map(WaitReason::code).collect::<Vec<_>>(), codes);
    }
}

#[test]
fn the_pod_of_a_gang_of_one_is_told_once_when_something_is_decided_or_nothing_for_a_while() {
    for is_decided in [true, false] {
        let mut shop = Shop::new();
        shop.apply(ClusterChange::Pod(pod(&gang())));
        let begin = Instant::now();
        let mut notices = Notices::new(begin);
        let mut tells_pod = |shop: &Shop, seconds: u64| {
            let now = begin + Duration::from_secs(seconds);
            let told = notices.tell(&shop.state, &[waits()], &shop.machines, now);
            let is_looked_at_again = notices.next().is_some();
            let is_told = told.iter().any(|it| matches!(it, Notice::Say(Target::Pod(_), _)));
            assert_ne!(is_told, is_looked_at_again);
            is_told
        };
        assert!(!tells_pod(&shop, 0));
        if is_decided {
            let from_pools = [gang()].into();
            shop.carry_out(Decision { from_pools, ..Decision::default() });
        } else {
            assert!(!tells_pod(&shop, 1));
        }
        assert!(tells_pod(&shop, if is_decided { 1 } else { 2 }));
    }
}

#[test]
fn nobody_is_placed_on_a_machine_that_goes() {
    let mut shop = Shop::new();
    shop.apply(node("one", false));
    assert_eq!(shop.carry_out(release()), ["give back claim"]);
    assert!(!shop.takes_pods("one"));
    shop.apply(node("one", false));
    assert!(!shop.takes_pods("one"), "also when it is seen again");
    shop.apply(ClusterChange::NodeGone("one".into()));
    shop.apply(node("one", false));
    assert!(shop.takes_pods("one"), "another one has its name");
}

#[test]
fn nobody_is_placed_on_a_launch_that_was_given_up_though_its_claims_do_not_know_their_nodes() {
    let mut shop = Shop::new();
    shop.apply(of_launch("one"));
    shop.apply(ClusterChange::Pod(pod(&gang())));
    assert_eq!(
        shop.carry_out(try_again()),
        ["order for gang ns/train", "give back claim-0", "give back claim-1"]
    );
    shop.apply(of_launch("two"));
    assert!(!shop.takes_pods("one") && !shop.takes_pods("two"));
    assert!(shop.carry_out(Decision::default()).is_empty());
    shop.apply(of_launch("three"));
    assert!(shop.takes_pods("three"), "it has gone, and is forgotten");
}

#[test]
fn a_launch_that_its_gang_was_placed_on_meanwhile_is_not_given_up() {
    let mut shop = Shop::new();
    shop.apply(of_launch("one"));
    shop.apply(ClusterChange::Pod(Pod { node: Some("one".into()), ..pod(&gang()) }));
    assert!(shop.carry_out(try_again()).is_empty(), "nor is another one ordered");
    shop.apply(of_launch("two"));
    assert!(shop.takes_pods("one") && shop.takes_pods("two"));
}

#[test]
fn a_machine_that_has_pods_again_stays() {
    let mut shop = Shop::new();
    shop.apply(node("one", false));
    shop.apply(ClusterChange::Pod(Pod { node: Some("one".into()), ..pod(&gang()) }));
    assert!(shop.carry_out(release()).is_empty());
}

#[test]
fn the_mark_is_taken_off_where_it_is() {
    let mut shop = Shop::new();
    shop.apply(node("one", true));
    let opens = vec!["one".into(), "unknown".into()];
    assert_eq!(shop.carry_out(Decision { opens, ..Decision::default() }), [r#"patch one: "/spec/taints/1""#]);
}
