//! Errors of the database.

/// Why a request to the database failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached, or went away: try again.
    #[error("the ledger's database is not available: failed to {attempted}")]
    Unavailable {
        /// What was attempted.
        attempted: &'static str,
        /// What it said.
        #[source]
        source: Box<sqlx::Error>,
    },
    /// It refused: our code or its set-up is wrong.
    #[error("the ledger's database refused to {attempted}")]
    Refused {
        /// What was attempted.
        attempted: &'static str,
        /// What it said.
        #[source]
        source: Box<sqlx::Error>,
    },
    /// The migrations could not be applied.
    #[error("the ledger's schema could not be brought up to date")]
    Migrate(#[source] Box<sqlx::migrate::MigrateError>),
    /// A stored value is not one that we write.
    #[error("the ledger holds something unexpected: {0}")]
    Corrupt(String),
    /// The database's URL is invalid. It contains a password, so it is not repeated.
    #[error("the ledger's address is not a URL such as postgres://user:password@host:5432/warpyard")]
    InvalidUrl,
}

impl Error {
    /// Whether trying again later may help.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::Migrate(error) => match error.as_ref() {
                sqlx::migrate::MigrateError::Execute(error)
                | sqlx::migrate::MigrateError::ExecuteMigration(error, _) => may_pass(error),
                _ => false,
            },
            Self::Refused { .. } | Self::Corrupt(_) | Self::InvalidUrl => false,
        }
    }

    /// For `map_err`: the error of this attempt.
    pub(crate) fn to(attempted: &'static str) -> impl Fn(sqlx::Error) -> Self {
        move |error| match error {
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Self::Corrupt(error.to_string()),
            _ => {
                let passes = may_pass(&error);
                let source = Box::new(error);
                if passes {
                    Self::Unavailable { attempted, source }
                } else {
                    Self::Refused { attempted, source }
                }
            }
        }
    }
}

/// Whether the same request may succeed later.
fn may_pass(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        // A connection that was cut within a message.
        | sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            // 08: connections. 40: deadlocks, lost races. 53: no memory, disk or connection left. 57: shut down,
            // crashed, starting, cancelled by a timeout. 25P03: we paused for too long within a transaction.
            ["08", "40", "53", "57", "25P03"].iter().any(|class| code.starts_with(class))
        }),
        _ => false,
    }
}
