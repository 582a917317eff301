//! Sums by a key.

use costing::{Amount, Moment};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::Error;
use crate::open::open_seconds;
use crate::rows::{amount, get};

use super::answers::{Grouping, ReportQuery, ReportRow};

/// The columns that every sum has, over rows of `spent`.
pub(super) const SUMS: &str = "
    coalesce(sum(amount), 0)::numeric(38, 0)::text AS amount,
    coalesce(sum(rate), 0)::numeric(38, 0)::text AS rate,
    coalesce(sum(saved), 0)::numeric(38, 0)::text AS saved,
    coalesce(sum(interruptions), 0)::numeric(38, 0)::text AS interruptions,
    coalesce(sum(gpu_seconds), 0)::bigint AS gpu_seconds,
    coalesce(sum(unpriced_gpu_seconds), 0)::bigint AS unpriced_gpu_seconds";

/// The columns that open use adds to posted sums, until the moment `$2`.
pub(super) const OPEN_COLUMNS: &str = "
    rate * seconds AS amount, rate, saved_rate * seconds AS saved,
    CASE WHEN of_interruption THEN rate * seconds END AS interruptions, gpus * seconds AS gpu_seconds,
    CASE WHEN rate IS NULL THEN gpus * seconds ELSE 0 END AS unpriced_gpu_seconds, 1 AS lines";

/// `open_usage`, with how long each row has been open at the moment `$2`.
pub(super) const OPEN_SO_FAR: &str =
    concat!("open_usage CROSS JOIN LATERAL (SELECT ", open_seconds!("$2"), " AS seconds) AS so_far");

const FILTERS: &str = "
    cluster = $1 AND day >= date '1970-01-01' + $3 AND day < date '1970-01-01' + $4
    AND ($5::text IS NULL OR namespace = $5)
    AND ($6::text[] IS NULL OR queue = ANY($6))
    AND ($7::text IS NULL OR username = $7)";

/// One page, the sum of all pages, and whether there are more, in one pass over the rows.
pub(super) async fn report(
    connection: &mut PgConnection,
    cluster: &str,
    query: &ReportQuery,
    now: Moment,
) -> Result<(Vec<ReportRow>, ReportRow, bool), Error> {
    let (table, key) = source(query.by);
    let run = if query.by == Grouping::Run { "run" } else { "NULL::text AS run" };
    // A row whose lines are all reversed (`lines` is 0) counts as absent.
    let sql = format!(
        r#"SELECT * FROM (
               SELECT key, grouping(key) = 1 AS is_total, {SUMS}
               FROM (
                   SELECT {key} AS key, amount, rate, saved, interruptions, gpu_seconds, unpriced_gpu_seconds, lines
                   FROM (
                       SELECT day, namespace, queue, username, class, {run}, amount, NULL::numeric AS rate,
                              saved, interruptions, gpu_seconds, unpriced_gpu_seconds, lines
                       FROM {table} WHERE {FILTERS}
                       UNION ALL
                       SELECT day, namespace, queue, username, class, {run}, {OPEN_COLUMNS}
                       FROM {OPEN_SO_FAR} WHERE {FILTERS}
                   ) AS used
               ) AS spent
               GROUP BY GROUPING SETS ((key), ()) HAVING sum(lines) <> 0 OR grouping(key) = 1
           ) AS summed
           WHERE is_total
              OR CASE $8 WHEN 'all' THEN true WHEN 'keys' THEN key IS NOT NULL ELSE key COLLATE "C" > $9 END
           ORDER BY is_total DESC, key COLLATE "C" NULLS FIRST LIMIT $10"#
    );
    let (after, last_key) = match &query.after {
        None => ("all", None),
        Some(None) => ("keys", None),
        Some(Some(key)) => ("after", Some(key.as_str())),
    };
    let rows = bind_filters(sql, cluster, query, now)
        .bind(after)
        .bind(last_key)
        // The total, and one more than asked for, which tells that there are more.
        .bind(i64::from(query.limit) + 2)
        .fetch_all(connection)
        .await
        .map_err(Error::to("sum what was spent"))?;
    let (total, rows) = rows.split_first().ok_or_else(|| Error::Corrupt("a sum without a total".into()))?;
    let limit = query.limit as usize;
    let page = rows.iter().take(limit).map(|row| Ok(ReportRow { key: get(row, "key")?, ..sums(row)? }));
    Ok((page.collect::<Result<_, Error>>()?, sums(total)?, rows.len() > limit))
}

/// Reads [`SUMS`].
pub(super) fn sums(row: &PgRow) -> Result<ReportRow, Error> {
    let money = |column| -> Result<Amount, Error> { amount(get::<&str>(row, column)?) };
    Ok(ReportRow {
        key: None,
        amount: money("amount")?,
        rate: money("rate")?,
        saved: money("saved")?,
        interruptions: money("interruptions")?,
        gpu_seconds: get(row, "gpu_seconds")?,
        unpriced_gpu_seconds: get(row, "unpriced_gpu_seconds")?,
    })
}

/// The table with the posted part of a grouping, and its key. Only `run_spend` has runs; `daily_spend` has far
/// fewer rows.
fn source(by: Grouping) -> (&'static str, &'static str) {
    match by {
        Grouping::Run => ("run_spend", "namespace || '/' || run"),
        Grouping::User => ("daily_spend", "username"),
        Grouping::Queue => ("daily_spend", "queue"),
        Grouping::Namespace => ("daily_spend", "namespace"),
        Grouping::Day => ("daily_spend", "to_char(day::timestamp, 'YYYY-MM-DD')"),
        Grouping::Class => ("daily_spend", "class"),
    }
}

/// Binds `$1` to `$7`. The SQL consists only of this file's constants.
fn bind_filters<'q>(
    sql: String,
    cluster: &'q str,
    query: &'q ReportQuery,
    now: Moment,
) -> sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments> {
    sqlx::query(AssertSqlSafe(sql))
        .bind(cluster)
        .bind(now.0)
        .bind(query.since.0)
        .bind(query.until.0)
        .bind(query.namespace.as_deref())
        .bind(query.queues.as_deref())
        .bind(query.user.as_deref())
}
