//! Joins have the laws that make order and repetition not matter.

use costing::{
    Attribution, End, HourlyPrice, MachineStart, Moment, NodeRecord, NodeShape, PodRecord, Purchase,
};
use proptest::prelude::*;

fn moment() -> impl Strategy<Value = Moment> {
    (0_i64..12).prop_map(Moment)
}

fn end() -> impl Strategy<Value = Option<End>> {
    let end = prop_oneof![moment().prop_map(End::Provisional), moment().prop_map(End::Certain)];
    prop::option::of(end)
}

fn word() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[ab]")
}

/// Records of one pod that contradict each other in everything.
fn pod() -> impl Strategy<Value = PodRecord> {
    let names = ("[ab]", "[ab]", "[ab]", word(), word(), word());
    let counts = (prop::option::of(1_u32..3), 0_u32..3, 0_i64..3);
    let times = (moment(), prop::option::of(moment()), end(), prop::option::of(moment()));
    (names, counts, times).prop_map(|(names, counts, times)| PodRecord {
        uid: "pod".to_owned(),
        namespace: names.0,
        name: names.1,
        node: names.2,
        run: names.3,
        attempt: counts.0,
        queue: names.4,
        user: names.5,
        gpus: counts.1,
        cpu_millis: counts.2,
        scheduled_at: times.0,
        started_at: times.1,
        ended: times.2,
        lost_from: times.3,
    })
}

fn shape() -> impl Strategy<Value = NodeShape> {
    (word(), "[ab]", word(), 0_u32..3, 0_i64..3).prop_map(
        |(instance_type, capacity_type, gpu_type, gpus, cpu_millis)| NodeShape {
            instance_type,
            capacity_type,
            gpu_type,
            gpus,
            cpu_millis,
        },
    )
}

fn purchase() -> impl Strategy<Value = Option<Purchase>> {
    let price = || (0_i64..3).prop_map(HourlyPrice);
    let buyer = (word(), word(), prop::option::of(1_u32..3), word(), word()).prop_map(
        |(namespace, run, attempt, queue, user)| Attribution {
            namespace,
            pod: None,
            run,
            attempt,
            queue,
            user,
        },
    );
    let start =
        (buyer, prop::option::of(moment())).prop_map(|(buyer, opened_at)| MachineStart { buyer, opened_at });
    let purchase = (price(), prop::option::of(price()), prop::option::of(start))
        .prop_map(|(paid, on_demand, start)| Purchase { paid, on_demand, start });
    prop::option::of(purchase)
}

fn node() -> impl Strategy<Value = NodeRecord> {
    (moment(), prop::collection::btree_set((moment(), shape()), 1..4), end(), purchase()).prop_map(
        |(created_at, shapes, ended, bought)| NodeRecord {
            uid: "node".to_owned(),
            name: "n".to_owned(),
            created_at,
            shapes: shapes.into_iter().collect(),
            ended,
            bought,
        },
    )
}

proptest! {
    #[test]
    fn records_of_pods_join_in_any_order_and_number(a in pod(), b in pod(), c in pod()) {
        prop_assert_eq!(a.clone().join(b.clone()), b.clone().join(a.clone()));
        let left = a.clone().join(b.clone()).join(c.clone());
        prop_assert_eq!(left.clone(), a.clone().join(b.clone().join(c)));
        prop_assert_eq!(a.clone().join(a.clone()), a.clone());
        prop_assert_eq!(left.clone().join(a), left);
    }

    #[test]
    fn records_of_nodes_join_in_any_order_and_number(a in node(), b in node(), c in node()) {
        prop_assert_eq!(a.clone().join(b.clone()), b.clone().join(a.clone()));
        let left = a.clone().join(b.clone()).join(c.clone());
        prop_assert_eq!(left.clone(), a.clone().join(b.clone().join(c)));
        prop_assert_eq!(a.clone().join(a.clone()), a.clone());
        prop_assert_eq!(left.clone().join(a), left);
    }

    #[test]
    fn shape_changes_begin_at_creation_go_on_differ_and_never_shrink(node in node()) {
        let changes = node.shape_changes();
        prop_assert_eq!(changes[0].0, node.created_at);
        for pair in changes.windows(2) {
            let ((at, shape), (next_at, next)) = (&pair[0], &pair[1]);
            prop_assert!(at < next_at && shape != next);
            prop_assert!(shape.gpus <= next.gpus && shape.cpu_millis <= next.cpu_millis);
        }
    }

    #[test]
    fn what_is_no_news_last_changes_nothing(node in node(), shape in shape()) {
        // A meter looks when everything it knows is past.
        let now = Moment(100);
        let seen = NodeRecord { shapes: vec![(now, shape.clone())], ..node.clone() };
        let is_news = node.is_news(now, &shape);
        prop_assert_eq!(is_news, node.clone().join(seen).shape_changes() != node.shape_changes());
    }
}
