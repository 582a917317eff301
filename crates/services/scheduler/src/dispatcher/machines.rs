//! Machines that are bought for gangs, as the loop knows them: kept for their gang until it has started, and closed before
//! they go. Who leaves them for others: `moves.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::names::{FOR_GANG_TAINT, LAUNCH_LABEL};
use capacity::Decision;
use capacity::buy::is_for_nodes;
use capacity::claim::{Launch, LaunchKey};
use capacity::idle::is_empty;
use capacity::launches::{nodes_by_launch, waits_for_machines};
use capacity::reserve;
use cluster_model::plan::{WaitReason, WaitingGang};
use cluster_model::{Change, Gang, GangKey, Node, NodeName, Pod};
use serde_json::{Value as Json, json};
use tokio::time::Instant;
use tracing::debug;

use super::Planner;
use crate::machines::Decided;

/// What is remembered of them.
#[derive(Debug, Default)]
pub(super) struct Machines {
    /// Nodes that are kept, by the mark of the gang that they are kept for.
    kept: BTreeMap<Arc<str>, BTreeSet<NodeName>>,
    /// Nodes that go: nobody is placed on them any more. With each, whether it would take pods else, as it was last seen.
    pub closing: BTreeMap<NodeName, bool>,
    /// Launches that were given up, by their names: what becomes a node of them goes as well.
    given_up: BTreeSet<String>,
    /// Gangs that were told to move, and the nodes that are closed for it, until it is known what became of it.
    pub moving: BTreeMap<GangKey, Vec<NodeName>>,
    /// What was decided last about gangs that wait for nodes.
    said: BTreeMap<GangKey, Said>,
    /// How many gangs waited in the last plan.
    waiting: usize,
}

/// What is decided about a gang that waits for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    /// Machines of its own are on their way, or none are bought.
    Reason(WaitReason),
    /// A pool may buy a machine for it: that is what Karpenter takes `Unschedulable` for.
    FromPool,
}

impl Machines {
    /// A change as it is to be applied. Returns the mark of a gang whose pods are to be applied again.
    pub fn adapt(&mut self, change: &mut Change) -> Option<Arc<str>> {
        match change {
            Change::Node(node) => self.see(node),
            Change::NodeGone(node) => {
                self.closing.remove(node);
                self.forget(node);
                None
            }
            Change::Pod(pod) => {
                self.tolerate(pod);
                None
            }
            _ => None,
        }
    }

    fn see(&mut self, node: &mut Node) -> Option<Arc<str>> {
        if node.labels.get(LAUNCH_LABEL).is_some_and(|launch| self.given_up.contains(&**launch)) {
            self.closing.entry(node.name.clone()).or_insert(node.schedulable);
        }
        if let Some(takes_pods) = self.closing.get_mut(&node.name) {
            *takes_pods = std::mem::replace(&mut node.schedulable, false);
        }
        let mark = reserve::reserved_for(node).cloned();
        if mark
            .as_ref()
            .is_some_and(|mark| self.kept.get(mark).is_some_and(|nodes| nodes.contains(&node.name)))
        {
            return None;
        }
        self.forget(&node.name);
        let mark = mark?;
        let nodes = self.kept.entry(Arc::clone(&mark)).or_default();
        nodes.insert(node.name.clone());
        (nodes.len() == 1).then_some(mark)
    }

    fn forget(&mut self, node: &NodeName) {
        if self.kept.is_empty() {
            return;
        }
        self.kept.retain(|_, nodes| {
            nodes.remove(node);
            !nodes.is_empty()
        });
    }

    fn tolerate(&self, pod: &mut Pod) {
        // Nearly always nothing is bought for anybody, and marks cost a little.
        if self.kept.is_empty() || !pod.ours || pod.node.is_some() {
            return;
        }
        let mark = reserve::mark(&pod.gang);
        if self.kept.contains_key(mark.as_str()) {
            reserve::tolerate(pod, &mark);
        }
    }
}

impl Planner {
    /// Adds what is known of machines to the reasons of those who wait; who lacks nothing else than machines that are coming waits
    /// for them before all. If they have become more, somebody may need machines about whom nothing is decided yet.
    pub(super) fn add_machines(&mut self, waiting: &mut [WaitingGang]) {
        let before = std::mem::replace(&mut self.machines.waiting, waiting.len());
        if let Some(backend) = self.outputs.machines.as_ref().filter(|_| waiting.len() > before) {
            backend.more_wait();
        }
        if self.machines.said.is_empty() {
            return;
        }
        for gang in waiting {
            match self.machines.said.get(&gang.gang) {
                Some(Said::Reason(coming @ WaitReason::MachinesComing { .. })) if is_for_nodes(gang) => {
                    gang.reasons.insert(0, coming.clone());
                }
                Some(Said::Reason(reason)) => gang.reasons.push(reason.clone()),
                Some(Said::FromPool) | None => {}
            }
        }
    }

    /// Whether a gang of one may be told soon that a pool buys for it.
    pub(super) fn awaits_decision(&self, gang: &GangKey) -> bool {
        let is_single = self.state.gang(gang).is_some_and(|gang| gang.members().count() == 1);
        self.outputs.machines.is_some() && is_single && !self.machines.said.contains_key(gang)
    }

    /// Whether a pool may buy a machine for a gang of one.
    pub(super) fn is_from_pool(&self, gang: &GangKey) -> bool {
        self.machines.said.get(gang) == Some(&Said::FromPool)
    }

    /// The first machine of a gang is there: its pods that wait may use it.
    pub(super) fn let_in(&mut self, mark: &str) {
        let gangs: Vec<GangKey> =
            self.state.waiting_gangs().filter(|gang| reserve::mark(gang) == mark).cloned().collect();
        let pods = gangs.iter().filter_map(|gang| self.state.gang(gang)).flat_map(Gang::pending);
        let pods: Vec<Pod> = pods.map(|pod| self.state.pod(pod).pod().clone()).collect();
        for mut pod in pods {
            reserve::tolerate(&mut pod, mark);
            self.state.apply(Change::Pod(pod));
        }
    }

    /// Does what was decided about machines, as far as it is still right.
    pub(super) fn carry_out(&mut self, decided: &Decided) {
        let Some(backend) = self.outputs.machines.clone() else { return };
        let decision = &decided.decision;
        self.machines.said = said(decision);
        // Those who wait are told something new.
        self.asked_at = self.asked_at.or_else(|| Some(Instant::now()));
        let kept = self.give_up(&decision.given_up);
        // Who was placed meanwhile needs no machines.
        let is_needed =
            |launch: &&Launch| launch.key.gang().is_none_or(|gang| waits_for_machines(&self.state, gang));
        for launch in decision.launches.iter().filter(is_needed) {
            backend.order(launch, &decided.catalogue);
        }
        for release in &decision.releases {
            let is_kept = release.given_up.as_ref().is_some_and(|launch| kept.contains(launch));
            if !is_kept && is_empty(&self.state, release.node.as_ref()) {
                if let Some(node) = &release.node {
                    self.close(node);
                    // It goes, whatever becomes of who moves off it.
                    self.machines.moving.values_mut().for_each(|leaves| leaves.retain(|it| it != node));
                }
                backend.give_back(&release.claim);
            } else {
                debug!(claim = %release.claim, "The machine has pods again, and stays.");
            }
        }
        for it in &decision.moves {
            self.move_away(it);
        }
        for node in &decision.opens {
            if let Some(patch) = self.without_mark(node) {
                backend.patch_node(node, patch);
            }
        }
    }

    /// Closes the nodes of launches that are given up: those that are known, of which the claims may not have heard yet, and those
    /// that are to come. Returns the launches that stay, because somebody was placed on them after it was decided.
    fn give_up<'a>(&mut self, launches: &'a BTreeSet<LaunchKey>) -> BTreeSet<&'a LaunchKey> {
        self.machines.given_up.clear();
        if launches.is_empty() {
            return BTreeSet::new();
        }
        let mut nodes = nodes_by_launch(&self.state);
        let (mut kept, mut leaving) = (BTreeSet::new(), Vec::new());
        for launch in launches {
            let name = launch.name();
            let known = nodes.remove(name.as_str()).unwrap_or_default();
            if known.iter().all(|node| is_empty(&self.state, Some(&node.name))) {
                leaving.extend(known.into_iter().map(|node| node.name.clone()));
                self.machines.given_up.insert(name);
            } else {
                kept.insert(launch);
            }
        }
        leaving.retain(|node| !self.machines.closing.contains_key(node));
        for node in &leaving {
            self.close(node);
        }
        kept
    }

    /// Nobody is placed on a node any more.
    pub(super) fn close(&mut self, node: &NodeName) {
        let object = self.state.node_object(node).cloned();
        let takes_pods = object.as_ref().is_none_or(|object| object.schedulable);
        // One that is closed already was seen before.
        self.machines.closing.entry(node.clone()).or_insert(takes_pods);
        if let Some(object) = object {
            self.state.apply(Change::Node(Node { schedulable: false, ..object }));
        }
    }

    /// A node stays after all.
    pub(super) fn reopen(&mut self, node: &NodeName) {
        let Some(schedulable) = self.machines.closing.remove(node) else { return };
        if let Some(object) = self.state.node_object(node).cloned() {
            self.state.apply(Change::Node(Node { schedulable, ..object }));
        }
    }

    /// The patch that takes the gang's mark off a node. It fails if the taints have changed meanwhile.
    fn without_mark(&self, node: &NodeName) -> Option<Json> {
        let node = self.state.node_object(node)?;
        let index = node.taints.iter().position(|taint| &*taint.key == FOR_GANG_TAINT)?;
        let path = format!("/spec/taints/{index}");
        Some(json!([
            { "op": "test", "path": format!("{path}/key"), "value": FOR_GANG_TAINT },
            { "op": "remove", "path": path },
        ]))
    }
}

fn said(decision: &Decision) -> BTreeMap<GangKey, Said> {
    let coming = decision.under_way.iter().map(|(gang, launch)| {
        let reason = WaitReason::MachinesComing { machines: launch.of, ready_by: launch.ready_by };
        (gang.clone(), Said::Reason(reason))
    });
    let refused = decision.refused.iter().map(|refused| {
        let reason = WaitReason::NoMachines { why: refused.why.as_str().into() };
        (refused.gang.clone(), Said::Reason(reason))
    });
    let singles = decision.from_pools.iter().map(|gang| (gang.clone(), Said::FromPool));
    coming.chain(refused).chain(singles).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use api_types::machine_type::CapacityType;
    use api_types::names::LAUNCH_LABEL;
    use capacity::Decision;
    use capacity::catalogue::{Catalogue, OfferPlace};
    use capacity::claim::{Claim, Launch, LaunchKey, Purpose};
    use capacity::launches::Release;
    use capacity::reserve;
    use cluster_model::plan::{WaitReason, WaitingGang};
    use cluster_model::{Change, GangKey, NodeName, Pod, PodKey};
    use jiff::Timestamp;
    use serde_json::Value as Json;
    use tokio::time::Instant;

    use super::super::Planner;
    use super::super::testing::{planner, planner_and_requests};
    use super::Said;
    use crate::machines::testing::machine;
    use crate::machines::{CapacityBackend, Decided};

    /// Writes down what it is asked for.
    #[derive(Default)]
    struct Asked(Mutex<Vec<String>>);

    impl CapacityBackend for Asked {
        fn claims(&self) -> Option<Vec<Claim>> {
            None
        }
        fn more_wait(&self) {
            self.note("more wait".to_owned());
        }
        fn order(&self, launch: &Launch, _: &Catalogue) {
            self.note(format!("order for {}", launch.key.purpose));
        }
        fn give_back(&self, claim: &Arc<str>) {
            self.note(format!("give back {claim}"));
        }
        fn patch_node(&self, node: &NodeName, patch: Json) {
            self.note(format!("patch {node}: {}", patch[1]["path"]));
        }
    }

    impl Asked {
        fn note(&self, what: String) {
            self.0.lock().unwrap().push(what);
        }
        fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    fn gang() -> GangKey {
        GangKey::new("ns", "train")
    }

    fn node(name: &str, is_kept: bool) -> Change {
        let place =
            OfferPlace { zone: "a".into(), block: None, rack: None, capacity_type: CapacityType::OnDemand };
        let mut node = machine().node(&place, name, &reserve::mark(&gang()));
        node.taints.retain(|taint| is_kept || reserve::mark(&gang()) != *taint.value);
        Change::Node(node)
    }

    fn pod(gang: &GangKey) -> Pod {
        Pod::new(PodKey::new("ns", format!("{}-0", gang.name), "uid"), gang.clone())
    }

    fn tolerates(planner: &Planner, gang: &GangKey) -> bool {
        let pod = planner.state.pod(planner.state.pod_id(&pod(gang).key).expect("it is there")).pod();
        pod.tolerations.iter().any(|it| it.value.as_deref() == Some(&*reserve::mark(&super::tests::gang())))
    }

    fn decided(decision: Decision) -> Decided {
        Decided { decision, catalogue: Arc::default() }
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
        let launch = Launch { key, machines, ready_by, price_micros: 0, why: String::new() };
        Decision { launches: vec![launch], ..give_up() }
    }

    fn of_launch(name: &str) -> Change {
        let Change::Node(mut node) = node(name, true) else { unreachable!("it is a node") };
        let launch = LaunchKey { purpose: Purpose::Gang(gang()), number: 7 }.name();
        node.labels.insert(LAUNCH_LABEL.into(), launch.as_str().into());
        Change::Node(node)
    }

    fn takes_pods(planner: &Planner, node: &str) -> bool {
        planner.state.node_object(&node.into()).expect("it is there").schedulable
    }

    fn with_backend() -> (Planner, Arc<Asked>) {
        let (mut planner, asked) = (planner(), Arc::<Asked>::default());
        planner.outputs.machines = Some(asked.clone());
        (planner, asked)
    }

    #[tokio::test]
    async fn only_the_gang_that_a_machine_was_bought_for_may_use_it_whatever_is_seen_first() {
        let another = GangKey::new("ns", "another");
        for node_first in [true, false] {
            let mut planner = planner();
            let pods = [pod(&gang()), pod(&another)].map(Change::Pod);
            let changes = if node_first {
                vec![node("one", true), pods[0].clone(), pods[1].clone()]
            } else {
                vec![pods[0].clone(), pods[1].clone(), node("one", true)]
            };
            for change in changes {
                planner.apply(change);
            }
            assert!(tolerates(&planner, &gang()) && !tolerates(&planner, &another));
            planner.apply(node("one", false));
            planner.apply(Change::Pod(pod(&gang())));
            assert!(!tolerates(&planner, &gang()), "it is like any other pod again");
        }
    }

    #[tokio::test]
    async fn a_decision_is_due_when_more_wait_and_not_while_the_same_do() {
        let (mut planner, asked) = with_backend();
        let (run, first_pod, reasons) = (None, pod(&gang()).key, Vec::new());
        let mut waiting = vec![WaitingGang { gang: gang(), run, first_pod, reasons }];
        planner.add_machines(&mut []);
        assert!(asked.take().is_empty());
        planner.add_machines(&mut waiting);
        planner.add_machines(&mut waiting);
        assert_eq!(asked.take(), ["more wait"]);
    }

    #[tokio::test]
    async fn who_lacks_only_machines_that_are_coming_waits_for_them_before_all() {
        let (mut planner, _) = with_backend();
        let coming = WaitReason::MachinesComing { machines: 2, ready_by: Timestamp::MAX };
        let refused = WaitReason::NoMachines { why: "none suits".into() };
        let nodes = WaitReason::NoSuchGpuType { gpu_type: None };
        let queue = WaitReason::NoQueue { namespace: "team".into() };
        for (said, reason, codes) in [
            (&coming, &nodes, ["MachinesComing", "NoSuchGpuType"]),
            (&coming, &queue, ["NoQueue", "MachinesComing"]),
            (&refused, &nodes, ["NoSuchGpuType", "NoMachines"]),
        ] {
            planner.machines.said = [(gang(), Said::Reason(said.clone()))].into();
            let (run, first_pod, reasons) = (None, pod(&gang()).key, vec![reason.clone()]);
            let mut waiting = [WaitingGang { gang: gang(), run, first_pod, reasons }];
            planner.add_machines(&mut waiting);
            assert_eq!(waiting[0].reasons.iter().map(WaitReason::code).collect::<Vec<_>>(), codes);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_pod_of_a_gang_of_one_is_told_once_when_something_is_decided_or_nothing_for_a_while() {
        for is_decided in [true, false] {
            let (mut planner, requests) = planner_and_requests();
            planner.outputs.machines = Some(Arc::<Asked>::default());
            planner.apply(Change::Pod(pod(&gang())));
            let (run, first_pod, reasons) = (None, pod(&gang()).key, Vec::new());
            planner.waiting = vec![WaitingGang { gang: gang(), run, first_pod, reasons }];
            let look = async |planner: &mut Planner| {
                planner.explain_at = planner.explain_at.or(Some(Instant::now()));
                planner.explain_if_due(planner.explain_at.unwrap_or_else(Instant::now));
                tokio::time::sleep(Duration::from_secs(1)).await;
                requests.load(Ordering::SeqCst)
            };
            assert_eq!(look(&mut planner).await, 0);
            assert!(planner.explain_at.is_some(), "it is looked at again");
            if is_decided {
                let from_pools = [gang()].into();
                planner.carry_out(&decided(Decision { from_pools, ..Decision::default() }));
            } else {
                assert_eq!(look(&mut planner).await, 0);
                tokio::time::sleep(Duration::from_secs(1)).await;
                planner.explain_at = None;
            }
            assert_eq!(look(&mut planner).await, 1);
        }
    }

    #[tokio::test]
    async fn nobody_is_placed_on_a_machine_that_goes() {
        let (mut planner, asked) = with_backend();
        planner.apply(node("one", false));
        planner.carry_out(&decided(release()));
        assert_eq!(asked.take(), ["give back claim"]);
        assert!(!takes_pods(&planner, "one"));
        planner.apply(node("one", false));
        assert!(!takes_pods(&planner, "one"), "also when it is seen again");
        planner.apply(Change::NodeGone("one".into()));
        planner.apply(node("one", false));
        assert!(takes_pods(&planner, "one"), "another one has its name");
    }

    #[tokio::test]
    async fn nobody_is_placed_on_a_launch_that_was_given_up_though_its_claims_do_not_know_their_nodes() {
        let (mut planner, asked) = with_backend();
        planner.apply(of_launch("one"));
        planner.apply(Change::Pod(pod(&gang())));
        planner.carry_out(&decided(try_again()));
        assert_eq!(asked.take(), ["order for gang ns/train", "give back claim-0", "give back claim-1"]);
        planner.apply(of_launch("two"));
        assert!(!takes_pods(&planner, "one") && !takes_pods(&planner, "two"));
        planner.carry_out(&decided(Decision::default()));
        planner.apply(of_launch("three"));
        assert!(takes_pods(&planner, "three"), "it has gone, and is forgotten");
    }

    #[tokio::test]
    async fn a_launch_that_its_gang_was_placed_on_meanwhile_is_not_given_up() {
        let (mut planner, asked) = with_backend();
        planner.apply(of_launch("one"));
        planner.apply(Change::Pod(Pod { node: Some("one".into()), ..pod(&gang()) }));
        planner.carry_out(&decided(try_again()));
        assert!(asked.take().is_empty(), "nor is another one ordered");
        planner.apply(of_launch("two"));
        assert!(takes_pods(&planner, "one") && takes_pods(&planner, "two"));
    }

    #[tokio::test]
    async fn a_machine_that_has_pods_again_stays() {
        let (mut planner, asked) = with_backend();
        planner.apply(node("one", false));
        planner.apply(Change::Pod(Pod { node: Some("one".into()), ..pod(&gang()) }));
        planner.carry_out(&decided(release()));
        assert!(asked.take().is_empty());
    }

    #[tokio::test]
    async fn the_mark_is_taken_off_where_it_is() {
        let (mut planner, asked) = with_backend();
        planner.apply(node("one", true));
        let opens = vec!["one".into(), "unknown".into()];
        planner.carry_out(&decided(Decision { opens, ..Decision::default() }));
        assert_eq!(asked.take(), [r#"patch one: "/spec/taints/1""#]);
    }
}
