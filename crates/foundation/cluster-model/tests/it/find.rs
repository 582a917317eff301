//! What a search finds: devices, classes of nodes, domains, classes of gangs.

use cluster_model::ClusterChange::{Node as N, NodeGone, Pod as P, PodGone, Queue as Q};
use cluster_model::plan::MemberPlacement;
use cluster_model::{
    ClusterState, DeviceAsk, DevicePart, DeviceState, DeviceUse, DomainId, GangKey, Level, MigProfile, Node,
    Pod, PodKey, ResourceName,
};

use crate::build::{gpus_free, key, node, on, pod, queue, state};

fn exact(name: &str, gpus: i64) -> Node {
    Node { exact: true, ..node(name, "H100", gpus) }
}

fn devices(state: &ClusterState, name: &str) -> Vec<DeviceState> {
    state.node(state.node_id(&name.into()).expect("it is there")).devices().to_vec()
}

fn with_part(name: &str, node: &str, device: u8, part: DevicePart) -> Pod {
    let ask = match part {
        DevicePart::Whole => DeviceAsk::Whole,
        DevicePart::Millis(millis) => DeviceAsk::Share { millis },
        DevicePart::Mig { profile, .. } => DeviceAsk::Mig { profile },
    };
    let gpus = i64::from(part == DevicePart::Whole);
    Pod { device: ask, devices: vec![DeviceUse { device, part }], ..on(pod(name, gpus), node) }
}

fn names(state: &ClusterState, nodes: impl Iterator<Item = cluster_model::NodeId>) -> Vec<String> {
    nodes.map(|node| state.node(node).name().to_string()).collect()
}

fn classes(state: &ClusterState) -> Vec<(i64, Vec<String>)> {
    state.classes().map(|(_, class)| (class.free().gpus, names(state, class.nodes()))).collect()
}

#[test]
fn a_device_is_whole_or_shared_or_cut_and_no_two_of_these() {
    let mig = |profile, start| DevicePart::Mig { profile, start };
    let free = DeviceState::FREE;
    let shared = free.without(DevicePart::Millis(600)).expect("it is free");
    assert_eq!(shared.without(DevicePart::Millis(401)), None);
    assert_eq!(shared.without(DevicePart::Millis(400)).map(|it| it.millis_free), Some(0));
    assert_eq!((shared.without(DevicePart::Whole), shared.without(mig(MigProfile::G1, 6))), (None, None));

    let cut = free.without(mig(MigProfile::G3, 0)).expect("it is free");
    assert_eq!(cut.slices_used, 0b0000_1111);
    assert_eq!((cut.without(DevicePart::Whole), cut.without(DevicePart::Millis(1))), (None, None));
    assert_eq!(cut.without(mig(MigProfile::G4, 0)), None, "it may lie at the start only");
    assert_eq!(cut.without(mig(MigProfile::G2, 5)), None, "not a legal start");
    let full = cut.without(mig(MigProfile::G3, 4)).expect("the other half is free");
    assert_eq!(full.slices_used, u8::MAX);
    assert!(
        MigProfile::ALL
            .iter()
            .all(|profile| profile.starts().iter().all(|start| !full.fits(mig(*profile, *start))))
    );

    let media = free.without(mig(MigProfile::G1Media, 0)).expect("it is free");
    assert_eq!(media.without(mig(MigProfile::G1Media, 1)), None, "a device has them once");
    assert!(media.fits(mig(MigProfile::G1, 1)));
}

#[test]
fn an_exact_node_knows_its_devices_and_one_in_parts_is_no_free_gpu() {
    let mut state = state([N(exact("a", 4)), Q(queue("nlp", None, 8))]);
    let before = state.dump();
    state.apply(P(with_part("whole", "a", 0, DevicePart::Whole)));
    state.apply(P(with_part("share", "a", 1, DevicePart::Millis(250))));
    state.apply(P(with_part("more", "a", 1, DevicePart::Millis(250))));
    state.apply(P(with_part("slice", "a", 2, DevicePart::Mig { profile: MigProfile::G1Media, start: 6 })));
    assert_eq!(gpus_free(&state, "a"), 1);
    let expected = [(0, u8::MAX, true), (500, u8::MAX, true), (0, 1 << 6, true), (1000, 0, false)];
    let found: Vec<_> =
        devices(&state, "a").iter().map(|it| (it.millis_free, it.slices_used, it.media_used)).collect();
    assert_eq!(found, expected);
    assert_eq!(state.queue(&"nlp".into()).expect("there").1.gpu_share_millis, 625);
    for name in ["more", "whole", "slice", "share"] {
        state.apply(PodGone(key(name)));
    }
    assert_eq!(state.dump(), before);
}

#[test]
fn two_that_claim_the_same_device_leave_it_one_after_the_other() {
    let mut state = state([N(exact("a", 2)), P(with_part("one", "a", 0, DevicePart::Whole))]);
    state.apply(P(with_part("other", "a", 0, DevicePart::Millis(1000))));
    assert_eq!(gpus_free(&state, "a"), 0, "overcommitted: a whole one and a part are no one device");
    state.apply(PodGone(key("one")));
    assert_eq!((devices(&state, "a")[0].millis_free, gpus_free(&state, "a")), (0, 1));
    state.apply(PodGone(key("other")));
    assert_eq!(devices(&state, "a"), [DeviceState::FREE; 2]);
}

#[test]
fn devices_that_are_assumed_are_taken_and_given_back_and_counted_nodes_have_none() {
    let mut state = state([N(exact("a", 1)), N(node("b", "H100", 1)), P(pod("p", 1))]);
    let whole = vec![DeviceUse { device: 0, part: DevicePart::Whole }];
    let member = MemberPlacement { pod: key("p"), node: "a".into(), devices: whole.clone() };
    state.assume_member(&member).expect("it waits");
    assert!(!devices(&state, "a")[0].is_free());
    state.forget(&key("p"));
    assert!(devices(&state, "a")[0].is_free());
    state.assume_member(&MemberPlacement { node: "b".into(), ..member }).expect("it waits");
    assert_eq!(devices(&state, "b"), []);
    // Devices that pods say they have are known before the node is there, and before it is Exact.
    state.apply(P(Pod { devices: whole, ..on(pod("early", 1), "c") }));
    state.apply(N(exact("c", 2)));
    assert_eq!(devices(&state, "c").iter().map(DeviceState::is_free).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn nodes_that_differ_in_name_and_place_only_are_of_one_class() {
    let mut state = state([
        N(node("a", "H100", 8)),
        N(Node { topology: vec!["r1".into()], ..node("b", "H100", 8) }),
        N(node("c", "H100", 8)),
        N(Node { schedulable: false, ..node("closed", "H100", 8) }),
        N(Node { spot: true, ..node("spot", "H100", 8) }),
    ]);
    let own = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(classes(&state), [(8, own(&["a", "c", "b"])), (8, own(&["spot"]))], "by place, then name");
    state.apply(P(on(pod("p", 3), "c")));
    assert_eq!(classes(&state), [(5, own(&["c"])), (8, own(&["a", "b"])), (8, own(&["spot"]))]);
    state.apply(P(on(pod("q", 3), "a")));
    assert_eq!(classes(&state), [(5, own(&["a", "c"])), (8, own(&["b"])), (8, own(&["spot"]))]);
    let kind = state.kinds().find(|(_, kind)| !kind.spot).expect("there").0;
    assert_eq!(state.gpus_free_of(kind), 5 + 5 + 8);
    assert_eq!(state.classes_of(kind, 6).count(), 1);
}

#[test]
fn exact_nodes_with_the_same_states_of_devices_are_of_one_class_whichever_device_it_is() {
    let state = state([
        N(exact("a", 2)),
        N(exact("b", 2)),
        P(with_part("p", "a", 0, DevicePart::Millis(300))),
        P(with_part("q", "b", 1, DevicePart::Millis(300))),
    ]);
    assert_eq!(state.classes().count(), 1);
}

#[test]
fn a_label_splits_kinds_only_while_a_pod_selects_by_it() {
    let labelled = |name: &str, disk: &str| Node {
        labels: [("disk".into(), disk.into()), ("host".into(), name.into())].into(),
        ..node(name, "H100", 8)
    };
    let mut state = state([N(labelled("a", "ssd")), N(labelled("b", "hdd")), N(labelled("c", "ssd"))]);
    assert_eq!((state.kinds().count(), state.label_splits_kinds("disk")), (1, false));
    state.apply(P(Pod { node_selector: [("disk".into(), "ssd".into())].into(), ..pod("p", 1) }));
    assert_eq!((state.kinds().count(), state.label_splits_kinds("disk")), (2, true));
    state.apply(PodGone(key("p")));
    assert_eq!(state.kinds().count(), 1);

    // A label with very many values splits nothing.
    (0..100).for_each(|number| state.apply(N(labelled(&format!("n{number:03}"), "ssd"))));
    state.apply(P(Pod { node_selector: [("host".into(), "a".into())].into(), ..pod("p", 1) }));
    assert_eq!((state.kinds().count(), state.label_splits_kinds("host")), (1, false));
    (0..100).for_each(|number| state.apply(NodeGone(format!("n{number:03}").into())));
    assert_eq!((state.kinds().count(), state.label_splits_kinds("host")), (3, true));
}

#[test]
fn domains_of_any_level_count_their_nodes_by_class_without_looking_at_them() {
    let placed = |name: &str, path: &str| Node {
        topology: path.split('/').map(Into::into).collect(),
        ..node(name, "H100", 8)
    };
    let mut state = state([
        N(placed("n1", "z1/r2/x")),
        N(placed("n2", "z1/r1")),
        N(placed("n3", "z1/r1")),
        N(placed("n4", "z2/r1")),
        N(node("n5", "H100", 8)),
        P(on(pod("p", 6), "n3")),
    ]);
    let child = |state: &ClusterState, of: DomainId, name: &str| {
        state.domain(of).children().find(|id| &**state.domain(*id).name() == name).expect("it is there")
    };
    let root = state.root();
    let z1 = child(&state, root, "z1");
    let r1 = child(&state, z1, "r1");
    assert_eq!(
        names(&state, state.domain(root).nodes()),
        ["n5", "n2", "n3", "n1", "n4"],
        "by path, then name"
    );
    assert_eq!(names(&state, state.domain(z1).nodes()), ["n2", "n3", "n1"]);
    let counts = |state: &ClusterState, domain| {
        let free = |class| state.class(class).free().gpus;
        state.classes_in(domain).into_iter().map(|(class, nodes)| (free(class), nodes)).collect::<Vec<_>>()
    };
    assert_eq!(counts(&state, root), [(2, 1), (8, 4)]);
    assert_eq!(counts(&state, z1), [(2, 1), (8, 2)]);
    assert_eq!(counts(&state, r1), [(2, 1), (8, 1)]);
    assert_eq!((state.domain(root).gpus_free(), state.domain(r1).gpus_free()), (34, 10));
    let (empty, _) = state.classes().find(|(_, class)| class.free().gpus == 8).expect("there");
    assert_eq!(names(&state, state.nodes_in(z1, empty)), ["n2", "n1"]);
    assert_eq!(names(&state, state.nodes_in(root, empty)), ["n5", "n2", "n1", "n4"]);

    let node = |name: &str| state.node_id(&name.into()).expect("there");
    assert_eq!(state.domain_of(node("n3"), Level(1)), Some(r1));
    assert_eq!((state.domain_of(node("n3"), Level(2)), state.domain_of(node("n5"), Level(0))), (None, None));
    assert_eq!(
        state.domains_at(Level(1)).len(),
        3,
        "a rack of the same name in another zone is another rack"
    );

    state.apply(NodeGone("n4".into()));
    assert_eq!(state.domain(root).children().count(), 1, "a domain without nodes is none");
}

#[test]
fn gangs_that_differ_in_name_and_age_only_wait_in_one_class() {
    let second = |seconds| jiff::Timestamp::from_second(seconds).expect("in range");
    let of_two = |gang: &str, index: u32, created: i64, gpus: i64| Pod {
        gang: GangKey::new("team", gang),
        gang_size: Some(2),
        member_index: Some(index),
        created: second(created),
        key: PodKey::new("team", format!("{gang}-{index}"), "uid"),
        ..pod("p", gpus)
    };
    let mut state = state([N(node("a", "H100", 8)), Q(queue("nlp", None, 48))]);
    for (gang, created, gpus) in [("young", 9, 1), ("old", 1, 1), ("large", 5, 2)] {
        (0..2).for_each(|index| state.apply(P(of_two(gang, index, created, gpus))));
    }
    let in_classes = |state: &ClusterState| {
        let names = |class: &cluster_model::WaitingClass| {
            class.gangs().map(|gang| gang.name.to_string()).collect::<Vec<_>>()
        };
        let classes = state.waiting_classes();
        assert_eq!(state.waiting_class_count(), classes.len());
        classes.into_iter().map(names).collect::<Vec<_>>()
    };
    assert_eq!(in_classes(&state), [vec!["old", "young"], vec!["large"]]);
    let pod = state.pod_id(&PodKey::new("team", "old-0", "uid")).expect("there");
    let node = state.node_id(&"a".into()).expect("there");
    {
        let mut fork = state.fork();
        fork.assume(pod, node, &[]);
        assert_eq!(in_classes(&fork), [vec!["old"], vec!["large"], vec!["young"]], "it is like no other now");
    }
    assert_eq!(in_classes(&state), [vec!["old", "young"], vec!["large"]]);
    state.apply(P(of_two("old", 2, 1, 1)));
    assert_eq!(in_classes(&state), [vec!["old"], vec!["large"], vec!["young"]], "one more member");
}

#[test]
fn capacity_is_what_nodes_that_are_there_have_whether_they_take_pods_or_not() {
    let mut state = state([
        N(node("a", "H100", 8)),
        N(Node { schedulable: false, ..node("b", "H100", 4) }),
        N(node("c", "L4", 2)),
        P(on(pod("p", 1), "ghost")),
    ]);
    assert_eq!(state.capacity_of(&ResourceName::Gpu("H100".into())), 12);
    assert_eq!(state.capacity_of(&ResourceName::Cpu), 3 * 64_000);
    state.apply(NodeGone("c".into()));
    assert_eq!(state.capacity().keys().map(ToString::to_string).collect::<Vec<_>>(), ["H100"]);
}
