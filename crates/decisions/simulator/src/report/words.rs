//! Numbers as people read them.

use jiff::Timestamp;
use jiff::tz::Offset;

/// `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `12 s`, `4 min 10 s`, `3 h 05 min`, `12 d 4 h`.
pub fn duration(seconds: u64) -> String {
    let (minute, hour, day) = (60, 3_600, 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 if seconds.is_multiple_of(minute) => format!("{} min", seconds / minute),
        60..3_600 => format!("{} min {:02} s", seconds / minute, seconds % minute),
        3_600..172_800 => format!("{} h {:02} min", seconds / hour, seconds % hour / minute),
        _ => format!("{} d {} h", seconds / day, seconds % day / hour),
    }
}

/// A mean in the same form.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean wait, rounded for people"
)]
pub fn duration_mean(seconds: f64) -> String {
    duration(seconds.max(0.0).round() as u64)
}

/// `Oct 3`, or the time of day where that tells more.
pub fn moment(second: i64, with_time: bool) -> String {
    let Ok(timestamp) = Timestamp::from_second(second) else { return String::new() };
    let civil = Offset::UTC.to_datetime(timestamp);
    civil.strftime(if with_time { "%b %-d %H:%M" } else { "%b %-d" }).to_string()
}

#[cfg(test)]
mod tests {
    use super::{duration, moment, thousands};

    #[test]
    fn numbers_are_readable() {
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(999), "999");
        for (seconds, expect) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (250, "4 min 10 s"),
            (11_100, "3 h 05 min"),
            (1_052_000, "12 d 4 h"),
        ] {
            assert_eq!(duration(seconds), expect);
        }
        assert_eq!(moment(1_507_010_000, false), "Oct 3");
        assert_eq!(moment(1_507_010_000, true), "Oct 3 05:53");
    }
}
