//! The schema.

use std::borrow::Cow;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{Connection, PgConnection, SqlSafeStr};

use crate::Error;
use crate::connect;

/// In order. A released migration is never edited: its checksum is compared.
const MIGRATIONS: [(i64, &str, &str); 7] = [
    (1, "ledger", include_str!("../migrations/0001_ledger.sql")),
    (2, "append only", include_str!("../migrations/0002_append_only.sql")),
    (3, "row level security", include_str!("../migrations/0003_row_level_security.sql")),
    (4, "partitions", include_str!("../migrations/0004_partitions.sql")),
    (5, "lost", include_str!("../migrations/0005_lost.sql")),
    (6, "purchases", include_str!("../migrations/0006_purchases.sql")),
    (7, "archive", include_str!("../migrations/0007_archive.sql")),
];

/// Brings the schema up to date, as its owner. Safe to run twice, and by two replicas at once: the second waits for
/// the first under an advisory lock, and finds it done.
pub async fn migrate(owner_url: &str) -> Result<(), Error> {
    let options = connect::options(owner_url, "warpyard-migrate")?;
    let mut connection =
        PgConnection::connect_with(&options).await.map_err(Error::to("connect as the owner"))?;
    let migrations = MIGRATIONS.map(|(version, description, sql)| {
        let description = Cow::Borrowed(description);
        Migration::new(version, description, MigrationType::Simple, sql.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(migrations.into());
    // A replica of the version before may start again while this one is rolled out.
    migrator.set_ignore_missing(true);
    let migrated = migrator.run_direct(None, &mut connection, false).await;
    // Closing releases the lock, also if a migration failed.
    let _ = connection.close().await;
    migrated.map_err(|error| Error::Migrate(Box::new(error)))
}
