use proptest::prelude::*;
use slim_objects::quantity::{Error, millis, units};

#[test]
fn quantities_are_exact_and_rounded_up() {
    let check = |text: &str, expected_units: i64, expected_millis: i64| {
        assert_eq!((units(text), millis(text)), (Ok(expected_units), Ok(expected_millis)), "{text}");
    };
    check("0", 0, 0);
    check("-0", 0, 0);
    check("8", 8, 8000);
    check("+8", 8, 8000);
    check("1.5", 2, 1500);
    check(".5", 1, 500);
    check("5.", 5, 5000);
    check("500m", 1, 500);
    check("1500m", 2, 1500);
    check("100u", 1, 1);
    check("1n", 1, 1);
    check("1000000n", 1, 1);
    check("1000001n", 1, 2);
    check("100k", 100_000, 100_000_000);
    check("3M", 3_000_000, 3_000_000_000);
    check("1e3", 1000, 1_000_000);
    check("1E3", 1000, 1_000_000);
    check("1e+3", 1000, 1_000_000);
    check("12e-1", 2, 1200);
    check("1e-40", 1, 1);
    check("0e999999999999", 0, 0);
    check("1Ki", 1024, 1_024_000);
    check("2Gi", 2 << 30, (2 << 30) * 1000);
    check("0.5Gi", 1 << 29, (1 << 29) * 1000);
    check("1.5Ti", 3 << 39, (3 << 39) * 1000);
    check("0.1Ki", 103, 102_400);
    check("0.0001Ki", 1, 103);
    check("0.3000000000000000000000000000000000000001", 1, 301);
    check("1E", 1_000_000_000_000_000_000, i64::MAX);
    check("7Ei", 7 << 60, i64::MAX);
    check("8Ei", i64::MAX, i64::MAX);
    check("99999999999999999999999999999999999999999999", i64::MAX, i64::MAX);
    check("1e100", i64::MAX, i64::MAX);
}

#[test]
fn what_is_not_a_quantity_is_refused() {
    for text in [
        "", ".", "-", "m", "Gi", "1.2.3", "1 Gi", "1gi", "1KB", "1K", "1e", "1e+", "1e1.5", "0x10", "1i",
        "²", "1_000", "--1", "1e--3",
    ] {
        assert_eq!(units(text), Err(Error::Malformed), "{text}");
    }
    for text in ["-1", "-0.5", "-1Gi", "-99999999999999999999999999999999999999999999"] {
        assert_eq!(units(text), Err(Error::Negative), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_without_harm(text in "\\PC{0,24}") {
        let _ = (units(&text), millis(&text));
    }

    #[test]
    fn whole_numbers_are_themselves(number in 0..i64::MAX) {
        prop_assert_eq!(units(&number.to_string()), Ok(number));
    }

    #[test]
    fn thousandths_round_up(number in 0..i64::MAX) {
        let text = format!("{number}m");
        prop_assert_eq!(millis(&text), Ok(number));
        prop_assert_eq!(units(&text), Ok(number / 1000 + i64::from(number % 1000 != 0)));
    }
}
