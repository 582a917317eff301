//! Reading and writing money.

use costing::money::{SHARES, UNITS_PER_CURRENCY};
use costing::{Amount, HourlyPrice};

#[test]
fn a_price_is_a_plain_decimal_and_nothing_else() {
    let good = [
        ("0", 0),
        ("98.32", 98_320_000),
        ("2.99", 2_990_000),
        ("0.000001", 1),
        ("1000000", 1_000_000_000_000),
        ("1000000.000000", 1_000_000_000_000),
        ("007.5", 7_500_000),
    ];
    for (text, micros) in good {
        assert_eq!(HourlyPrice::parse(text), Ok(HourlyPrice(micros)), "{text}");
    }
    let bad = [
        "",
        ".",
        "1.",
        ".5",
        "-1",
        "+1",
        "-0",
        "1e3",
        "1E3",
        " 1",
        "1 ",
        "1,5",
        "1.2.3",
        "0.0000001",
        "1.1234567",
        "1000000.000001",
        "1000001",
        "9999999",
        "0000001",
        "00000001",
        "0x10",
        "1_000",
        "NaN",
        "inf",
        "١",
        "１",
        "1.５",
        "1.-5",
        "1.+5",
    ];
    for text in bad {
        assert!(HourlyPrice::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn an_error_about_a_price_is_short_and_says_what_to_write() {
    let error = HourlyPrice::parse(&"9".repeat(10_000)).unwrap_err().to_string();
    assert!(error.len() < 250 && error.contains("for example 2.99"), "{error}");
}

#[test]
fn a_second_of_any_common_share_is_a_whole_number_of_units() {
    let second = HourlyPrice(1).per_second().0;
    for gpus in (1..=16).chain([18, 20, 21, 22, 24, 26, 28, 30, 32, 36, 40, 48, 64]) {
        assert_eq!(second % gpus, 0, "{gpus}");
    }
    assert_eq!(second, SHARES);
}

#[test]
fn an_hour_costs_the_price_of_an_hour() {
    let price = HourlyPrice::parse("98.32").unwrap();
    assert_eq!((price.per_second() * 3_600).to_string(), "98.320000");
    assert_eq!(price.per_second() * 3_600, Amount(UNITS_PER_CURRENCY / 100 * 9_832));
}

#[test]
fn amounts_are_rounded_half_to_even_for_people() {
    let micro = UNITS_PER_CURRENCY / 1_000_000;
    let half = micro / 2;
    let cases = [
        (0, "0.000000"),
        (half, "0.000000"),
        (half + 1, "0.000001"),
        (micro + half - 1, "0.000001"),
        (micro + half, "0.000002"),
        (2 * micro + half, "0.000002"),
        (-half, "0.000000"),
        (-half - 1, "-0.000001"),
        (-micro - half, "-0.000002"),
        (-2 * micro - half, "-0.000002"),
        (7_000_000_000_000 * UNITS_PER_CURRENCY, "7000000000000.000000"),
    ];
    for (units, text) in cases {
        assert_eq!(Amount(units).to_string(), text, "{units}");
    }
    // Every amount can be told.
    assert_eq!(Amount(i128::MAX).to_string(), "16393828341842304274784.561861");
    assert_eq!(Amount(i128::MIN).to_string(), "-16393828341842304274784.561861");
}

#[test]
fn sums_do_not_depend_on_how_they_are_grouped() {
    let rates = [Amount(1), Amount(-5), Amount(7)];
    assert_eq!(rates.into_iter().sum::<Amount>(), Amount(3));
    assert_eq!(rates[0] + rates[1] - rates[2], Amount(-11));
    assert_eq!(-rates[2] * 3, Amount(-21));
}
