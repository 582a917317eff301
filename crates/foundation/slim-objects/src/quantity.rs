//! Kubernetes quantities as exact integers, rounded up as Kubernetes does.

/// Why a text is not an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It does not have the form of a quantity.
    #[error("reading a quantity: it is not one")]
    Malformed,
    /// It is below zero.
    #[error("reading a quantity: it is negative")]
    Negative,
}

/// Whole units (bytes, GPUs, pods), rounded up.
pub fn units(text: &str) -> Result<i64, Error> {
    scaled(text, 1)
}

/// Thousandths (of a core), rounded up.
pub fn millis(text: &str) -> Result<i64, Error> {
    scaled(text, 1000)
}

/// Billionths of a unit.
pub const NANOS: i128 = 1_000_000_000;

/// Billionths, rounded up: as exact as Kubernetes is, for sums that are rounded at their end. Bounded by 2^100, so
/// that no sum of a pod comes near the end of an i128.
pub fn nanos(text: &str) -> Result<i128, Error> {
    const MAX: i128 = 1 << 100;
    let exact = value(text, NANOS)?;
    // More digits than can be counted in billionths: whole units are exact enough.
    Ok(if exact == i128::MAX { i128::from(units(text)?) * NANOS } else { exact }.min(MAX))
}

fn scaled(text: &str, scale: i128) -> Result<i64, Error> {
    Ok(i64::try_from(value(text, scale)?).unwrap_or(i64::MAX))
}

/// `digits × 10^-decimals × suffix × scale`, rounded up. A result beyond `i128` becomes its largest value, which is
/// more than any node has.
fn value(text: &str, scale: i128) -> Result<i128, Error> {
    let (negative, text) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(Error::Malformed);
    }
    let (factor, exponent) = parse_suffix(suffix).ok_or(Error::Malformed)?;
    let Some(digits) = digits(whole, fraction) else { return clamp(negative, i128::MAX) };
    if digits == 0 {
        return Ok(0);
    }
    // At most 18 digits of the fraction are kept, so that below no overflow hides a number that fits: a product
    // beyond 2^127, divided by at most 10^18 < 2^60, is beyond 2^63.
    let decimals = i32::try_from(fraction.len().min(FRACTION_DIGITS)).expect("it is at most 18");
    let power = exponent - decimals;
    let value = factor.checked_mul(scale).and_then(|factor| digits.checked_mul(factor));
    let value = match u32::try_from(power) {
        Ok(power) => 10i128.checked_pow(power).and_then(|ten| value?.checked_mul(ten)),
        Err(_) => match 10i128.checked_pow(power.unsigned_abs()) {
            Some(ten) => value.map(|value| value / ten + i128::from(value % ten != 0)),
            None => Some(1),
        },
    };
    clamp(negative, value.unwrap_or(i128::MAX))
}

const FRACTION_DIGITS: usize = 18;
/// Beyond this exponent any digit is either too much for an i64 or less than one.
const EXPONENT_MAX: i32 = 100;

/// The digits as one integer; a fraction longer than we keep is rounded up. `None` is more than fits.
fn digits(whole: &str, fraction: &str) -> Option<i128> {
    let (kept, rest) = fraction.split_at(fraction.len().min(FRACTION_DIGITS));
    let mut value = 0i128;
    for digit in whole.bytes().chain(kept.bytes()) {
        value = value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    let rounded_up = rest.bytes().any(|digit| digit != b'0');
    value.checked_add(i128::from(rounded_up))
}

/// The factor of a suffix and its power of ten.
fn parse_suffix(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
                return None;
            }
            let magnitude = digits.parse().unwrap_or(EXPONENT_MAX).min(EXPONENT_MAX);
            (1, if exponent.starts_with('-') { -magnitude } else { magnitude })
        }
    })
}

fn clamp(negative: bool, value: i128) -> Result<i128, Error> {
    if negative && value != 0 { Err(Error::Negative) } else { Ok(value) }
}
