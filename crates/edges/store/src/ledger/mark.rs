//! Marks accounts whose lines may not show everything that is recorded.

use std::collections::BTreeSet;

use costing::Day;
use sqlx::PgConnection;

use crate::Error;

use super::span::Span;

/// Accounts are made and changed for days of this month and the 23 before. An older node is charged from then
/// on, and older months may be archived. This is one month less than `ensure_ledger_partition` allows, so that
/// clocks may differ.
macro_rules! first_day_kept {
    () => {
        "(date_trunc('month', rolled_to::timestamp) - interval '23 months')::date"
    };
}

/// One writer of a cluster at a time: every transaction that records, rolls or sets prices takes this lock
/// first. So they cannot deadlock with each other, and posting takes no lock that they hold while they wait.
pub(crate) async fn lock_writer(connection: &mut PgConnection, cluster: &str) -> Result<(), Error> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('warpyard/writer/' || $1, 0))")
        .bind(cluster)
        .execute(&mut *connection)
        .await
        .map_err(Error::to("lock the ledger for writing"))?;
    // Prices that change from the beginning of time mark every account: 1,000 nodes × 730 days × 20 µs are 15
    // s, on an idle machine.
    sqlx::query("SET LOCAL statement_timeout = '5min'")
        .execute(connection)
        .await
        .map_err(Error::to("allow for a long statement"))?;
    Ok(())
}

/// Marks the accounts of these spans, and makes those that are missing, up to the day of the last roll. Before
/// the first roll it does nothing: the first roll looks at all records.
pub(crate) async fn mark(
    connection: &mut PgConnection,
    cluster: &str,
    spans: &BTreeSet<Span>,
) -> Result<(), Error> {
    const SQL: &str = concat!(
        "INSERT INTO account (cluster, node, day, due_at)
         SELECT DISTINCT $1, span.node, day::date, '-infinity'::timestamptz
         FROM meter_state
         CROSS JOIN unnest($2::text[], $3::int[], $4::int[]) AS span(node, first, last)
         CROSS JOIN LATERAL generate_series(
             greatest(date '1970-01-01' + span.first, ",
        first_day_kept!(),
        ")::timestamp,
             least(date '1970-01-01' + span.last, rolled_to)::timestamp,
             interval '1 day') AS day
         WHERE cluster = $1 AND rolled_to IS NOT NULL
         ORDER BY 2, 3
         ON CONFLICT (cluster, node, day) DO UPDATE SET due_at = excluded.due_at"
    );
    if spans.is_empty() {
        return Ok(());
    }
    sqlx::query(SQL)
        .bind(cluster)
        .bind(spans.iter().map(|span| span.node.as_str()).collect::<Vec<_>>())
        .bind(spans.iter().map(|span| span.first.0).collect::<Vec<_>>())
        .bind(spans.iter().map(|span| span.last.map(|day| day.0)).collect::<Vec<_>>())
        .execute(connection)
        .await
        .map_err(Error::to("mark accounts"))?;
    Ok(())
}

// An account is marked again even if it is marked already. The statement sees the row as it was when the
// statement began, and a post may be about to remove the mark. So the statement waits for each row.

/// Marks the accounts of these nodes that exist, from the first day of each span on.
pub(crate) async fn mark_existing(
    connection: &mut PgConnection,
    cluster: &str,
    spans: &BTreeSet<Span>,
) -> Result<(), Error> {
    const SQL: &str = concat!(
        "UPDATE account SET due_at = '-infinity'
         FROM meter_state, unnest($2::text[], $3::int[]) AS span(node, first)
         WHERE account.cluster = $1 AND meter_state.cluster = $1 AND account.node = span.node
           AND day >= greatest(date '1970-01-01' + span.first, ",
        first_day_kept!(),
        ")"
    );
    if spans.is_empty() {
        return Ok(());
    }
    sqlx::query(SQL)
        .bind(cluster)
        .bind(spans.iter().map(|span| span.node.as_str()).collect::<Vec<_>>())
        .bind(spans.iter().map(|span| span.first.0).collect::<Vec<_>>())
        .execute(connection)
        .await
        .map_err(Error::to("mark accounts"))?;
    Ok(())
}

/// Marks every account of this day and later ones.
pub(crate) async fn mark_since(connection: &mut PgConnection, cluster: &str, day: Day) -> Result<(), Error> {
    const SQL: &str = concat!(
        "UPDATE account SET due_at = '-infinity'
         FROM meter_state
         WHERE account.cluster = $1 AND meter_state.cluster = $1
           AND day >= greatest(date '1970-01-01' + $2, ",
        first_day_kept!(),
        ")"
    );
    // A day beyond the last possible date is later than every account.
    let day = day.0.clamp(0, 2_932_896);
    sqlx::query(SQL).bind(cluster).bind(day).execute(connection).await.map_err(Error::to("mark accounts"))?;
    Ok(())
}

/// Makes the accounts of the days since the last roll, for every node that lived then, and records the day. A
/// day up to the last roll changes nothing.
///
/// A node that was taken to be gone lived for as long as a pod certainly used it. This takes one look-up in an
/// index for each node that ever went: 100,000 × 20 µs are 2 s, once a day.
pub(crate) async fn roll(connection: &mut PgConnection, cluster: &str, today: Day) -> Result<(), Error> {
    const NOTE_THE_DAY: &str = "
        INSERT INTO meter_state AS old (cluster, rolled_to) VALUES ($1, date '1970-01-01' + $2)
        ON CONFLICT (cluster) DO UPDATE SET rolled_to = greatest(old.rolled_to, excluded.rolled_to)";
    const MAKE_ACCOUNTS: &str = concat!(
        "INSERT INTO account (cluster, node, day, due_at)
         SELECT DISTINCT $1, node_usage.name, day::date, '-infinity'::timestamptz
         FROM meter_state
         JOIN node_usage USING (cluster)
         CROSS JOIN LATERAL (
             SELECT max(pod.ended_at) AS used_until FROM pod_usage pod
             WHERE NOT node_usage.ended_certain AND pod.cluster = $1 AND pod.node = node_usage.name
               AND coalesce(pod.ended_at, 'infinity'::timestamptz) > to_timestamp($3) AND pod.ended_certain
         ) AS pods
         CROSS JOIN LATERAL (SELECT greatest(node_usage.ended_at, used_until) AS lived_until) AS life
         CROSS JOIN LATERAL generate_series(
             greatest((created_at AT TIME ZONE 'UTC')::date, date '1970-01-01' + $2 + 1, ",
        first_day_kept!(),
        ")::timestamp,
             least((lived_until AT TIME ZONE 'UTC')::date, rolled_to)::timestamp,
             interval '1 day') AS day
         WHERE cluster = $1 AND (lived_until IS NULL OR lived_until >= to_timestamp($3))
         ORDER BY 2, 3
         ON CONFLICT (cluster, node, day) DO UPDATE SET due_at = excluded.due_at"
    );
    let before = rolled_to(connection, cluster).await?;
    if before.is_some_and(|before| before >= today) {
        return Ok(());
    }
    sqlx::query(NOTE_THE_DAY)
        .bind(cluster)
        .bind(today.0)
        .execute(&mut *connection)
        .await
        .map_err(Error::to("note the day"))?;
    // Without an earlier roll: everything since 1970, limited by the first day kept.
    let before = before.unwrap_or(Day(-1));
    sqlx::query(MAKE_ACCOUNTS)
        .bind(cluster)
        .bind(before.0)
        .bind(before.end().0)
        .execute(&mut *connection)
        .await
        .map_err(Error::to("make the accounts of a day"))?;
    Ok(())
}

async fn rolled_to(connection: &mut PgConnection, cluster: &str) -> Result<Option<Day>, Error> {
    let day: Option<Option<i32>> =
        sqlx::query_scalar("SELECT rolled_to - date '1970-01-01' FROM meter_state WHERE cluster = $1")
            .bind(cluster)
            .fetch_optional(connection)
            .await
            .map_err(Error::to("read the day rolled to"))?;
    Ok(day.flatten().map(Day))
}
