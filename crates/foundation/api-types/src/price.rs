//! Prices as objects write them: decimals with at most six decimals, in the currency of the price sheets.

/// Millionths of the currency.
pub const MICROS: i64 = 1_000_000;

/// What a price looks like, up to a million.
pub const PATTERN: &str = r"^([0-9]{1,6}(\.[0-9]{1,6})?|1000000(\.0{1,6})?)$";

/// A price in millionths; `None` if the text does not match [`PATTERN`].
pub fn micros(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let is_number = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole, 7) || decimals.is_some_and(|decimals| !is_number(decimals, 6)) {
        return None;
    }
    let part: i64 = format!("{:0<6}", decimals.unwrap_or_default()).parse().ok()?;
    let price = whole.parse::<i64>().ok()? * MICROS + part;
    // Only one price may have seven digits.
    (whole.len() < 7 || price == MICROS * MICROS && whole.starts_with('1')).then_some(price)
}

#[cfg(test)]
mod tests {
    use super::micros;

    #[test]
    fn a_price_is_read_to_the_last_of_six_decimals_and_nothing_else_is_one() {
        for (text, expect) in [
            ("0", Some(0)),
            ("12", Some(12_000_000)),
            ("29.4", Some(29_400_000)),
            ("0.000001", Some(1)),
            ("1000000.0", Some(1_000_000_000_000)),
            ("999999.999999", Some(999_999_999_999)),
            ("1000000.1", None),
            ("1000001", None),
            ("0000001", None),
            ("1.0000001", None),
            ("1.", None),
            (".5", None),
            ("1e3", None),
            ("-1", None),
            ("+1", None),
            ("", None),
        ] {
            assert_eq!(micros(text), expect, "{text:?}");
        }
    }
}
