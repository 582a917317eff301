use std::collections::BTreeSet;

use api_types::run::{Checkpoint, Load, Progress, StepRange};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::super::check::Told;
use super::{LOADS_MAX, RANGES_MAX, record};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn range(attempt: u32, from: u64, to: u64, world_size: u32) -> StepRange {
    StepRange { attempt, from, to, world_size, milliseconds: (to - from) * 10 }
}

fn told(attempt: u32, ranges: &[(u64, u64)]) -> Told {
    let ranges: Vec<StepRange> = ranges.iter().map(|(from, to)| range(attempt, *from, *to, 4)).collect();
    let step = ranges.iter().map(|range| range.to).max().unwrap_or(0);
    Told { attempt, step, ranges, checkpoint: None, load: None }
}

fn all(told: &[Told]) -> Progress {
    let record = |progress, told| Some(record(progress, told, at(1)));
    told.iter().fold(None, record).unwrap()
}

fn saved(attempt: u32, step: u64) -> Told {
    let checkpoint = Checkpoint {
        step,
        attempt,
        committed_at: Time(at(0)),
        bytes: 1,
        milliseconds: 1,
        stall_milliseconds: 1,
    };
    Told { checkpoint: Some(checkpoint), step, ..told(attempt, &[]) }
}

fn loaded(attempt: u32, step: u64, reached: u64) -> Told {
    let load = Load { attempt, step, committed_at: None, reached };
    Told { load: Some(load), step, ..told(attempt, &[]) }
}

#[test]
fn what_adjoins_is_one_range_and_what_came_twice_is_there_once() {
    let progress =
        all(&[told(1, &[(0, 10)]), told(1, &[(20, 30)]), told(1, &[(10, 20)]), told(1, &[(0, 10)])]);
    assert_eq!(progress.ranges, [range(1, 0, 30, 4)]);
    assert_eq!(progress.step, 30);
}

#[test]
fn another_number_of_processes_is_another_range() {
    let mut fewer = told(1, &[(10, 20)]);
    fewer.ranges[0].world_size = 2;
    let progress = all(&[told(1, &[(0, 10)]), fewer]);
    assert_eq!(progress.ranges, [range(1, 0, 10, 4), range(1, 10, 20, 2)]);
}

#[test]
fn an_attempt_that_goes_back_does_its_steps_again_in_ranges_of_its_own() {
    let late = told(1, &[(20, 25)]);
    let progress = all(&[told(1, &[(0, 20)]), loaded(2, 15, 25), told(2, &[(15, 18)]), late]);
    assert_eq!(progress.ranges, [range(1, 0, 25, 4), range(2, 15, 18, 4)]);
    assert_eq!(progress.step, 18, "the newest attempt's word counts");
}

#[test]
fn the_newest_checkpoint_is_that_of_the_newest_attempt() {
    let newest = |told: &[Told]| all(told).checkpoint.map(|it| (it.attempt, it.step)).unwrap();
    assert_eq!(newest(&[saved(1, 100), saved(1, 200), saved(1, 150)]), (1, 200));
    assert_eq!(newest(&[saved(2, 120), saved(1, 200)]), (2, 120), "the line of 200 was given up");
}

#[test]
fn an_attempt_begins_once() {
    let progress = all(&[loaded(2, 100, 140), loaded(1, 0, 0), loaded(2, 120, 140), loaded(2, 100, 140)]);
    let loads: Vec<_> = progress.loads.iter().map(|load| (load.attempt, load.step)).collect();
    assert_eq!(loads, [(1, 0), (2, 100)]);
}

#[test]
fn lists_are_bounded_and_the_oldest_go() {
    let many: Vec<Told> = (1..=1000)
        .map(|number| Told { ranges: vec![range(number, 5, 6, 1)], ..loaded(number, 5, 6) })
        .collect();
    let progress = all(&many);
    assert_eq!((progress.ranges.len(), progress.loads.len()), (RANGES_MAX, LOADS_MAX));
    assert_eq!(progress.loads.last().unwrap().attempt, 1000);
    assert_eq!(progress.ranges[0].attempt, 1001 - u32::try_from(RANGES_MAX).unwrap());
}

prop_compose! {
    fn any_told()(
        attempt in 1..4_u32,
        from in 0..20_u64,
        steps in 1..8_u64,
        world_size in 1..3_u32,
        save in prop::option::of(0..30_u64),
        load in prop::option::of((0..5_u64, 0..5_u64)),
    ) -> Told {
        let checkpoint = save.and_then(|step| saved(attempt, step).checkpoint);
        let load = load.map(|(step, more)| Load { attempt, step, committed_at: None, reached: step + more });
        let ranges = vec![range(attempt, from, from + steps, world_size)];
        Told { attempt, step: from + steps, ranges, checkpoint, load }
    }
}

/// Each step that each attempt did.
fn steps(ranges: &[StepRange]) -> Vec<(u32, u64)> {
    ranges.iter().flat_map(|range| (range.from..range.to).map(|step| (range.attempt, step))).collect()
}

proptest! {
    #[test]
    fn no_step_of_an_attempt_is_lost_or_twice_whatever_comes(told in prop::collection::vec(any_told(), 1..40)) {
        let progress = all(&told);
        let found = steps(&progress.ranges);
        let expected: BTreeSet<(u32, u64)> = told.iter().flat_map(|told| steps(&told.ranges)).collect();
        prop_assert_eq!(&found, &expected.into_iter().collect::<Vec<_>>());
        for pair in progress.ranges.windows(2) {
            let [one, two] = pair else { unreachable!("windows of two") };
            prop_assert!(
                (one.attempt, one.to, one.world_size) != (two.attempt, two.from, two.world_size),
                "{one:?} and {two:?} are one"
            );
        }
    }

    #[test]
    fn the_order_does_not_matter_and_neither_does_a_second_time(
        (told, shuffled) in prop::collection::vec(any_told(), 1..30)
            .prop_flat_map(|told| (Just(told.clone()), Just([told.clone(), told].concat()).prop_shuffle()))
    ) {
        let (one, two) = (all(&told), all(&shuffled));
        prop_assert_eq!(steps(&one.ranges), steps(&two.ranges));
        prop_assert_eq!((one.step, &one.checkpoint, &one.loads), (two.step, &two.checkpoint, &two.loads));
        let again = told.iter().fold(one.clone(), |progress, told| record(Some(progress), told, at(0)));
        prop_assert_eq!(again, one);
    }
}
