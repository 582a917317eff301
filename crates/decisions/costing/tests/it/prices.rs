//! Which price counts.

use costing::{HourlyPrice, Moment, Price, PriceBook, PriceUnit};

use crate::build::{cpu_shape, gpu_shape, price};

fn micros(book: &PriceBook, at: i64) -> Option<i64> {
    book.at(&gpu_shape(8), Moment(at)).map(|price| price.0 / 1_000_000)
}

/// Two prices in either order give a node of type p5.48xlarge, H100, on-demand this one at 100.
fn counts(one: &Price, other: &Price, expected: Option<i64>) {
    for prices in [vec![one.clone(), other.clone()], vec![other.clone(), one.clone()]] {
        assert_eq!(micros(&PriceBook::new(prices.clone()), 100), expected, "{prices:?}");
    }
}

fn of(text: &str, change: impl FnOnce(&mut Price)) -> Price {
    let mut price = price(PriceUnit::Node, text);
    change(&mut price);
    price
}

#[test]
fn the_entry_that_asks_for_most_counts_instance_type_before_gpu_type_before_capacity_type() {
    let any = of("1", |_| {});
    let capacity = of("2", |price| price.capacity_type = Some("on-demand".to_owned()));
    let gpu = of("3", |price| price.gpu_type = Some("H100".to_owned()));
    let gpu_and_capacity = of("4", |price| {
        price.gpu_type = Some("H100".to_owned());
        price.capacity_type = Some("on-demand".to_owned());
    });
    let instance = of("5", |price| price.instance_type = Some("p5.48xlarge".to_owned()));
    let instance_and_capacity = of("6", |price| {
        price.instance_type = Some("p5.48xlarge".to_owned());
        price.capacity_type = Some("on-demand".to_owned());
    });
    let in_order = [any, capacity, gpu, gpu_and_capacity, instance, instance_and_capacity];
    for (index, winner) in in_order.iter().enumerate() {
        for loser in &in_order[..index] {
            counts(loser, winner, Some(winner.price.0 / 1_000_000));
        }
    }
}

#[test]
fn an_entry_that_asks_for_something_else_never_counts() {
    let any = of("1", |_| {});
    counts(&any, &of("2", |price| price.capacity_type = Some("spot".to_owned())), Some(1));
    counts(&any, &of("2", |price| price.gpu_type = Some("L4".to_owned())), Some(1));
    counts(&any, &of("2", |price| price.instance_type = Some("p4d".to_owned())), Some(1));
    let h100 = of("3", |price| price.gpu_type = Some("H100".to_owned()));
    assert_eq!(PriceBook::new(vec![h100]).at(&cpu_shape(1_000), Moment(100)), None);
}

#[test]
fn of_equals_the_one_in_force_since_latest_counts_then_the_first_sheet() {
    let old = of("1", |price| price.from = Moment(10));
    let new = of("2", |price| price.from = Moment(100));
    let later = of("3", |price| price.from = Moment(101));
    counts(&old, &new, Some(2));
    counts(&old, &later, Some(1));
    counts(&later, &later, None);
    counts(
        &of("5", |price| price.sheet = "b".to_owned()),
        &of("4", |price| price.sheet = "a".to_owned()),
        Some(4),
    );
}

#[test]
fn an_old_entry_that_asks_for_more_counts_before_a_new_one_that_asks_for_less() {
    let old = of("1", |price| price.gpu_type = Some("H100".to_owned()));
    let new = of("2", |price| price.from = Moment(50));
    counts(&old, &new, Some(1));
}

#[test]
fn a_price_for_each_gpu_is_multiplied_by_the_nodes_gpus() {
    let book = PriceBook::new(vec![price(PriceUnit::Gpu, "2.5")]);
    assert_eq!(book.at(&gpu_shape(8), Moment(1)), Some(HourlyPrice(20_000_000)));
    assert_eq!(book.at(&cpu_shape(4_000), Moment(1)), Some(HourlyPrice(0)));
    // More than can be counted is unknown, not cut off.
    let dear = PriceBook::new(vec![price(PriceUnit::Gpu, "1000000")]);
    assert_eq!(dear.at(&gpu_shape(u32::MAX), Moment(1)), None);
}

#[test]
fn changes_lie_within_and_are_of_entries_that_match() {
    let mut prices: Vec<_> = [10, 20, 20, 30, 40].map(|at| of("1", |price| price.from = Moment(at))).into();
    prices.push(of("1", |price| {
        price.from = Moment(25);
        price.gpu_type = Some("L4".to_owned());
    }));
    let book = PriceBook::new(prices);
    assert_eq!(book.changes(&gpu_shape(8), Moment(10), Moment(40)), [Moment(20), Moment(30)]);
}

#[test]
fn the_order_of_sheets_does_not_matter() {
    let prices: Vec<_> = ["3", "1", "2"].map(|text| of(text, |_| {})).into();
    let reversed = prices.iter().rev().cloned().collect();
    assert_eq!(PriceBook::new(prices), PriceBook::new(reversed));
}
