//! Runs that were removed from the cluster after they ended.

use sqlx::{AssertSqlSafe, PgConnection};

use crate::Error;

/// The place of a run in lists: newest first, then by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// When it was submitted, in seconds since 1970.
    pub created_second: i64,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Which archived runs.
#[derive(Clone, Debug, Default)]
pub struct ArchiveQuery {
    /// Only of these namespaces.
    pub namespaces: Option<Vec<String>>,
    /// Only of this queue.
    pub queue: Option<String>,
    /// Only those that ended so.
    pub phase: Option<String>,
    /// Only those that this user submitted.
    pub user: Option<String>,
    /// Only those whose name contains this.
    pub search: Option<String>,
    /// Only those after this place.
    pub after: Option<Place>,
    /// At most this many.
    pub limit: u32,
}

const FILTERS: &str = "
    cluster = $1
    AND ($3::text IS NULL OR queue = $3)
    AND ($4::text IS NULL OR phase = $4)
    AND ($5::text IS NULL OR username = $5)
    AND ($6::text IS NULL OR strpos(name, $6) > 0)
    AND created_second <= coalesce($7, 9223372036854775807)
    AND ($7::bigint IS NULL OR created_second < $7 OR (namespace, name) > ($8, $9))";

const NEWEST_FIRST: &str = "ORDER BY created_second DESC, namespace, name LIMIT $10";

/// The documents of one page. Each of several namespaces is asked for its newest runs by its own index, so that a
/// page of a small one does not read the runs of all others.
pub(super) async fn runs(
    connection: &mut PgConnection,
    cluster: &str,
    query: &ArchiveQuery,
) -> Result<Vec<serde_json::Value>, Error> {
    let keys = match &query.namespaces {
        None => {
            format!("SELECT uid FROM archived_run WHERE $2::text[] IS NULL AND {FILTERS} {NEWEST_FIRST}")
        }
        Some(_) => format!(
            "SELECT found.uid
             FROM unnest($2::text[]) AS wanted (wanted_namespace)
             CROSS JOIN LATERAL (
                 SELECT uid, created_second, namespace, name FROM archived_run
                 WHERE namespace = wanted_namespace AND {FILTERS} {NEWEST_FIRST}
             ) AS found
             {NEWEST_FIRST}"
        ),
    };
    let sql = format!(
        "SELECT document FROM archived_run
         WHERE cluster = $1 AND uid = ANY (ARRAY({keys}))
         ORDER BY created_second DESC, namespace, name"
    );
    let after = query.after.as_ref();
    sqlx::query_scalar(AssertSqlSafe(sql))
        .bind(cluster)
        .bind(query.namespaces.as_deref())
        .bind(query.queue.as_deref())
        .bind(query.phase.as_deref())
        .bind(query.user.as_deref())
        .bind(query.search.as_deref())
        .bind(after.map(|place| place.created_second))
        .bind(after.map(|place| place.namespace.as_str()))
        .bind(after.map(|place| place.name.as_str()))
        .bind(i64::from(query.limit))
        .fetch_all(connection)
        .await
        .map_err(Error::to("list archived runs"))
}

/// The newest run of this name.
pub(super) async fn run(
    connection: &mut PgConnection,
    cluster: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<serde_json::Value>, Error> {
    sqlx::query_scalar(
        "SELECT document FROM archived_run WHERE cluster = $1 AND namespace = $2 AND name = $3
         ORDER BY created_second DESC LIMIT 1",
    )
    .bind(cluster)
    .bind(namespace)
    .bind(name)
    .fetch_optional(connection)
    .await
    .map_err(Error::to("read an archived run"))
}

/// Every namespace with an archived run. Each step looks one up in the index; reading all runs would take seconds.
pub(super) async fn namespaces(connection: &mut PgConnection, cluster: &str) -> Result<Vec<String>, Error> {
    sqlx::query_scalar(
        "WITH RECURSIVE found AS (
             SELECT min(namespace) AS namespace FROM archived_run WHERE cluster = $1
             UNION ALL
             SELECT (SELECT min(namespace) FROM archived_run WHERE cluster = $1 AND namespace > found.namespace)
             FROM found WHERE found.namespace IS NOT NULL
         )
         SELECT namespace FROM found WHERE namespace IS NOT NULL",
    )
    .bind(cluster)
    .fetch_all(connection)
    .await
    .map_err(Error::to("list the namespaces of archived runs"))
}
