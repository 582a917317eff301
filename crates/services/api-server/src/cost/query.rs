//! The query of a cost report: days, filters, and where a page continues. Pure.

use api_types::rest::CostGrouping;
use costing::{Day, Moment};
use jiff::ToSpan;
use jiff::civil::{Date, date};
use serde::Deserialize;

use crate::http::page_token;
use crate::http::problem::ApiError;

/// The longest report: a year and a month, so that a year can be compared with its last month.
const DAYS_MAX: i32 = 400;
/// Rows on a page if the caller does not say.
const LIMIT_DEFAULT: u16 = 100;
/// The most rows on a page: 1,000 × ~300 bytes = 300 KB.
const LIMIT_MAX: u16 = 1_000;
/// The longest name of a user that is looked for.
const USER_LENGTH_MAX: usize = 1_024;
/// For how long the pages of a report can be read: most of what ran at its beginning still runs then.
const PAGING_SECONDS_MAX: i64 = 15 * 60;

/// A day in a query, as `2026-11-01`.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct DayName(Date);

/// How many rows a page holds.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(try_from = "u16")]
pub struct RowLimit(u16);

/// A user's name.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct UserName(String);

/// From the first to the last day, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The first day.
    pub since: Day,
    /// The last day.
    pub until: Day,
}

/// Where a page ended: the next one begins after this key, and counts until the same moment as the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// What rows are summed by.
    pub by: CostGrouping,
    /// The moment of the report.
    pub as_of: Moment,
    /// The last key seen.
    pub key: Option<String>,
}

impl Period {
    /// The days of the report. The default for the last day is today; for the first, the first of the last
    /// day's month.
    pub fn new(since: Option<DayName>, until: Option<DayName>, today: Day) -> Result<Self, ApiError> {
        let until = until.map_or_else(|| to_date(today), |DayName(date)| date);
        let since = since.map_or_else(|| until.first_of_month(), |DayName(date)| date);
        let period = Self { since: to_day(since), until: to_day(until) };
        let refusal = |detail: String| ApiError::bad_request("InvalidPeriod", detail);
        if period.since > period.until {
            return Err(refusal(format!("the first day, {since}, is after the last, {until}"))
                .hint("swap `since` and `until`"));
        }
        let days = period.until.0 - period.since.0 + 1;
        if days > DAYS_MAX {
            return Err(refusal(format!("{days} days are too many for one report: at most {DAYS_MAX}"))
                .hint("ask for a part, and then for the next"));
        }
        Ok(period)
    }
}

impl Position {
    /// As a continue token. Keys may contain `/`, which parts of a token may not.
    pub fn to_token(&self) -> String {
        let key = self.key.as_ref().map_or(String::new(), |key| format!("={}", escape(key)));
        page_token::encode(&[name(self.by), &self.as_of.0.to_string(), &key])
    }

    /// Reads the continue token of a report by `by` that began not long before `now`.
    pub fn from_token(token: &str, by: CostGrouping, now: Moment) -> Result<Self, ApiError> {
        let [grouping, as_of, key] = page_token::decode(token)?;
        if grouping != name(by) {
            return Err(page_token::Error.into());
        }
        let as_of = Moment(as_of.parse().map_err(|_| page_token::Error)?);
        let age_seconds = now.0.saturating_sub(as_of.0);
        if !(0..=PAGING_SECONDS_MAX).contains(&age_seconds) {
            return Err(ApiError::bad_request("InvalidContinue", "the report has moved on since this page")
                .hint("leave `continue` out to start from the beginning"));
        }
        let key = match key.strip_prefix('=') {
            Some(key) => Some(unescape(key)),
            None if key.is_empty() => None,
            None => return Err(page_token::Error.into()),
        };
        Ok(Self { by, as_of, key })
    }
}

impl RowLimit {
    /// As a count.
    pub fn get(self) -> u32 {
        u32::from(self.0)
    }
}

impl Default for RowLimit {
    fn default() -> Self {
        Self(LIMIT_DEFAULT)
    }
}

impl TryFrom<u16> for RowLimit {
    type Error = String;

    fn try_from(limit: u16) -> Result<Self, String> {
        if (1..=LIMIT_MAX).contains(&limit) {
            Ok(Self(limit))
        } else {
            Err(format!("limit must be 1 to {LIMIT_MAX}"))
        }
    }
}

impl UserName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for UserName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name.is_empty() || name.len() > USER_LENGTH_MAX || name.contains('\0') {
            return Err(format!("not a user's name: 1 to {USER_LENGTH_MAX} bytes"));
        }
        Ok(Self(name))
    }
}

impl TryFrom<String> for DayName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let day = text.parse::<Date>().ok().filter(|date| date.to_string() == text);
        // No bill is older than 1970.
        let day = day.filter(|date| date.year() >= 1970);
        day.map(Self).ok_or_else(|| format!("`{text}` is not a day: write it as 2026-11-01"))
    }
}

/// The grouping as the API spells it.
pub fn name(by: CostGrouping) -> &'static str {
    match by {
        CostGrouping::Run => "run",
        CostGrouping::User => "user",
        CostGrouping::Queue => "queue",
        CostGrouping::Namespace => "namespace",
        CostGrouping::Day => "day",
        CostGrouping::Class => "class",
    }
}

/// The day as a date.
pub fn to_date(day: Day) -> Date {
    EPOCH.saturating_add(day.0.days())
}

const EPOCH: Date = date(1970, 1, 1);

fn to_day(date: Date) -> Day {
    Day((date - EPOCH).get_days())
}

fn escape(key: &str) -> String {
    key.replace('%', "%25").replace('/', "%2f")
}

fn unescape(key: &str) -> String {
    key.replace("%2f", "/").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use api_types::rest::CostGrouping;
    use costing::{Day, Moment};

    use super::{DayName, Period, Position, to_date, to_day};

    fn day(text: &str) -> DayName {
        DayName::try_from(text.to_owned()).expect("a day")
    }

    fn period(since: Option<&str>, until: Option<&str>) -> Result<(String, String), String> {
        let today = to_day("2026-11-15".parse().expect("a day"));
        Period::new(since.map(day), until.map(day), today)
            .map(|period| (to_date(period.since).to_string(), to_date(period.until).to_string()))
            .map_err(|error| error.0.detail)
    }

    #[test]
    fn days_default_to_this_month_until_today() {
        let days = |since: &str, until: &str| Ok((since.to_owned(), until.to_owned()));
        for (since, until, expect) in [
            (None, None, days("2026-11-01", "2026-11-15")),
            (Some("2026-10-20"), None, days("2026-10-20", "2026-11-15")),
            (None, Some("2026-02-28"), days("2026-02-01", "2026-02-28")),
            (Some("2026-11-15"), Some("2026-11-15"), days("2026-11-15", "2026-11-15")),
            (Some("2025-10-12"), None, days("2025-10-12", "2026-11-15")),
        ] {
            assert_eq!(period(since, until), expect, "{since:?} {until:?}");
        }
    }

    #[test]
    fn a_period_is_neither_backwards_nor_longer_than_its_bound() {
        assert_eq!(
            period(Some("2026-11-16"), None),
            Err("the first day, 2026-11-16, is after the last, 2026-11-15".to_owned())
        );
        assert_eq!(
            period(Some("2025-10-11"), None),
            Err("401 days are too many for one report: at most 400".to_owned()),
            "one day more than above"
        );
    }

    #[test]
    fn only_days_of_the_calendar_are_days() {
        for text in
            ["", "2026-11", "20261101", "2026-11-01T00:00:00", "2026-02-30", "1969-12-31", "-000001-01-01"]
        {
            assert!(DayName::try_from(text.to_owned()).is_err(), "{text}");
        }
        assert_eq!(to_day("1970-01-02".parse().expect("a day")), Day(1));
    }

    #[test]
    fn a_page_goes_on_behind_any_key_at_the_moment_of_the_first_page() {
        let now = Moment(1_800_000_000);
        for key in
            [None, Some(""), Some("nlp/llama-ft"), Some("https://idp/a%2fb"), Some("=a"), Some("%252f")]
        {
            let position =
                Position { by: CostGrouping::User, as_of: Moment(now.0 - 60), key: key.map(str::to_owned) };
            let token = position.to_token();
            assert_eq!(Position::from_token(&token, CostGrouping::User, now), Ok(position));
            assert!(Position::from_token(&token, CostGrouping::Run, now).is_err(), "of another report");
            assert!(
                Position::from_token(&token, CostGrouping::User, Moment(now.0 + 900)).is_err(),
                "too old"
            );
            assert!(
                Position::from_token(&token, CostGrouping::User, Moment(now.0 - 61)).is_err(),
                "of the future"
            );
        }
    }
}
