//! Connections and their bounds.

use std::str::FromStr;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::Error;

/// How many connections there may be, and how long they may take.
pub(crate) struct Limits {
    pub(crate) connections_max: u32,
    pub(crate) acquire_timeout: Duration,
    pub(crate) statement_timeout: Duration,
    pub(crate) read_only: bool,
}

/// A transaction that is idle for this long is rolled back, so that a paused replica does not block the one
/// that took over. Ten times our longest pause between two statements.
const IDLE_IN_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// A pool that connects when it is first used.
pub(crate) fn pool(url: &str, application: &str, limits: &Limits) -> Result<PgPool, Error> {
    let milliseconds = |duration: Duration| duration.as_millis().to_string();
    let options = options(url, application)?.options([
        ("statement_timeout", milliseconds(limits.statement_timeout)),
        ("idle_in_transaction_session_timeout", milliseconds(IDLE_IN_TRANSACTION_TIMEOUT)),
        ("default_transaction_read_only", if limits.read_only { "on" } else { "off" }.into()),
    ]);
    Ok(PgPoolOptions::new()
        .max_connections(limits.connections_max)
        .acquire_timeout(limits.acquire_timeout)
        .connect_lazy_with(options))
}

pub(crate) fn options(url: &str, application: &str) -> Result<PgConnectOptions, Error> {
    // The URL contains a password, so no message repeats it.
    let options = PgConnectOptions::from_str(url.trim()).map_err(|_| Error::InvalidUrl)?;
    Ok(options.application_name(application).options([("TimeZone", "UTC")]))
}
