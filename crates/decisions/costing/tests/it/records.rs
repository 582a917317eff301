//! What joined records say.

use costing::{End, NodeRecord, NodeShape, PodRecord};

use crate::build::{at, gpu_shape, node, pod};

#[test]
fn a_certain_end_counts_before_a_provisional_one_the_last_certain_and_the_first_provisional() {
    let (certain, provisional) = (|second| End::Certain(at(second)), |second| End::Provisional(at(second)));
    let cases = [
        (certain(5), provisional(3), certain(5)),
        (certain(5), provisional(9), certain(5)),
        (certain(5), certain(7), certain(7)),
        (provisional(5), provisional(7), provisional(5)),
    ];
    for (one, other, expected) in cases {
        assert_eq!(one.join(other), expected);
        assert_eq!(other.join(one), expected);
    }
}

#[test]
fn a_pod_is_joined_from_what_a_watch_shows_of_it() {
    let scheduled = pod("a", 2, at(5));
    let started = PodRecord { started_at: Some(at(8)), ..pod("a", 2, at(6)) };
    let ended = PodRecord { started_at: Some(at(9)), ended: Some(End::Certain(at(20))), ..scheduled.clone() };
    let whole = PodRecord { started_at: Some(at(8)), ended: Some(End::Certain(at(20))), ..scheduled.clone() };
    assert_eq!(ended.join(started).join(scheduled), whole);
}

fn seen(shapes: &[(i64, &NodeShape)]) -> NodeRecord {
    let shapes = shapes.iter().map(|(second, shape)| (at(*second), (*shape).clone())).collect();
    NodeRecord { created_at: at(10), shapes, ..node(gpu_shape(8)) }
}

type Shapes<'a> = &'a [(i64, &'a NodeShape)];

#[test]
fn a_node_is_what_it_was_last_seen_to_be_and_its_counts_never_fall() {
    let (eight, four, none) = (&gpu_shape(8), &gpu_shape(4), &gpu_shape(0));
    let spot = &NodeShape { capacity_type: "spot".to_owned(), ..gpu_shape(4) };
    let spot_eight = &NodeShape { gpus: 8, ..spot.clone() };
    let cases: [(&str, Shapes<'_>, Shapes<'_>); 8] = [
        ("first seen late", &[(15, eight)], &[(10, eight)]),
        ("seen before it was there", &[(5, four), (8, eight)], &[(10, eight)]),
        ("GPUs come", &[(10, none), (12, eight)], &[(10, none), (12, eight)]),
        ("GPUs vanish for a while", &[(10, eight), (12, none), (14, eight)], &[(10, eight)]),
        ("fewer GPUs later", &[(10, eight), (12, four)], &[(10, eight)]),
        ("nothing new", &[(10, four), (12, four), (14, eight)], &[(10, four), (14, eight)]),
        ("bought otherwise", &[(10, eight), (12, spot)], &[(10, eight), (12, spot_eight)]),
        (
            "there and back",
            &[(10, eight), (12, spot), (14, eight)],
            &[(10, eight), (12, spot_eight), (14, eight)],
        ),
    ];
    for (case, given, expected) in cases {
        assert_eq!(seen(given).shape_changes(), seen(expected).shapes, "{case}");
    }
}

#[test]
fn an_observation_between_two_equal_ones_is_found_again_in_whatever_order_they_come() {
    let spot = NodeShape { capacity_type: "spot".to_owned(), ..gpu_shape(8) };
    let (first, between, last) =
        (seen(&[(10, &gpu_shape(8))]), seen(&[(12, &spot)]), seen(&[(14, &gpu_shape(8))]));
    let joined = first.join(last).join(between);
    assert_eq!(joined.shape_changes().len(), 3);
}

#[test]
fn only_what_changes_something_is_news() {
    let node = seen(&[(10, &gpu_shape(8))]);
    let spot = NodeShape { capacity_type: "spot".to_owned(), ..gpu_shape(8) };
    assert!(!node.is_news(at(20), &gpu_shape(8)), "the same");
    assert!(!node.is_news(at(20), &gpu_shape(0)), "its device plugin restarts");
    assert!(node.is_news(at(20), &gpu_shape(9)));
    assert!(node.is_news(at(20), &spot));
}
