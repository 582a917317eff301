use cluster_model::ClusterChange::{Node as N, NodeGone, Pod as P, PodGone, Queue as Q, QueueGone};
use cluster_model::plan::{GangPlacement, MemberPlacement, Plan, WaitReason};
use cluster_model::{
    Amounts, AssumeError, ClusterState, GangKey, PodKey, QUEUE_DEPTH_MAX, ResourceName, Resources,
};

use crate::build::{gpus_free, gpus_used, key, node, on, pod, queue, state, usage};

fn small_cluster() -> ClusterState {
    state([N(node("a", "H100", 8)), Q(queue("org", None, 64)), Q(queue("nlp", Some("org"), 48))])
}

#[test]
fn a_bound_pod_uses_its_node_and_is_charged_to_its_queue_and_every_queue_above() {
    let mut state = small_cluster();
    state.apply(P(on(pod("p", 3), "a")));
    assert_eq!(gpus_free(&state, "a"), 5);
    assert_eq!(gpus_used(&state, "nlp", "H100"), 3);
    assert_eq!(gpus_used(&state, "org", "H100"), 3);
    assert_eq!(usage(&state, "org").cpu_millis, 1000);
}

#[test]
fn a_terminating_pod_holds_what_it_has_until_it_is_gone() {
    let mut state = small_cluster();
    let mut leaving = on(pod("p", 3), "a");
    leaving.terminating = true;
    state.apply(P(on(pod("p", 3), "a")));
    state.apply(P(leaving));
    assert_eq!((gpus_free(&state, "a"), gpus_used(&state, "nlp", "H100")), (5, 3));
    assert_eq!(usage(&state, "nlp").gangs_running, 1);
    state.apply(PodGone(key("p")));
    assert_eq!((gpus_free(&state, "a"), gpus_used(&state, "nlp", "H100")), (8, 0));
}

#[test]
fn an_assumed_pod_counts_until_it_is_forgotten_and_the_watch_confirms_it() {
    let mut state = small_cluster();
    state.apply(P(pod("p", 3)));
    let before = state.dump();
    state.assume(&key("p"), &"a".into()).expect("it waits");
    assert_eq!(gpus_free(&state, "a"), 5);
    // Some other part of the pod changed while the bind is under way.
    state.apply(P(pod("p", 3)));
    assert_eq!(gpus_free(&state, "a"), 5, "still assumed");
    state.forget(&key("p"));
    assert_eq!(state.dump(), before);

    state.assume(&key("p"), &"a".into()).expect("it waits");
    state.apply(P(on(pod("p", 3), "a")));
    let confirmed = state.dump();
    state.forget(&key("p"));
    assert_eq!(state.dump(), confirmed, "what was seen on a node is not forgotten");
    assert_eq!(gpus_free(&state, "a"), 5);
}

#[test]
fn the_watch_wins_over_an_assumption() {
    let mut state = small_cluster();
    state.apply(N(node("b", "H100", 8)));
    state.apply(P(pod("p", 3)));
    state.assume(&key("p"), &"a".into()).expect("it waits");
    state.apply(P(on(pod("p", 3), "b")));
    assert_eq!((gpus_free(&state, "a"), gpus_free(&state, "b")), (8, 5));
}

#[test]
fn what_cannot_be_assumed_says_why() {
    let mut state = small_cluster();
    state.apply(P(pod("waits", 1)));
    state.apply(P(on(pod("bound", 1), "a")));
    let check = |state: &mut ClusterState, pod: &str, node: &str, expected: AssumeError| {
        assert_eq!(state.assume(&key(pod), &node.into()), Err(expected));
    };
    check(&mut state, "nobody", "a", AssumeError::UnknownPod(key("nobody")));
    check(&mut state, "waits", "nowhere", AssumeError::UnknownNode(key("waits"), "nowhere".into()));
    check(&mut state, "bound", "a", AssumeError::NotPending(key("bound")));
}

#[test]
fn a_placement_that_names_a_pod_twice_is_left_out_whole() {
    let mut state = small_cluster();
    state.apply(P(pod("waits", 1)));
    let (id, first) = state.pods().next().expect("one pod");
    let gang = first.pod().gang.clone();
    let member = MemberPlacement { pod: key("waits"), node: "a".into(), devices: Vec::new() };
    let members = vec![member.clone(), member];
    let placement = GangPlacement { gang, queue: "nlp".into(), run: None, members };
    let plan = Plan { placements: vec![placement], ..Plan::empty(0, state.now()) };
    let committed = state.commit(&plan);
    assert_eq!(committed.misfits, [AssumeError::NotPending(key("waits"))]);
    assert_eq!((committed.effects, state.pod(id).at()), (Vec::new(), None));
}

#[test]
fn allocatable_below_what_is_used_goes_negative_and_drops_nothing() {
    let mut state = small_cluster();
    state.apply(P(on(pod("p", 8), "a")));
    state.apply(N(node("a", "H100", 6)));
    assert_eq!(gpus_free(&state, "a"), -2);
    assert_eq!(gpus_used(&state, "nlp", "H100"), 8);
    state.apply(N(node("a", "H100", 8)));
    assert_eq!(gpus_free(&state, "a"), 0);
}

#[test]
fn a_node_that_comes_back_picks_its_pods_up_again() {
    let mut state = small_cluster();
    let mut asks_h100 = on(pod("p", 3), "a");
    asks_h100.gpu_types = vec!["H100".into()];
    state.apply(P(asks_h100));
    let before = state.dump();
    state.apply(NodeGone("a".into()));
    assert_eq!(state.node_id(&"a".into()), None);
    assert_eq!(gpus_used(&state, "nlp", "H100"), 3, "held until the pod is gone");
    state.apply(N(node("a", "H100", 8)));
    assert_eq!(state.dump(), before);
    state.apply(NodeGone("a".into()));
    state.apply(PodGone(key("p")));
    assert_eq!(gpus_used(&state, "nlp", "H100"), 0);
    assert_eq!(state.nodes().count(), 0, "nothing is left of it");
}

#[test]
fn a_node_that_changes_its_gpu_type_takes_its_pods_charges_with_it() {
    let mut state = small_cluster();
    state.apply(P(on(pod("p", 3), "a")));
    state.apply(N(node("a", "A100", 8)));
    assert_eq!((gpus_used(&state, "nlp", "H100"), gpus_used(&state, "nlp", "A100")), (0, 3));
}

#[test]
fn a_pod_with_the_same_name_and_another_uid_is_another_pod() {
    let mut state = small_cluster();
    let old = on(pod("p", 3), "a");
    let new = cluster_model::Pod { key: PodKey::new("team", "p", "uid-new"), ..pod("p", 2) };
    state.apply(P(old.clone()));
    state.apply(P(new.clone()));
    assert_eq!(gpus_free(&state, "a"), 8, "the name was given away, so the old pod is gone");
    assert_eq!(state.pod_id(&old.key), None);
    state.apply(PodGone(old.key));
    assert!(state.pod_id(&new.key).is_some(), "a late farewell to the old one is not for the new one");
}

#[test]
fn a_queue_is_charged_for_pods_that_came_before_it_and_for_its_children() {
    let mut state = state([P(on(pod("p", 3), "a")), N(node("a", "H100", 8))]);
    state.apply(Q(queue("nlp", Some("org"), 48)));
    assert_eq!(gpus_used(&state, "nlp", "H100"), 3);
    state.apply(Q(queue("org", Some("root"), 64)));
    state.apply(Q(queue("root", None, 64)));
    assert_eq!(gpus_used(&state, "root", "H100"), 3);
    state.apply(QueueGone("org".into()));
    assert_eq!(gpus_used(&state, "root", "H100"), 0, "nothing leads there any more");
    assert_eq!(gpus_used(&state, "nlp", "H100"), 3);
}

#[test]
fn a_queue_that_does_not_list_the_namespace_is_not_charged() {
    let mut state = small_cluster();
    let mut forged = on(pod("p", 3), "a");
    forged.key.namespace = "elsewhere".into();
    state.apply(P(forged.clone()));
    assert_eq!(gpus_used(&state, "nlp", "H100"), 0);
    let reason = WaitReason::QueueNotOpen { queue: "nlp".into(), namespace: "elsewhere".into() };
    assert_eq!(state.queue_of(&forged), Err(reason.clone()));
    assert!(reason.is_never());
}

#[test]
fn a_pod_without_a_queue_takes_the_only_one_that_lists_its_namespace() {
    let mut state = state([N(node("a", "H100", 8))]);
    let unnamed = cluster_model::Pod { queue: None, ..pod("p", 1) };
    assert_eq!(state.queue_of(&unnamed), Err(WaitReason::NoQueue { namespace: "team".into() }));
    state.apply(Q(queue("nlp", None, 8)));
    assert_eq!(state.queue_of(&unnamed).expect("there is one").as_str(), "nlp");
    state.apply(Q(queue("vision", None, 8)));
    let queues = vec!["nlp".into(), "vision".into()];
    assert_eq!(state.queue_of(&unnamed), Err(WaitReason::SeveralQueues { namespace: "team".into(), queues }));
}

#[test]
fn pods_of_other_schedulers_use_nodes_and_are_charged_only_where_they_ask() {
    let mut state = small_cluster();
    let foreign = cluster_model::Pod { ours: false, queue: None, ..on(pod("daemon", 2), "a") };
    state.apply(P(foreign.clone()));
    assert_eq!((gpus_free(&state, "a"), gpus_used(&state, "nlp", "H100")), (6, 0));
    state.apply(P(cluster_model::Pod { queue: Some("nlp".into()), ..foreign.clone() }));
    assert_eq!((gpus_free(&state, "a"), gpus_used(&state, "nlp", "H100")), (6, 2));
    state.apply(P(cluster_model::Pod { node: None, ..foreign }));
    assert_eq!(gpus_free(&state, "a"), 8, "without a node it is none of our business");
    assert_eq!(state.waiting_gangs().count(), 0);
}

#[test]
fn a_ring_of_queues_is_reported_and_opens_again() {
    let mut state = state([
        N(node("a", "H100", 8)),
        Q(queue("x", Some("y"), 8)),
        Q(queue("y", Some("z"), 8)),
        Q(queue("z", Some("x"), 8)),
        Q(queue("nlp", Some("y"), 8)),
        P(on(pod("p", 1), "a")),
    ]);
    let chain = state.queue_chain_of(&pod("p", 1)).map(|_| ());
    assert_eq!(chain, Err(WaitReason::QueueCycle { queue: "y".into() }));
    assert_eq!((gpus_used(&state, "y", "H100"), gpus_used(&state, "z", "H100")), (1, 0));
    state.apply(Q(queue("z", None, 8)));
    let names: Vec<_> = state
        .queue_chain_of(&pod("p", 1))
        .expect("open")
        .iter()
        .map(|(queue, _)| queue.name.to_string())
        .collect();
    assert_eq!(names, ["nlp", "y", "z"]);
    assert_eq!((gpus_used(&state, "z", "H100"), gpus_used(&state, "x", "H100")), (1, 0));
}

#[test]
fn a_queue_that_is_its_own_parent_is_a_ring_and_can_be_deleted() {
    let mut state = state([Q(queue("nlp", Some("nlp"), 8))]);
    let ring = WaitReason::QueueCycle { queue: "nlp".into() };
    assert_eq!(state.queue_chain_of(&pod("p", 1)).map(|_| ()), Err(ring));
    state.apply(QueueGone("nlp".into()));
    assert_eq!(state.dump(), ClusterState::default().dump());
}

#[test]
fn a_chain_of_queues_is_followed_only_so_deep() {
    let mut state = state([Q(queue("nlp", Some("1"), 8))]);
    for depth in 1..QUEUE_DEPTH_MAX {
        let parent = (depth + 1).to_string();
        let parent = Some(parent.as_str()).filter(|_| depth + 1 < QUEUE_DEPTH_MAX);
        state.apply(Q(queue(&depth.to_string(), parent, 8)));
    }
    assert_eq!(state.queue_chain_of(&pod("p", 1)).expect("just deep enough").len(), QUEUE_DEPTH_MAX);
    let last = (QUEUE_DEPTH_MAX - 1).to_string();
    state.apply(Q(queue(&last, Some("top"), 8)));
    state.apply(Q(queue("top", None, 8)));
    let too_deep = WaitReason::QueueTooDeep { queue: "nlp".into(), depth_max: QUEUE_DEPTH_MAX };
    assert_eq!(state.queue_chain_of(&pod("p", 1)).map(|_| ()), Err(too_deep));
}

#[test]
fn gangs_wait_in_the_order_finishing_their_start_then_priority_then_age_then_name() {
    let second = |seconds| jiff::Timestamp::from_second(seconds).expect("in range");
    let member = |gang: &str, name: &str, priority: i32, created: i64| cluster_model::Pod {
        gang: GangKey::new("team", gang),
        gang_size: Some(2),
        priority,
        created: second(created),
        ..pod(name, 1)
    };
    let state = state([
        N(node("a", "H100", 8)),
        P(member("young", "y", 5, 20)),
        P(member("old", "o", 5, 10)),
        P(member("also-old", "ao", 5, 10)),
        P(member("urgent", "u", 9, 30)),
        P(member("grown", "g0", 0, 50)),
        P(on(cluster_model::Pod { requests: Resources::default(), ..member("grown", "g1", 0, 50) }, "a")),
        P(member("in-part", "i0", 0, 40)),
        P(on(member("in-part", "i1", 0, 40), "a")),
    ]);
    let order: Vec<_> = state.waiting_gangs().map(|gang| gang.name.to_string()).collect();
    assert_eq!(order, ["in-part", "urgent", "also-old", "old", "young", "grown"]);
}

#[test]
fn queues_count_gangs_that_run_and_wait() {
    let mut state = small_cluster();
    let member = |name: &str| cluster_model::Pod { gang: GangKey::new("team", "g"), ..pod(name, 1) };
    let counts = |state: &ClusterState| {
        let usage = usage(state, "org");
        (usage.gangs_running, usage.gangs_waiting)
    };
    state.apply(P(member("m0")));
    state.apply(P(member("m1")));
    assert_eq!(counts(&state), (0, 1));
    state.assume(&key("m0"), &"a".into()).expect("it waits");
    assert_eq!(counts(&state), (1, 1));
    state.assume(&key("m1"), &"a".into()).expect("it waits");
    assert_eq!(counts(&state), (1, 0));
    state.apply(PodGone(key("m0")));
    state.apply(PodGone(key("m1")));
    assert_eq!(counts(&state), (0, 0));
}

#[test]
fn a_fork_of_a_fork_is_undone_alone_or_kept_in_its_parent() {
    let mut state = small_cluster();
    state.apply(P(pod("p", 3)));
    state.apply(P(pod("q", 3)));
    let before = state.dump();
    let generation = state.generation();
    let id = |state: &ClusterState, name: &str| state.pod_id(&key(name)).expect("it is there");
    let (p, q, a) = (id(&state, "p"), id(&state, "q"), state.node_id(&"a".into()).expect("it is there"));
    {
        let mut outer = state.fork();
        outer.assume(p, a, &[]);
        {
            let mut inner = outer.fork();
            inner.assume(q, a, &[]);
            assert_eq!(gpus_free(&inner, "a"), 2);
        }
        assert_eq!(gpus_free(&outer, "a"), 5, "only the inner one is undone");
        let mut inner = outer.fork();
        inner.assume(q, a, &[]);
        inner.keep();
        assert_eq!(gpus_free(&outer, "a"), 2, "kept");
    }
    assert_eq!(state.dump(), before);
    assert_eq!(state.generation(), generation);

    let mut kept = state.fork();
    kept.assume(p, a, &[]);
    kept.keep();
    assert_eq!(gpus_free(&state, "a"), 5, "kept for good");
    assert!(state.generation() > generation);
}

#[test]
fn the_bound_of_a_queue_is_its_limit_where_that_names_the_resource_else_its_quota() {
    let amounts = |gpus: &[(&str, i64)], cpu: Option<i64>| {
        let gpus = gpus.iter().map(|(name, gpus)| ((*name).into(), *gpus)).collect();
        Some(Amounts { gpus, cpu_millis: cpu, memory_bytes: None })
    };
    let check =
        |quota: Option<Amounts>, limit: Option<Amounts>, resource: ResourceName, expected: Option<i64>| {
            let queue = cluster_model::Queue { quota, limit, ..queue("q", None, 0) };
            assert_eq!(queue.bound(&resource), expected, "{queue:?} {resource}");
        };
    let h100 = || ResourceName::Gpu("H100".into());
    let l4 = || ResourceName::Gpu("L4".into());
    check(None, None, h100(), None);
    check(amounts(&[], None), None, h100(), None);
    check(amounts(&[("H100", 8)], None), None, h100(), Some(8));
    check(amounts(&[("H100", 8)], None), None, l4(), Some(0));
    check(amounts(&[("H100", 8)], None), amounts(&[("H100", 16)], None), h100(), Some(16));
    check(amounts(&[("H100", 8), ("L4", 2)], None), amounts(&[("H100", 16)], None), l4(), Some(2));
    check(amounts(&[], None), amounts(&[("H100", 16)], None), l4(), Some(0));
    check(amounts(&[("H100", 8)], None), None, ResourceName::Cpu, None);
    check(amounts(&[], Some(5)), amounts(&[], None), ResourceName::Cpu, Some(5));
    check(amounts(&[], Some(5)), amounts(&[], Some(9)), ResourceName::Cpu, Some(9));
    check(amounts(&[], Some(5)), None, ResourceName::Memory, None);
}
