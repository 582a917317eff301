//! What must be posted.

use costing::{Fold, Line, Posting, post};
use proptest::prelude::*;

use crate::build::{at, fold_today, gpu_shape, node, plain_prices, pod};

/// Lines of one pod that differ in their GPUs.
fn lines(gpus: &[i64]) -> Vec<Line> {
    let Fold { open, .. } = fold_today(&[node(gpu_shape(8))], &[pod("a", 1, at(0))], &plain_prices(), at(9));
    gpus.iter().map(|gpus| Line { gpus: *gpus, ..open[0].line.clone() }).collect()
}

fn told(postings: &[Posting]) -> Vec<i64> {
    let number = |posting: &Posting| match posting {
        Posting::Charge(line) => line.gpus,
        Posting::Reverse(line) => -line.gpus,
    };
    postings.iter().map(number).collect()
}

#[test]
fn what_is_missing_is_charged_and_what_is_too_much_reversed_reversals_first() {
    let cases: [(&[i64], &[i64], &[i64]); 8] = [
        (&[], &[], &[]),
        (&[], &[2, 1], &[1, 2]),
        (&[1, 2], &[2, 1], &[]),
        (&[1, 2, 3], &[2], &[-1, -3]),
        (&[5, 1], &[3, 1], &[-5, 3]),
        (&[1, 1, 1], &[1], &[-1, -1]),
        (&[1], &[1, 1], &[1]),
        (&[4, 4, 6], &[4, 6, 6, 2], &[-4, 2, 6]),
    ];
    for (net, closed, expected) in cases {
        assert_eq!(told(&post(&lines(net), &lines(closed))), expected, "{net:?} to {closed:?}");
    }
}

proptest! {
    #[test]
    fn the_net_becomes_what_is_closed_and_then_nothing_is_missing(
        net in prop::collection::vec(1_i64..5, 0..8),
        closed in prop::collection::vec(1_i64..5, 0..8),
    ) {
        let mut after = lines(&net);
        for posting in post(&lines(&net), &lines(&closed)) {
            match posting {
                Posting::Charge(line) => after.push(line),
                Posting::Reverse(line) => {
                    let charged = after.iter().position(|charged| *charged == line);
                    prop_assert!(charged.is_some(), "only what was charged is reversed");
                    after.remove(charged.unwrap());
                }
            }
        }
        prop_assert!(post(&after, &lines(&closed)).is_empty());
        prop_assert_eq!(after.len(), closed.len());
    }
}
