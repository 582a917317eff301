//! Durations as people write them in job files: `24h`, `90m`, `1d12h`, `45s`.

/// Why a duration cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("cannot read the duration `{0}`: write it as 45s, 90m, 24h or 1d12h")]
pub struct Error(String);

/// The number of seconds in `text`.
pub fn parse_seconds(text: &str) -> Result<i64, Error> {
    let fail = || Error(text.to_owned());
    let mut rest = text.trim();
    let mut seconds: i64 = 0;
    if rest.is_empty() {
        return Err(fail());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(fail)?;
        let number: i64 = rest[..digits].parse().map_err(|_| fail())?;
        let unit = rest[digits..].chars().next().ok_or_else(fail)?;
        let unit_seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(fail()),
        };
        seconds =
            number.checked_mul(unit_seconds).and_then(|part| seconds.checked_add(part)).ok_or_else(fail)?;
        rest = &rest[digits + unit.len_utf8()..];
    }
    if seconds == 0 { Err(fail()) } else { Ok(seconds) }
}

#[cfg(test)]
mod tests {
    use super::parse_seconds;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [("45s", 45), ("90m", 5_400), ("24h", 86_400), ("1d12h", 129_600)] {
            assert_eq!(parse_seconds(text), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "24", "h", "1w", "0s", "-1h", "99999999999999999d", "1h 30m"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }
}
