//! Accounts that are locked to be posted to, and how the database names them.

use costing::{Account, Day, Line};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::rows::get;

/// An account whose row we hold locked, with its lines in the ledger.
pub(crate) struct Locked {
    pub(crate) account: Account,
    pub(crate) next_sequence: i64,
    /// Lines that are charged and not reversed, by sequence number.
    pub(crate) net: Vec<(i64, Line)>,
    /// Rows of `open_usage`, by id; `to` is without meaning.
    pub(crate) open: Vec<(i64, Line)>,
}

/// `position` of `WITH ORDINALITY`, counted from 0.
pub(crate) fn position(row: &PgRow) -> Result<usize, Error> {
    let position: i64 = get(row, "position")?;
    usize::try_from(position - 1).map_err(|_| Error::Corrupt(format!("position {position}")))
}

/// The source of an account's lines.
pub(crate) fn source(cluster: &str, account: &Account) -> String {
    format!("{cluster}/{}/{}", account.node, date(account.day))
}

/// As PostgreSQL writes it: `2026-11-15`.
pub(crate) fn date(day: Day) -> jiff::civil::Date {
    jiff::Timestamp::from_second(day.start().0)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .to_zoned(jiff::tz::TimeZone::UTC)
        .date()
}
