//! Days on the command line. Days are UTC, as on the bill.

use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// The most days to look back: more than a report may cover.
const DAYS_AGO_MAX: i32 = 36_600;

/// A day, or a period that stands for its first or last day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaySpec {
    /// `2026-11-01`.
    Day(Date),
    /// `2026-11`, stored as its first day.
    Month(Date),
    /// `7d`: this many days ago.
    Ago(i32),
    /// `month`: the current month.
    ThisMonth,
}

/// Not a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not a day: write 2026-11-01, 2026-11, 7d (seven days ago), today or month", self.0)
    }
}

impl std::error::Error for Error {}

impl FromStr for DaySpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let error = || Error(text.to_owned());
        match text {
            "today" => return Ok(Self::Ago(0)),
            "month" => return Ok(Self::ThisMonth),
            _ => {}
        }
        if let Some(count) = text.strip_suffix('d') {
            let is_number = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
            let days = count.parse::<i32>().ok().filter(|days| is_number && *days <= DAYS_AGO_MAX);
            return days.map(Self::Ago).ok_or_else(error);
        }
        let date = |text: &str| text.parse::<Date>().ok().filter(|date| date.to_string() == text);
        match date(text) {
            Some(day) => Ok(Self::Day(day)),
            None => date(&format!("{text}-01")).map(Self::Month).ok_or_else(error),
        }
    }
}

impl DaySpec {
    /// Its first day.
    pub fn first(self, today: Date) -> Date {
        match self {
            Self::Day(day) | Self::Month(day) => day,
            Self::Ago(days) => today.saturating_sub(days.days()),
            Self::ThisMonth => today.first_of_month(),
        }
    }

    /// Its last day.
    pub fn last(self, today: Date) -> Date {
        match self {
            Self::Day(_) | Self::Ago(_) => self.first(today),
            Self::Month(_) | Self::ThisMonth => self.first(today).last_of_month(),
        }
    }
}

/// Today, UTC.
pub fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::DaySpec;

    #[test]
    fn days_are_named_as_people_do() {
        let today = date(2026, 3, 15);
        for (text, first, last) in [
            ("2026-11-01", date(2026, 11, 1), date(2026, 11, 1)),
            ("2026-02", date(2026, 2, 1), date(2026, 2, 28)),
            ("today", today, today),
            ("0d", today, today),
            ("20d", date(2026, 2, 23), date(2026, 2, 23)),
            ("month", date(2026, 3, 1), date(2026, 3, 31)),
        ] {
            let spec: DaySpec = text.parse().expect(text);
            assert_eq!((spec.first(today), spec.last(today)), (first, last), "{text}");
        }
    }

    #[test]
    fn what_is_no_day_is_refused() {
        for text in [
            "",
            "d",
            "-1d",
            "+1d",
            "7",
            "7h",
            "99999999999d",
            "2026",
            "2026-13",
            "2026-02-30",
            "20261101",
            "yesterday",
        ] {
            assert!(text.parse::<DaySpec>().is_err(), "{text}");
        }
    }
}
