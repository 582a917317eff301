//! Runs that have ended, written before they are removed from the cluster.

use sqlx::{PgPool, types::Json};

use crate::Error;
use crate::reader::Place;

/// A Run as it is archived.
#[derive(Clone, Debug)]
pub struct ArchivedRun {
    /// Its UID: the same Run twice is one row.
    pub uid: String,
    /// Its place in lists.
    pub place: Place,
    /// The queue that was charged.
    pub queue: Option<String>,
    /// Who submitted it.
    pub user: Option<String>,
    /// How it ended.
    pub phase: String,
    /// The object.
    pub document: serde_json::Value,
}

/// One statement, so all of them or none. A Run that was begun again since it was archived has a newer document.
pub(super) async fn archive(pool: &PgPool, cluster: &str, runs: &[ArchivedRun]) -> Result<(), Error> {
    fn column<T>(runs: &[ArchivedRun], of: impl Fn(&ArchivedRun) -> T) -> Vec<T> {
        runs.iter().map(of).collect()
    }
    sqlx::query(
        "INSERT INTO archived_run (cluster, uid, namespace, name, queue, username, phase, created_second, document)
         SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
                                  $9::jsonb[])
         ON CONFLICT (cluster, uid) DO UPDATE
         SET queue = excluded.queue, phase = excluded.phase, document = excluded.document",
    )
    .bind(cluster)
    .bind(column(runs, |run| run.uid.clone()))
    .bind(column(runs, |run| run.place.namespace.clone()))
    .bind(column(runs, |run| run.place.name.clone()))
    .bind(column(runs, |run| run.queue.clone()))
    .bind(column(runs, |run| run.user.clone()))
    .bind(column(runs, |run| run.phase.clone()))
    .bind(column(runs, |run| run.place.created_second))
    .bind(column(runs, |run| Json(run.document.clone())))
    .execute(pool)
    .await
    .map_err(Error::to("archive runs"))?;
    Ok(())
}
