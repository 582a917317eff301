//! The rules of the fold, one table or case for each. The node costs 1000 millionths a second.

use costing::{End, Line, NodeRecord, PodRecord, Price, PriceBook, PriceUnit, Problem};

use crate::build::{
    TODAY, at, cpu_shape, fold_today, gpu_shape, midnight, node, plain_prices, pod, price, told,
};

fn ended(pod: PodRecord, second: i64) -> PodRecord {
    PodRecord { ended: Some(End::Certain(at(second))), ..pod }
}

fn started(pod: PodRecord, second: i64) -> PodRecord {
    PodRecord { started_at: Some(at(second)), ..pod }
}

#[test]
fn a_node_without_pods_is_one_open_idle_line() {
    let fold = fold_today(&[node(gpu_shape(8))], &[], &plain_prices(), at(30));
    assert_eq!(told(&fold), ["open rest idle 0..30 gpus 8 rate 1000"]);
    assert_eq!(fold.open[0].line.attribution, costing::Attribution::default());
}

#[test]
fn a_pod_is_starting_then_productive_and_the_rest_is_idle() {
    let pod = ended(started(pod("a", 2, at(10)), 15), 20);
    let fold = fold_today(&[node(gpu_shape(8))], &[pod], &plain_prices(), at(30));
    let expected = [
        "closed rest idle 0..10 gpus 8 rate 1000",
        "closed a starting 10..15 gpus 2 rate 250",
        "closed rest idle 10..20 gpus 6 rate 750",
        "closed a productive 15..20 gpus 2 rate 250",
        "open rest idle 20..30 gpus 8 rate 1000",
    ];
    assert_eq!(told(&fold), expected);
    let line = fold.closed.iter().find(|line| line.gpus == 2).unwrap();
    assert_eq!(line.attribution.namespace.as_deref(), Some("team"));
    assert_eq!(line.attribution.pod.as_deref(), Some("a-name"));
    assert_eq!(line.attribution.run.as_deref(), Some("run"));
    assert_eq!((line.seconds(), line.gpu_seconds()), (5, 10));
    assert_eq!(line.amount().unwrap().to_string(), "0.001250");
}

#[test]
fn a_start_outside_of_the_pods_time_is_clamped_into_it() {
    let cases: [(Option<i64>, &[&str]); 6] = [
        (None, &["closed a starting 10..20 gpus 8 rate 1000"]),
        (Some(5), &["closed a productive 10..20 gpus 8 rate 1000"]),
        (Some(10), &["closed a productive 10..20 gpus 8 rate 1000"]),
        (
            Some(19),
            &["closed a starting 10..19 gpus 8 rate 1000", "closed a productive 19..20 gpus 8 rate 1000"],
        ),
        (Some(20), &["closed a starting 10..20 gpus 8 rate 1000"]),
        (Some(25), &["closed a starting 10..20 gpus 8 rate 1000"]),
    ];
    for (started, expected) in cases {
        let pod = PodRecord { started_at: started.map(at), ..ended(pod("a", 8, at(10)), 20) };
        let fold = fold_today(&[node(gpu_shape(8))], &[pod], &plain_prices(), at(30));
        let lines: Vec<_> = told(&fold).into_iter().filter(|line| !line.contains("rest")).collect();
        assert_eq!(lines, expected, "{started:?}");
    }
}

#[test]
fn what_ran_after_the_loaded_checkpoint_is_lost_and_costs_the_same() {
    let cases: [(i64, &[&str]); 5] = [
        (16, &["starting 10..12", "productive 12..16", "lost 16..20"]),
        (5, &["starting 10..12", "lost 12..20"]),
        (12, &["starting 10..12", "lost 12..20"]),
        (19, &["starting 10..12", "productive 12..19", "lost 19..20"]),
        (20, &["starting 10..12", "productive 12..20"]),
    ];
    for (lost, expected) in cases {
        let pod = PodRecord { lost_from: Some(at(lost)), ..ended(started(pod("a", 8, at(10)), 12), 20) };
        let fold = fold_today(&[node(gpu_shape(8))], &[pod], &plain_prices(), at(30));
        let lines: Vec<_> = told(&fold).into_iter().filter(|line| !line.contains("rest")).collect();
        let expected: Vec<_> =
            expected.iter().map(|part| format!("closed a {part} gpus 8 rate 1000")).collect();
        assert_eq!(lines, expected, "{lost}");
    }
}

#[test]
fn what_goes_on_at_now_is_open_and_what_ended_is_closed() {
    let cases = [
        (None, "open a productive 10..30 gpus 8 rate 1000"),
        (Some(29), "closed a productive 10..29 gpus 8 rate 1000"),
        (Some(30), "closed a productive 10..30 gpus 8 rate 1000"),
        (Some(31), "open a productive 10..30 gpus 8 rate 1000"),
    ];
    for (end, expected) in cases {
        let pod = PodRecord {
            ended: end.map(|second| End::Provisional(at(second))),
            ..started(pod("a", 8, at(10)), 10)
        };
        let fold = fold_today(&[node(gpu_shape(8))], &[pod], &plain_prices(), at(30));
        assert_eq!(told(&fold)[1], expected, "{end:?}");
    }
}

#[test]
fn what_lies_after_now_is_on_no_line_yet() {
    let pods = [pod("a", 8, at(40)), started(pod("b", 4, at(10)), 35)];
    let fold = fold_today(&[node(gpu_shape(8))], &pods, &plain_prices(), at(30));
    let expected = [
        "closed rest idle 0..10 gpus 8 rate 1000",
        "open b starting 10..30 gpus 4 rate 500",
        "open rest idle 10..30 gpus 4 rate 500",
    ];
    assert_eq!(told(&fold), expected);
    assert_eq!(fold_today(&[node(gpu_shape(8))], &pods, &plain_prices(), at(0)), costing::Fold::default());
    assert_eq!(fold_today(&[node(gpu_shape(8))], &pods, &plain_prices(), at(-5)), costing::Fold::default());
}

#[test]
fn midnight_closes_what_goes_on() {
    let pods = [started(pod("a", 8, midnight(-10)), 0)];
    let nodes = [NodeRecord { created_at: midnight(-10), ..node(gpu_shape(8)) }];
    let open = fold_today(&nodes, &pods, &plain_prices(), midnight(-1));
    assert_eq!(told(&open), ["open a productive 86390..86399 gpus 8 rate 1000"]);
    for now in [midnight(0), midnight(1), midnight(100_000)] {
        let over = fold_today(&nodes, &pods, &plain_prices(), now);
        assert_eq!(told(&over), ["closed a productive 86390..86400 gpus 8 rate 1000"]);
    }
    let tomorrow = costing::Account { node: "n".to_owned(), day: TODAY.next() };
    let fold = costing::fold(&tomorrow, &nodes, &pods, &plain_prices(), midnight(1));
    assert_eq!(told(&fold), ["open a productive 86400..86401 gpus 8 rate 1000"]);
}

#[test]
fn a_pod_ends_with_its_node() {
    let nodes = [NodeRecord { ended: Some(End::Certain(at(20))), ..node(gpu_shape(8)) }];
    for end in [None, Some(25)] {
        let pod = PodRecord { ended: end.map(|second| End::Certain(at(second))), ..pod("a", 8, at(10)) };
        let fold = fold_today(&nodes, &[pod], &plain_prices(), at(30));
        let expected =
            ["closed rest idle 0..10 gpus 8 rate 1000", "closed a starting 10..20 gpus 8 rate 1000"];
        assert_eq!(told(&fold), expected);
        assert_eq!(fold.problems, []);
    }
}

#[test]
fn a_node_that_ends_now_leaves_nothing_open() {
    let nodes = [NodeRecord { ended: Some(End::Certain(at(30))), ..node(gpu_shape(8)) }];
    let fold = fold_today(&nodes, &[pod("a", 4, at(0))], &plain_prices(), at(30));
    let expected = ["closed a starting 0..30 gpus 4 rate 500", "closed rest idle 0..30 gpus 4 rate 500"];
    assert_eq!(told(&fold), expected);
}

#[test]
fn a_pod_belongs_to_the_lives_in_which_it_was_there() {
    let first = NodeRecord { ended: Some(End::Certain(at(20))), ..node(gpu_shape(8)) };
    let second = NodeRecord {
        uid: "n-2".to_owned(),
        created_at: at(20),
        shapes: vec![(at(20), gpu_shape(4))],
        ..node(gpu_shape(4))
    };
    let pods = [ended(pod("a", 4, at(19)), 20), pod("b", 4, at(20))];
    let fold = fold_today(&[second, first], &pods, &plain_prices(), at(30));
    let expected = [
        "closed rest idle 0..19 gpus 8 rate 1000",
        "closed a starting 19..20 gpus 4 rate 500",
        "closed rest idle 19..20 gpus 4 rate 500",
        "open b starting 20..30 gpus 4 rate 1000",
    ];
    assert_eq!(told(&fold), expected);
    assert_eq!(fold.open[0].line.node_uid, "n-2");
}

#[test]
fn a_life_whose_end_nobody_saw_ends_when_the_next_one_begins() {
    for end in [None, Some(End::Certain(at(24)))] {
        let first = NodeRecord { ended: end, ..node(gpu_shape(8)) };
        let second = NodeRecord {
            uid: "n-0".to_owned(),
            created_at: at(20),
            shapes: vec![(at(20), gpu_shape(8))],
            ..node(gpu_shape(8))
        };
        let fold = fold_today(&[first, second], &[pod("a", 8, at(10))], &plain_prices(), at(30));
        let expected = [
            "closed rest idle 0..10 gpus 8 rate 1000",
            "closed a starting 10..20 gpus 8 rate 1000",
            "open a starting 20..30 gpus 8 rate 1000",
        ];
        assert_eq!(told(&fold), expected, "{end:?}");
        assert_eq!(fold.open[0].line.node_uid, "n-0");
    }
}

#[test]
fn a_provisional_end_of_a_node_gives_way_to_the_certain_end_of_a_pod() {
    let certain = |second| Some(End::Certain(at(second)));
    let provisional = |second| Some(End::Provisional(at(second)));
    // The node's end, the pod's times, until when the pod is charged, until when the node is.
    let cases = [
        (provisional(20), 10, certain(25), Some(25), 25),
        (provisional(20), 22, certain(25), Some(25), 25),
        (provisional(20), 10, certain(15), Some(15), 20),
        (provisional(20), 10, provisional(25), Some(20), 20),
        (provisional(20), 10, None, Some(20), 20),
        (provisional(20), 25, certain(25), None, 20),
        (provisional(20), 10, certain(40), Some(30), 30),
        (certain(20), 10, certain(25), Some(20), 20),
        (certain(20), 22, certain(25), None, 20),
    ];
    for case in cases {
        let (node_end, scheduled, pod_end, charged_until, life_until) = case;
        let nodes = [NodeRecord { ended: node_end, ..node(gpu_shape(8)) }];
        let pods = [PodRecord { ended: pod_end, ..pod("a", 2, at(scheduled)) }];
        let fold = fold_today(&nodes, &pods, &plain_prices(), at(30));
        let lines = || fold.closed.iter().chain(fold.open.iter().map(|open| &open.line));
        let of_pod = lines().filter(|line| line.gpus == 2).map(|line| line.to).max();
        assert_eq!(of_pod, charged_until.map(at), "{case:?}");
        assert_eq!(
            lines().map(cost).sum::<i128>(),
            i128::from(life_until) * 3_600_000 * 2_882_880,
            "{case:?}"
        );
    }
}

#[test]
fn a_provisional_end_never_reaches_into_the_next_life() {
    let first = NodeRecord { ended: Some(End::Provisional(at(15))), ..node(gpu_shape(8)) };
    let next = NodeRecord { uid: "n-2".to_owned(), created_at: at(20), ..node(gpu_shape(8)) };
    // A pod of the next life says nothing about the first one.
    let pods = [ended(pod("b", 8, at(20)), 25)];
    let fold = fold_today(&[first.clone(), next.clone()], &pods, &plain_prices(), at(30));
    let expected = [
        "closed rest idle 0..15 gpus 8 rate 1000",
        "closed b starting 20..25 gpus 8 rate 1000",
        "open rest idle 25..30 gpus 8 rate 1000",
    ];
    assert_eq!(told(&fold), expected);
    // A pod that ran through the change of lives was on the first one until then, and on the next one to its end.
    let next = NodeRecord { ended: Some(End::Provisional(at(21))), ..next };
    let fold = fold_today(&[first, next], &[ended(pod("a", 8, at(0)), 25)], &plain_prices(), at(30));
    let expected = ["closed a starting 0..20 gpus 8 rate 1000", "closed a starting 20..25 gpus 8 rate 1000"];
    assert_eq!(told(&fold), expected);
    assert_eq!(fold.problems, []);
}

#[test]
fn a_pod_goes_on_when_its_node_registers_again() {
    let first = NodeRecord { ended: Some(End::Certain(at(15))), ..node(gpu_shape(8)) };
    let next = |begins| NodeRecord { uid: "n-2".to_owned(), created_at: at(begins), ..node(gpu_shape(8)) };
    // When the node is back, the pod's end, and whether a part of it was on no node.
    let cases: [(i64, Option<i64>, &[&str], bool); 4] = [
        (15, None, &["closed a productive 10..15", "open a productive 15..30"], false),
        (17, None, &["closed a productive 10..15", "open a productive 17..30"], true),
        (17, Some(20), &["closed a productive 10..15", "closed a productive 17..20"], true),
        (17, Some(17), &["closed a productive 10..15"], false),
    ];
    for (begins, end, expected, is_outside) in cases {
        let pod = PodRecord {
            ended: end.map(|second| End::Certain(at(second))),
            ..started(pod("a", 2, at(10)), 10)
        };
        let fold = fold_today(&[first.clone(), next(begins)], &[pod], &plain_prices(), at(30));
        let of_pod = told(&fold).into_iter().filter(|line| line.contains(" a "));
        let expected: Vec<_> = expected.iter().map(|line| format!("{line} gpus 2 rate 250")).collect();
        assert_eq!(of_pod.collect::<Vec<_>>(), expected, "{begins} {end:?}");
        let problems: &[Problem] =
            if is_outside { &[Problem::OutsideNode { pod_uid: "a".to_owned() }] } else { &[] };
        assert_eq!(fold.problems, problems, "{begins} {end:?}");
        let sum: i128 = fold.closed.iter().chain(fold.open.iter().map(|open| &open.line)).map(cost).sum();
        assert_eq!(sum, i128::from(15 + 30 - begins) * 3_600_000 * 2_882_880, "{begins} {end:?}");
    }
}

#[test]
fn of_two_lives_that_began_in_the_same_second_the_one_that_ended_was_first() {
    for (gone, stays) in [("n-1", "n-2"), ("n-2", "n-1")] {
        let life = |uid: &str| NodeRecord { uid: uid.to_owned(), ..node(gpu_shape(8)) };
        let nodes = [NodeRecord { ended: Some(End::Certain(at(0))), ..life(gone) }, life(stays)];
        let fold = fold_today(&nodes, &[pod("a", 8, at(0))], &plain_prices(), at(30));
        assert_eq!(told(&fold), ["open a starting 0..30 gpus 8 rate 1000"]);
        assert_eq!(fold.open[0].line.node_uid, stays);
    }
}

#[test]
fn what_of_a_pod_lies_in_no_life_is_told_and_charged_to_nobody() {
    let nodes = [NodeRecord { created_at: at(5), ended: Some(End::Certain(at(20))), ..node(gpu_shape(8)) }];
    let cases =
        [(4, None, true), (5, None, false), (19, None, false), (20, None, true), (20, Some(20), false)];
    for (scheduled, end, is_outside) in cases {
        let pod =
            PodRecord { ended: end.map(|second| End::Certain(at(second))), ..pod("a", 8, at(scheduled)) };
        let fold = fold_today(&nodes, &[pod], &plain_prices(), at(30));
        let problems: &[Problem] =
            if is_outside { &[Problem::OutsideNode { pod_uid: "a".to_owned() }] } else { &[] };
        assert_eq!(fold.problems, problems, "{scheduled} {end:?}");
        let charged = fold.closed.iter().find(|line| line.attribution.pod.is_some());
        let expected = (scheduled < 20).then(|| (at(scheduled.max(5)), at(20)));
        assert_eq!(charged.map(|line| (line.from, line.to)), expected, "{scheduled} {end:?}");
    }
}

#[test]
fn more_than_there_is_makes_a_negative_rest_and_is_told() {
    let pods = [ended(pod("a", 6, at(10)), 20), ended(pod("b", 6, at(15)), 25)];
    let fold = fold_today(&[node(gpu_shape(8))], &pods, &plain_prices(), at(30));
    assert!(
        told(&fold).contains(&"closed rest idle 15..20 gpus -4 rate -500".to_owned()),
        "{:?}",
        told(&fold)
    );
    assert_eq!(fold.problems, [Problem::Overcommitted { from: at(15), to: at(20) }]);
}

#[test]
fn a_node_that_is_held_whole_has_no_idle_line() {
    let pods = [pod("a", 3, at(0)), pod("b", 5, at(0))];
    let fold = fold_today(&[node(gpu_shape(8))], &pods, &plain_prices(), at(30));
    assert_eq!(
        told(&fold),
        ["open a starting 0..30 gpus 3 rate 375", "open b starting 0..30 gpus 5 rate 625"]
    );
}

#[test]
fn without_a_price_lines_say_gpus_and_no_amount() {
    let prices = PriceBook::new(vec![Price { from: at(20), ..price(PriceUnit::Node, "3.6") }]);
    let fold = fold_today(&[node(gpu_shape(8))], &[pod("a", 2, at(0))], &prices, at(30));
    let expected = [
        "closed a starting 0..20 gpus 2 rate unknown",
        "closed rest idle 0..20 gpus 6 rate unknown",
        "open a starting 20..30 gpus 2 rate 250",
        "open rest idle 20..30 gpus 6 rate 750",
    ];
    assert_eq!(told(&fold), expected);
    assert_eq!(fold.closed[0].amount(), None);
}

#[test]
fn a_line_is_cut_where_the_price_changes_and_not_where_an_equal_one_begins() {
    let from = |second, text| Price { from: at(second), ..price(PriceUnit::Node, text) };
    let prices = PriceBook::new(vec![from(-9, "3.6"), from(5, "3.6"), from(10, "7.2"), from(20, "7.2")]);
    let fold = fold_today(&[node(gpu_shape(8))], &[], &prices, at(30));
    assert_eq!(
        told(&fold),
        ["closed rest idle 0..10 gpus 8 rate 1000", "open rest idle 10..30 gpus 8 rate 2000"]
    );
}

#[test]
fn a_line_is_cut_where_the_nodes_shape_changes_what_it_costs_and_nowhere_else() {
    let reserved = costing::NodeShape { capacity_type: "reserved".to_owned(), ..gpu_shape(4) };
    let shapes = vec![(at(0), gpu_shape(4)), (at(10), reserved), (at(20), gpu_shape(8))];
    let nodes = [NodeRecord { shapes, ..node(gpu_shape(4)) }];
    let fold = fold_today(&nodes, &[pod("a", 4, at(0))], &plain_prices(), at(30));
    let expected = [
        "closed a starting 0..20 gpus 4 rate 1000",
        "open a starting 20..30 gpus 4 rate 500",
        "open rest idle 20..30 gpus 4 rate 500",
    ];
    assert_eq!(told(&fold), expected);
    // A price for each GPU: the pod's rate stays, so its line goes on.
    let prices = PriceBook::new(vec![price(PriceUnit::Gpu, "3.6")]);
    let fold = fold_today(&nodes, &[pod("a", 4, at(0))], &prices, at(30));
    assert_eq!(
        told(&fold),
        ["open a starting 0..30 gpus 4 rate 4000", "open rest idle 20..30 gpus 4 rate 4000"]
    );
}

#[test]
fn one_pod_after_another_of_the_same_size_does_not_cut_the_idle_line() {
    let pods = [ended(pod("a", 2, at(0)), 10), pod("b", 2, at(10))];
    let fold = fold_today(&[node(gpu_shape(8))], &pods, &plain_prices(), at(30));
    let idle: Vec<_> = told(&fold).into_iter().filter(|line| line.contains("rest")).collect();
    assert_eq!(idle, ["open rest idle 0..30 gpus 6 rate 750"]);
}

#[test]
fn a_node_without_gpus_is_shared_by_cpu_and_the_remainder_stays_idle() {
    let fold = fold_today(&[node(cpu_shape(4_000))], &[pod("a", 0, at(0))], &plain_prices(), at(30));
    assert_eq!(
        told(&fold),
        ["open a starting 0..30 gpus 0 rate 250", "open rest idle 0..30 gpus 0 rate 750"]
    );
    // 17 does not divide it: the pod pays whole units for each GPU, and the few that are left stay with the node.
    let fold = fold_today(&[node(gpu_shape(17))], &[pod("a", 17, at(0))], &plain_prices(), at(30));
    let rates: Vec<_> = fold.open.iter().map(|open| open.line.rate.unwrap().0).collect();
    let whole: i128 = 3_600_000 * 2_882_880;
    assert_eq!(rates, [whole / 17 * 17, whole % 17]);
    assert!(whole % 17 > 0, "or this shows nothing");
}

#[test]
fn a_node_of_which_nothing_was_seen_has_lines_without_an_amount() {
    let nodes = [NodeRecord { shapes: Vec::new(), ..node(gpu_shape(8)) }];
    let fold = fold_today(&nodes, &[pod("a", 1, at(0))], &PriceBook::default(), at(30));
    assert_eq!(
        told(&fold),
        ["open a starting 0..30 gpus 1 rate unknown", "open rest idle 0..30 gpus -1 rate unknown"]
    );
    assert_eq!(fold.problems, [Problem::Overcommitted { from: at(0), to: at(30) }]);
}

#[test]
fn a_pod_without_gpus_on_a_node_with_gpus_costs_nothing() {
    let fold = fold_today(&[node(gpu_shape(8))], &[pod("a", 0, at(0))], &plain_prices(), at(30));
    assert_eq!(told(&fold), ["open a starting 0..30 gpus 0 rate 0", "open rest idle 0..30 gpus 8 rate 1000"]);
}

#[test]
fn nodes_and_pods_of_other_names_are_ignored() {
    let other = NodeRecord { name: "m".to_owned(), ..node(gpu_shape(8)) };
    let elsewhere = PodRecord { node: "m".to_owned(), ..pod("a", 1, at(0)) };
    assert_eq!(fold_today(&[other], &[elsewhere], &plain_prices(), at(30)), costing::Fold::default());
}

#[test]
fn the_order_of_records_does_not_matter() {
    let pods = [pod("a", 1, at(3)), ended(pod("b", 2, at(1)), 9), pod("c", 3, at(2))];
    let reversed: Vec<_> = pods.iter().rev().cloned().collect();
    let nodes = [node(gpu_shape(8))];
    let fold = fold_today(&nodes, &pods, &plain_prices(), at(30));
    assert_eq!(fold, fold_today(&nodes, &reversed, &plain_prices(), at(30)));
    let sum: i128 = fold.closed.iter().chain(fold.open.iter().map(|open| &open.line)).map(cost).sum();
    assert_eq!(sum, 30 * 3_600_000 * 2_882_880);
}

fn cost(line: &Line) -> i128 {
    line.amount().unwrap().0
}
