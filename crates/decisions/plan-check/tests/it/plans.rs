use cluster_model::plan::{GangPlacement, MemberPlacement, Plan, WaitReason, WaitingGang};
use cluster_model::policy::Policy;
use cluster_model::{
    Amounts, ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Queue, ResourceName, Resources, Taint,
    TaintEffect,
};
use jiff::Timestamp;
use plan_check::{Violation, check_plan};

fn node(name: &str, gpu_type: &str) -> Node {
    Node {
        gpu_type: Some(gpu_type.into()),
        allocatable: Resources { gpus: 8, cpu_millis: 8000, memory_bytes: 1 << 40, pods: 10 },
        ..Node::new(name)
    }
}

fn pod(gang: &str, index: u32, size: u32, gpus: i64) -> Pod {
    Pod {
        gang_size: Some(size),
        queue: Some("nlp".into()),
        requests: Resources { gpus, cpu_millis: 1000, memory_bytes: 1, pods: 1 },
        member_index: Some(index),
        ..Pod::new(key(gang, index), GangKey::new("team", gang))
    }
}

fn key(gang: &str, index: u32) -> PodKey {
    PodKey::new("team", format!("{gang}-{index}"), "u")
}

/// Nodes a and b with H100 and l with L4; queue `nlp` with 12 H100 below `org`; gang g of two with 4 GPUs each, and a
/// gang w that waits for a second member.
fn changes() -> Vec<ClusterChange> {
    let queue = |name: &str, parent: Option<&str>, gpus: &[(&str, i64)]| {
        let gpus = gpus.iter().map(|(name, gpus)| ((*name).into(), *gpus)).collect();
        ClusterChange::Queue(Queue {
            parent: parent.map(Into::into),
            quota: Some(Amounts { gpus, ..Amounts::default() }),
            namespaces: ["team".into()].into(),
            ..Queue::new(name)
        })
    };
    let nodes = [node("a", "H100"), node("b", "H100"), node("l", "L4")].map(ClusterChange::Node);
    let pods = [pod("g", 0, 2, 4), pod("g", 1, 2, 4), pod("w", 0, 2, 1)].map(ClusterChange::Pod);
    let queues = [queue("org", None, &[]), queue("nlp", Some("org"), &[("H100", 12), ("L4", 12)])];
    nodes.into_iter().chain(pods).chain(queues).collect()
}

fn state(changes: Vec<ClusterChange>) -> ClusterState {
    let mut state = ClusterState::default();
    for change in changes {
        state.apply(change);
    }
    state
}

fn place(gang: &str, members: &[(u32, &str)]) -> GangPlacement {
    let member = |(index, node): &(u32, &str)| MemberPlacement {
        pod: key(gang, *index),
        node: (*node).into(),
        devices: vec![],
    };
    GangPlacement {
        gang: GangKey::new("team", gang),
        queue: "nlp".into(),
        run: None,
        members: members.iter().map(member).collect(),
    }
}

fn wait(gang: &str) -> WaitingGang {
    let reasons = vec![WaitReason::MembersMissing { have: 1, want: 2 }];
    WaitingGang { gang: GangKey::new("team", gang), run: None, first_pod: key(gang, 0), reasons }
}

fn plan(state: &ClusterState, placements: Vec<GangPlacement>) -> Plan {
    Plan { placements, waiting: vec![wait("w")], ..Plan::empty(state.generation(), Timestamp::UNIX_EPOCH) }
}

/// What the judge says about g's members on these nodes, with one more change to the cluster.
fn judge(change: ClusterChange, members: &[(u32, &str)]) -> Vec<Violation> {
    let mut changes = changes();
    changes.push(change);
    let state = state(changes);
    check_plan(&state, &plan(&state, vec![place("g", members)]), &Policy::default())
}

fn nothing() -> ClusterChange {
    ClusterChange::NodeGone("nowhere".into())
}

fn gang(name: &str) -> GangKey {
    GangKey::new("team", name)
}

#[test]
fn a_good_plan_passes() {
    assert_eq!(judge(nothing(), &[(0, "a"), (1, "b")]), []);
    assert_eq!(judge(nothing(), &[(1, "a"), (0, "a")]), []);
    assert_eq!(judge(nothing(), &[(0, "l"), (1, "l")]), []);
}

#[test]
fn a_gang_in_part_is_found() {
    assert_eq!(judge(nothing(), &[(0, "a")]), [Violation::NotWhole(gang("g"))]);
    let state = state(changes());
    let mut spoiled = plan(&state, vec![place("g", &[(0, "a"), (1, "a")]), place("w", &[(0, "b")])]);
    spoiled.waiting.clear();
    assert_eq!(check_plan(&state, &spoiled, &Policy::default()), [Violation::NotWhole(gang("w"))]);
}

#[test]
fn a_pod_that_is_placed_twice_or_has_a_node_is_found() {
    let found = judge(nothing(), &[(0, "a"), (1, "a"), (1, "b")]);
    assert!(found.contains(&Violation::PlacedTwice(key("g", 1))), "{found:?}");
    let bound = ClusterChange::Pod(Pod { node: Some("a".into()), ..pod("g", 0, 2, 4) });
    let found = judge(bound, &[(0, "a"), (1, "a")]);
    assert!(found.contains(&Violation::NotPending(key("g", 0))), "{found:?}");
    let found = judge(nothing(), &[(0, "a"), (1, "a"), (7, "b")]);
    assert!(found.contains(&Violation::NotPending(key("g", 7))), "{found:?}");
}

#[test]
fn a_node_that_is_over_is_found_also_by_pods_of_others() {
    let foreign = Pod { ours: false, queue: None, node: Some("a".into()), ..pod("f", 0, 1, 1) };
    let over =
        |resource, used, allocatable| Violation::NodeOver { node: "a".into(), resource, used, allocatable };
    assert_eq!(judge(ClusterChange::Pod(foreign.clone()), &[(0, "a"), (1, "a")]), [over("gpus", 9, 8)]);
    let greedy = Resources { gpus: 0, cpu_millis: 7000, ..foreign.requests };
    assert_eq!(
        judge(ClusterChange::Pod(Pod { requests: greedy, ..foreign }), &[(0, "a"), (1, "a")]),
        [over("cpu", 9000, 8000)]
    );
    let mut full = node("a", "H100");
    full.allocatable.pods = 1;
    assert_eq!(judge(ClusterChange::Node(full), &[(0, "a"), (1, "a")]), [over("pods", 2, 1)]);
    let mut full = node("a", "H100");
    full.allocatable.memory_bytes = 1;
    assert_eq!(judge(ClusterChange::Node(full), &[(0, "a"), (1, "a")]), [over("memory", 2, 1)]);
}

#[test]
fn a_node_that_the_pod_may_not_use_is_found() {
    let members = [(0, "a"), (1, "b")];
    let wrong = [Violation::WrongNode(key("g", 0), "a".into())];
    assert_eq!(judge(ClusterChange::Node(Node { schedulable: false, ..node("a", "H100") }), &members), wrong);
    let taint = Taint { key: "k".into(), value: "".into(), effect: TaintEffect::NoExecute };
    assert_eq!(
        judge(ClusterChange::Node(Node { taints: vec![taint.clone()], ..node("a", "H100") }), &members),
        wrong
    );
    let soft = Taint { effect: TaintEffect::PreferNoSchedule, ..taint };
    assert_eq!(judge(ClusterChange::Node(Node { taints: vec![soft], ..node("a", "H100") }), &members), []);
    let picky = Pod { node_selector: [("zone".into(), "a".into())].into(), ..pod("g", 0, 2, 4) };
    assert_eq!(judge(ClusterChange::Pod(picky), &members), wrong);
    let found = judge(nothing(), &[(0, "nowhere"), (1, "b")]);
    assert!(found.contains(&Violation::WrongNode(key("g", 0), "nowhere".into())), "{found:?}");
}

#[test]
fn several_gpu_types_or_another_than_asked_for_are_found() {
    assert_eq!(judge(nothing(), &[(0, "a"), (1, "l")]), [Violation::WrongGpuType(gang("g"))]);
    let asks = ClusterChange::Pod(Pod { gpu_types: vec!["H100".into()], ..pod("g", 0, 2, 4) });
    assert_eq!(judge(asks, &[(0, "l"), (1, "l")]), [Violation::WrongGpuType(gang("g"))]);
    let bound = ClusterChange::Pod(Pod { node: Some("a".into()), ..pod("g", 0, 2, 4) });
    assert_eq!(judge(bound, &[(1, "l")]), [Violation::WrongGpuType(gang("g"))]);
}

#[test]
fn a_queue_that_is_over_is_found_and_a_gang_that_was_granted_before_is_let_through() {
    let runs = Pod { node: Some("b".into()), ..pod("r", 0, 1, 5) };
    let over = Violation::QuotaExceeded {
        gang: gang("g"),
        queue: "nlp".into(),
        resource: ResourceName::Gpu("H100".into()),
        holds: 13,
        bound: 12,
    };
    assert_eq!(judge(ClusterChange::Pod(runs.clone()), &[(0, "a"), (1, "a")]), [over]);

    let mut changes = changes();
    changes.push(ClusterChange::Pod(runs));
    changes.push(ClusterChange::Pod(Pod { node: Some("a".into()), ..pod("g", 0, 2, 4) }));
    let state = state(changes);
    assert_eq!(check_plan(&state, &plan(&state, vec![place("g", &[(1, "a")])]), &Policy::default()), []);
}

#[test]
fn members_that_were_not_granted_as_they_are_must_fit_the_quota() {
    // Queue nlp holds 12 of 12 H100: 8 of another gang, and 4 of member 0.
    let judge = |member: Pod| {
        let mut changes = changes();
        changes.push(ClusterChange::Pod(Pod { node: Some("b".into()), ..pod("r", 0, 1, 8) }));
        changes.push(ClusterChange::Pod(Pod { node: Some("a".into()), ..pod("g", 0, 2, 4) }));
        changes.push(ClusterChange::Pod(member));
        let state = state(changes);
        check_plan(&state, &plan(&state, vec![place("g", &[(1, "a")])]), &Policy::default())
    };
    let over = |holds| {
        let (queue, resource) = ("nlp".into(), ResourceName::Gpu("H100".into()));
        [Violation::QuotaExceeded { gang: gang("g"), queue, resource, holds, bound: 12 }]
    };
    assert_eq!(judge(pod("g", 1, 2, 4)), [], "the rest of what was granted");
    assert_eq!(judge(pod("g", 1, 2, 1)), [], "less than was granted");
    let with = |change: fn(&mut Pod)| {
        let mut pod = pod("g", 1, 2, 4);
        change(&mut pod);
        judge(pod)
    };
    assert_eq!(with(|pod| pod.requests.cpu_millis += 1), over(16));
    assert_eq!(with(|pod| pod.requests.memory_bytes += 1), over(16));
    assert_eq!(with(|pod| pod.gpu_types = vec!["H100".into()]), over(16), "member 0 did not ask for a type");
    let found = with(|pod| pod.requests.gpus = 5);
    assert!(found.contains(&over(17)[0]), "{found:?}");
    assert_eq!(with(|pod| pod.gang_size = Some(9)), [Violation::NotWhole(gang("g"))]);
}

#[test]
fn members_that_ended_count_as_members_and_grant_nothing() {
    let judged = |ended: u32, quota: i64| {
        let mut state = state(changes());
        let queue = state.queue(&"nlp".into()).expect("it is there").0.clone();
        let quota = Amounts { gpus: [("H100".into(), quota)].into(), ..Amounts::default() };
        state.apply(ClusterChange::Queue(Queue { quota: Some(quota), ..queue }));
        state.note_ended(&gang("w"), ended);
        let placed = [place("g", &[(0, "a"), (1, "a")]), place("w", &[(0, "b")])].to_vec();
        check_plan(&state, &Plan { waiting: vec![], ..plan(&state, placed) }, &Policy::default())
    };
    assert_eq!(judged(1, 9), []);
    assert_eq!(judged(0, 9), [Violation::NotWhole(gang("w"))]);
    let (queue, resource) = ("nlp".into(), ResourceName::Gpu("H100".into()));
    let over = Violation::QuotaExceeded { gang: gang("w"), queue, resource, holds: 9, bound: 8 };
    assert_eq!(judged(1, 8), [over]);
}

#[test]
fn a_queue_that_is_not_open_to_the_gang_is_found() {
    let other = ClusterChange::Pod(Pod { queue: Some("org".into()), ..pod("g", 0, 2, 4) });
    assert_eq!(judge(other, &[(0, "a"), (1, "a")]), [Violation::WrongQueue(gang("g"))]);
    let unknown = ClusterChange::QueueGone("org".into());
    assert_eq!(judge(unknown, &[(0, "a"), (1, "a")]), [Violation::WrongQueue(gang("g"))]);
}

#[test]
fn gates_and_what_is_not_supported_are_found() {
    let gated = ClusterChange::Pod(Pod { gated: true, ..pod("g", 0, 2, 4) });
    assert_eq!(judge(gated, &[(0, "a"), (1, "a")]), [Violation::NotAllowed(key("g", 0))]);
    let odd =
        ClusterChange::Pod(Pod { unsupported: vec!["spec.resourceClaims".into()], ..pod("g", 0, 2, 4) });
    assert_eq!(judge(odd, &[(0, "a"), (1, "a")]), [Violation::NotAllowed(key("g", 0))]);
}

#[test]
fn every_gang_that_waits_is_decided_about_once_with_a_reason() {
    let state = state(changes());
    let good = plan(&state, vec![place("g", &[(0, "a"), (1, "a")])]);
    let forgotten = Plan { waiting: vec![], ..good.clone() };
    assert_eq!(check_plan(&state, &forgotten, &Policy::default()), [Violation::NotDecidedOnce(gang("w"))]);
    let both = Plan { waiting: vec![wait("w"), wait("g")], ..good.clone() };
    assert_eq!(check_plan(&state, &both, &Policy::default()), [Violation::NotDecidedOnce(gang("g"))]);
    let made_up = Plan { waiting: vec![wait("w"), wait("x")], ..good.clone() };
    assert_eq!(check_plan(&state, &made_up, &Policy::default()), [Violation::NotDecidedOnce(gang("x"))]);
    let silent = Plan { waiting: vec![WaitingGang { reasons: vec![], ..wait("w") }], ..good.clone() };
    assert_eq!(check_plan(&state, &silent, &Policy::default()), [Violation::NoReason(gang("w"))]);
    let outdated = Plan { generation: 0, ..good };
    assert_eq!(check_plan(&state, &outdated, &Policy::default()), [Violation::OtherGeneration]);
}
