//! Machines that we bought: their price is what was paid, and their start is charged to what they were bought for.

use costing::{
    Attribution, Class, End, HourlyPrice, MachineStart, NodeRecord, PodRecord, PriceBook, Purchase,
};

use crate::build::{at, fold_today, gpu_shape, node, plain_prices, pod, told};

/// Bought for run `run` of team `team` at 7.20 an hour, which is 2,000 millionths a second; open from second 30 on.
fn bought() -> Purchase {
    let buyer = Attribution {
        namespace: Some("team".to_owned()),
        run: Some("run".to_owned()),
        attempt: Some(2),
        queue: Some("queue".to_owned()),
        ..Attribution::default()
    };
    Purchase {
        paid: HourlyPrice::parse("7.2").unwrap(),
        on_demand: None,
        start: Some(MachineStart { buyer, opened_at: Some(at(30)) }),
    }
}

fn machine(bought: Purchase) -> NodeRecord {
    NodeRecord { bought: Some(bought), ..node(gpu_shape(8)) }
}

#[test]
fn a_machine_costs_what_was_paid_whatever_price_sheets_say() {
    let machine = machine(Purchase { start: None, ..bought() });
    for prices in [plain_prices(), PriceBook::default()] {
        let fold = fold_today(std::slice::from_ref(&machine), &[], &prices, at(50));
        assert_eq!(told(&fold), ["open rest idle 0..50 gpus 8 rate 2000"]);
    }
}

#[test]
fn until_it_is_open_to_pods_a_machine_starts_for_whom_it_was_bought_and_then_it_is_nobodys() {
    let fold = fold_today(&[machine(bought())], &[pod("a", 4, at(20))], &plain_prices(), at(50));
    assert_eq!(
        told(&fold),
        [
            "closed rest node-starting 0..20 gpus 8 rate 2000",
            "closed rest node-starting 20..30 gpus 4 rate 1000",
            "open a starting 20..50 gpus 4 rate 1000",
            "open rest idle 30..50 gpus 4 rate 1000",
        ]
    );
    let buyers: Vec<_> = fold.closed.iter().map(|line| line.attribution.run.as_deref()).collect();
    assert_eq!(buyers, [Some("run"); 2]);
    let idle = fold.open.iter().find(|open| open.line.class == Class::NodeIdle).unwrap();
    assert_eq!(idle.line.attribution, Attribution::default());
}

#[test]
fn a_machine_that_never_opens_starts_until_its_end() {
    let start = MachineStart { opened_at: None, ..bought().start.unwrap() };
    let machine = machine(Purchase { start: Some(start), ..bought() });
    let gone = NodeRecord { ended: Some(End::Certain(at(40))), ..machine };
    let fold = fold_today(&[gone], &[], &plain_prices(), at(50));
    assert_eq!(told(&fold), ["closed rest node-starting 0..40 gpus 8 rate 2000"]);
}

#[test]
fn what_spot_saved_is_shared_as_the_price_is() {
    let spot = Purchase { on_demand: Some(HourlyPrice::parse("36").unwrap()), ..bought() };
    let used = PodRecord { started_at: Some(at(30)), ..pod("a", 2, at(30)) };
    let fold = fold_today(&[machine(spot)], &[used], &plain_prices(), at(50));
    // 28.80 an hour are 8,000 millionths a second.
    let saved = |subject_is_pod: bool| -> i64 {
        let lines = fold.closed.iter().chain(fold.open.iter().map(|open| &open.line));
        let lines = lines.filter(|line| line.attribution.pod.is_some() == subject_is_pod);
        let micros = lines.map(|line| line.saved().0 / (3_600 * costing::money::SHARES)).sum::<i128>();
        micros.try_into().unwrap()
    };
    assert_eq!((saved(true), saved(false)), (20 * 2_000, 30 * 8_000 + 20 * 6_000));
}

#[test]
fn an_interruption_costs_what_was_lost_and_what_starts_once_more() {
    let first = PodRecord { attempt: Some(1), ..pod("a", 2, at(5)) };
    let first = PodRecord { started_at: Some(at(10)), lost_from: Some(at(15)), ..first };
    let first = PodRecord { ended: Some(End::Certain(at(20))), ..first };
    let again = PodRecord { attempt: Some(2), started_at: Some(at(35)), ..pod("b", 2, at(25)) };
    let fold = fold_today(&[machine(bought())], &[first, again], &plain_prices(), at(50));
    let lines = fold.closed.iter().chain(fold.open.iter().map(|open| &open.line));
    let mut of_interruption: Vec<_> = lines
        .filter(|line| line.is_of_interruption() && line.class != Class::NodeStarting)
        .map(|line| (line.class, line.from, line.to))
        .collect();
    of_interruption.sort_unstable();
    assert_eq!(of_interruption, [(Class::Starting, at(25), at(35)), (Class::Lost, at(15), at(20))]);
    let machine_starts = fold.closed.iter().find(|line| line.class == Class::NodeStarting).unwrap();
    assert!(machine_starts.is_of_interruption(), "it was bought for the second attempt");
}
