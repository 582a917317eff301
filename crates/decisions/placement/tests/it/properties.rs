//! Any cluster: the judge finds nothing wrong, and the plan depends only on the cluster.

use cluster_model::{Amounts, ClusterChange, ClusterState, Node, Pod, Queue};
use jiff::Timestamp;
use placement::{Plan, Policy, plan};
use proptest::prelude::*;

use crate::build::{carry_out, cpu_node, gang, node, planned, queue, taint, toleration};

fn a_cluster() -> impl Strategy<Value = Vec<ClusterChange>> {
    let nodes = prop::collection::vec(a_node(), 1..9);
    let gangs = prop::collection::vec(a_gang(), 1..12);
    let queues = (a_queue("org", None), a_queue("nlp", Some("org")), a_queue("vision", Some("org")));
    (nodes, gangs, queues).prop_map(|(nodes, gangs, (org, nlp, vision))| {
        let nodes = nodes
            .into_iter()
            .enumerate()
            .map(|(number, node)| ClusterChange::Node(Node { name: format!("n{number}").into(), ..node }));
        let pods = gangs.into_iter().enumerate().flat_map(|(number, members)| {
            let name = format!("g{number}");
            members.into_iter().map(move |mut pod| {
                pod.gang.name = name.as_str().into();
                pod.key.name = format!("{name}-{}", pod.member_index.unwrap_or(0)).into();
                pod.key.uid = pod.key.name.clone();
                ClusterChange::Pod(pod)
            })
        });
        nodes.chain(pods).chain([org, nlp, vision].map(ClusterChange::Queue)).collect()
    })
}

fn a_node() -> impl Strategy<Value = Node> {
    (
        0..3usize,
        prop::sample::select(vec![1, 2, 4, 8]),
        0..6i64,
        prop::bool::weighted(0.9),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(kind, gpus, cpu, schedulable, tainted, labelled)| {
            let plain = match kind {
                0 => cpu_node("n", 4000),
                1 => node("n", "H100", gpus),
                _ => node("n", "L4", gpus),
            };
            let allocatable = cluster_model::Resources { cpu_millis: cpu * 1000, ..plain.allocatable };
            Node {
                allocatable,
                schedulable,
                taints: if tainted { vec![taint("warpyard.dev/gpu")] } else { vec![] },
                labels: if labelled { [("zone".into(), "a".into())].into() } else { [].into() },
                ..plain
            }
        })
}

fn a_gang() -> impl Strategy<Value = Vec<Pod>> {
    let odd = (
        prop::option::weighted(0.2, 0..9usize),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.05),
        prop::bool::weighted(0.1),
    );
    let wishes = (
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::option::weighted(0.5, prop::sample::select(vec!["H100", "L4"])),
    );
    (1..5u32, 0..5i64, 0..3i32, 0..4i64, any::<bool>(), odd, wishes).prop_map(
        |(
            size,
            gpus,
            priority,
            created,
            vision,
            (bound, lost_member, gated, uneven),
            (tolerant, in_zone, gpu_type),
        )| {
            let mut members = gang("g", size, gpus);
            for pod in &mut members {
                pod.priority = priority;
                pod.created = Timestamp::from_second(created).expect("in range");
                pod.queue = Some(if vision { "vision" } else { "nlp" }.into());
                pod.gpu_types = gpu_type.map(Into::into).into_iter().collect();
                pod.gated = gated;
                if tolerant {
                    pod.tolerations = vec![toleration("warpyard.dev/gpu")];
                }
                if in_zone {
                    pod.node_selector = [("zone".into(), "a".into())].into();
                }
            }
            if uneven {
                members[0].requests.gpus += 1;
                members[0].requests.cpu_millis = 0;
            }
            // Bound before we came, perhaps to more than the node has.
            if let Some(node) = bound {
                members[0].node = Some(format!("n{node}").into());
            }
            if lost_member && size > 1 {
                members.pop();
            }
            members
        },
    )
}

fn a_queue(name: &'static str, parent: Option<&'static str>) -> impl Strategy<Value = Queue> {
    (prop::option::weighted(0.7, 0..12i64), prop::option::weighted(0.3, 0..10i64)).prop_map(
        move |(gpus, cpu)| Queue {
            quota: Some(Amounts {
                gpus: gpus
                    .map(|gpus| [("H100".into(), gpus), ("L4".into(), gpus / 2)].into())
                    .unwrap_or_default(),
                cpu_millis: cpu.map(|cpu| cpu * 1000),
                memory_bytes: None,
            }),
            ..queue(name, parent, &[])
        },
    )
}

fn state(changes: impl IntoIterator<Item = ClusterChange>) -> ClusterState {
    let mut state = ClusterState::default();
    changes.into_iter().for_each(|change| state.apply(change));
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_judge_finds_nothing_wrong_and_the_state_is_left_alone(changes in a_cluster()) {
        planned(&mut state(changes));
    }

    #[test]
    fn the_plan_does_not_depend_on_the_order_of_events((changes, shuffled) in a_cluster().prop_flat_map(|changes| {
        (Just(changes.clone()), Just(changes).prop_shuffle())
    })) {
        let one: Plan = plan(&mut state(changes), &Policy::default(), Timestamp::UNIX_EPOCH);
        let other: Plan = plan(&mut state(shuffled), &Policy::default(), Timestamp::UNIX_EPOCH);
        prop_assert_eq!(one, other);
    }

    #[test]
    fn once_carried_out_nothing_more_is_placed(changes in a_cluster()) {
        let mut state = state(changes);
        let first = planned(&mut state);
        carry_out(&mut state, &first);
        let second = planned(&mut state);
        prop_assert_eq!(&second.placements, &vec![]);
        // Perhaps in another order: a queue steps back with what started.
        let waiting = |plan: &Plan| plan.waiting.iter().map(|gang| gang.gang.clone()).collect::<std::collections::BTreeSet<_>>();
        prop_assert_eq!(waiting(&second), waiting(&first));
    }
}
