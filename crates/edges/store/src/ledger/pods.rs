//! Rows of `pod_usage`.

use costing::{Day, End, Moment, PodRecord};
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;

use crate::Error;
use crate::rows::{get, get_attempt, get_end, get_moment, get_moment_if_any, get_u32, is_certain};

use super::changed::Changed;
use super::values::LostUse;

macro_rules! pod_columns {
    () => {
        "p.uid, p.namespace, p.name, p.node, p.run, p.attempt, p.queue, p.username, p.gpus, p.cpu_millis,
         extract(epoch FROM p.scheduled_at)::bigint AS scheduled_at,
         extract(epoch FROM p.started_at)::bigint AS started_at,
         extract(epoch FROM p.ended_at)::bigint AS ended_at, p.ended_certain,
         extract(epoch FROM p.lost_from)::bigint AS lost_from, p.events"
    };
}

/// The pods with these UIDs, each with the number of its events.
pub(crate) async fn load(
    connection: &mut PgConnection,
    cluster: &str,
    uids: &[&str],
) -> Result<Vec<(PodRecord, i64)>, Error> {
    const SQL: &str =
        concat!("SELECT ", pod_columns!(), " FROM pod_usage p WHERE p.cluster = $1 AND p.uid = ANY($2)");
    let rows = sqlx::query(SQL).bind(cluster).bind(uids).fetch_all(connection).await;
    let rows = rows.map_err(Error::to("read pods"))?;
    rows.iter().map(|row| Ok((pod(row)?, get(row, "events")?))).collect()
}

/// Pods without an end, in the order of UIDs.
pub(crate) async fn load_open(connection: &mut PgConnection, cluster: &str) -> Result<Vec<PodRecord>, Error> {
    const SQL: &str = concat!(
        "SELECT ",
        pod_columns!(),
        " FROM pod_usage p WHERE p.cluster = $1 AND p.ended_at IS NULL ORDER BY p.uid COLLATE \"C\""
    );
    let rows = sqlx::query(SQL).bind(cluster).fetch_all(connection).await;
    rows.map_err(Error::to("read open pods"))?.iter().map(pod).collect()
}

/// The pods of these attempts that lost more than is recorded, with the new loss.
pub(crate) async fn load_lost(
    connection: &mut PgConnection,
    cluster: &str,
    lost: &[LostUse],
) -> Result<Vec<PodRecord>, Error> {
    const SQL: &str = concat!(
        "SELECT a.lost, ",
        pod_columns!(),
        " FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS a(namespace, run, attempt, lost)
          JOIN pod_usage p ON p.cluster = $1 AND p.namespace = a.namespace AND p.run = a.run AND p.attempt = a.attempt
          WHERE (p.lost_from IS NULL OR p.lost_from > to_timestamp(a.lost))
            AND (p.ended_at IS NULL OR p.ended_at > to_timestamp(a.lost))"
    );
    let rows = sqlx::query(SQL)
        .bind(cluster)
        .bind(lost.iter().map(|it| it.namespace.as_str()).collect::<Vec<_>>())
        .bind(lost.iter().map(|it| it.run.as_str()).collect::<Vec<_>>())
        .bind(lost.iter().map(|it| i64::from(it.attempt)).collect::<Vec<_>>())
        .bind(lost.iter().map(|it| it.from.0).collect::<Vec<_>>())
        .fetch_all(connection)
        .await;
    let rows = rows.map_err(Error::to("read the pods of attempts"))?;
    let with_loss = |row| Ok(PodRecord { lost_from: get_moment_if_any(row, "lost")?, ..pod(row)? });
    rows.iter().map(with_loss).collect()
}

/// The pods that were on these nodes on these days, each with the position of its account.
pub(crate) async fn load_of_accounts(
    connection: &mut PgConnection,
    cluster: &str,
    nodes: &[&str],
    days: &[Day],
) -> Result<Vec<(usize, PodRecord)>, Error> {
    // LATERAL with OFFSET 0 makes it one look-up in the index for each account, whatever the planner guesses.
    const SQL: &str = concat!(
        "SELECT a.position, ",
        pod_columns!(),
        " FROM unnest($2::text[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS a(node, starts, ends, position)
          CROSS JOIN LATERAL (
              SELECT * FROM pod_usage
              WHERE cluster = $1 AND node = a.node
                AND coalesce(ended_at, 'infinity'::timestamptz) > to_timestamp(a.starts)
                AND scheduled_at < to_timestamp(a.ends)
              OFFSET 0
          ) p"
    );
    let starts: Vec<i64> = days.iter().map(|day| day.start().0).collect();
    let ends: Vec<i64> = days.iter().map(|day| day.end().0).collect();
    let rows = sqlx::query(SQL).bind(cluster).bind(nodes).bind(starts).bind(ends).fetch_all(connection).await;
    let rows = rows.map_err(Error::to("read the pods of accounts"))?;
    rows.iter().map(|row| Ok((super::locked::position(row)?, pod(row)?))).collect()
}

/// For each of these nodes that a pod certainly used beyond its moment: its position, and until when.
pub(crate) async fn used_beyond(
    connection: &mut PgConnection,
    cluster: &str,
    nodes: &[(&str, Moment)],
) -> Result<Vec<(usize, Moment)>, Error> {
    const SQL: &str = "
        SELECT a.position, extract(epoch FROM p.used_until)::bigint AS used_until
        FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS a(node, gone, position)
        CROSS JOIN LATERAL (
            SELECT max(ended_at) AS used_until FROM pod_usage
            WHERE cluster = $1 AND node = a.node AND ended_certain
              AND coalesce(ended_at, 'infinity'::timestamptz) > to_timestamp(a.gone)
        ) p
        WHERE p.used_until IS NOT NULL";
    let (names, gone): (Vec<&str>, Vec<i64>) = nodes.iter().map(|(name, gone)| (*name, gone.0)).unzip();
    let rows = sqlx::query(SQL).bind(cluster).bind(names).bind(gone).fetch_all(connection).await;
    let rows = rows.map_err(Error::to("read until when nodes were used"))?;
    rows.iter().map(|row| Ok((super::locked::position(row)?, get_moment(row, "used_until")?))).collect()
}

/// Writes what changed.
pub(crate) async fn write(
    connection: &mut PgConnection,
    cluster: &str,
    changed: &[Changed<PodRecord>],
) -> Result<(), Error> {
    const SQL: &str = "
        INSERT INTO pod_usage (cluster, uid, namespace, name, node, run, attempt, queue, username, gpus, cpu_millis,
                               scheduled_at, started_at, ended_at, ended_certain, events, lost_from)
        SELECT $1, uid, namespace, name, node, run, attempt, queue, username, gpus, cpu_millis,
               to_timestamp(scheduled_at), to_timestamp(started_at), to_timestamp(ended_at), ended_certain, events,
               to_timestamp(lost_from)
        FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[],
                    $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::boolean[],
                    $16::bigint[], $17::bigint[])
            AS new(uid, namespace, name, node, run, attempt, queue, username, gpus, cpu_millis, scheduled_at,
                   started_at, ended_at, ended_certain, events, lost_from)
        ON CONFLICT (cluster, uid) DO UPDATE SET
            namespace = excluded.namespace, name = excluded.name, node = excluded.node, run = excluded.run,
            attempt = excluded.attempt, queue = excluded.queue, username = excluded.username, gpus = excluded.gpus,
            cpu_millis = excluded.cpu_millis, scheduled_at = excluded.scheduled_at,
            started_at = excluded.started_at, ended_at = excluded.ended_at,
            ended_certain = excluded.ended_certain, events = excluded.events, lost_from = excluded.lost_from";
    let column =
        |of: fn(&PodRecord) -> String| -> Vec<String> { changed.iter().map(|c| of(&c.now)).collect() };
    let if_any = |of: fn(&PodRecord) -> Option<String>| -> Vec<Option<String>> {
        changed.iter().map(|c| of(&c.now)).collect()
    };
    let number = |of: fn(&PodRecord) -> i64| -> Vec<i64> { changed.iter().map(|c| of(&c.now)).collect() };
    let number_if_any = |of: fn(&PodRecord) -> Option<i64>| -> Vec<Option<i64>> {
        changed.iter().map(|c| of(&c.now)).collect()
    };
    sqlx::query(SQL)
        .bind(cluster)
        .bind(column(|pod| pod.uid.clone()))
        .bind(column(|pod| pod.namespace.clone()))
        .bind(column(|pod| pod.name.clone()))
        .bind(column(|pod| pod.node.clone()))
        .bind(if_any(|pod| pod.run.clone()))
        .bind(number_if_any(|pod| pod.attempt.map(i64::from)))
        .bind(if_any(|pod| pod.queue.clone()))
        .bind(if_any(|pod| pod.user.clone()))
        .bind(number(|pod| pod.gpus.into()))
        .bind(number(|pod| pod.cpu_millis))
        .bind(number(|pod| pod.scheduled_at.0))
        .bind(number_if_any(|pod| pod.started_at.map(|at| at.0)))
        .bind(number_if_any(|pod| pod.ended.map(|end| end.at().0)))
        .bind(changed.iter().map(|c| c.now.ended.map(is_certain)).collect::<Vec<_>>())
        .bind(changed.iter().map(|c| c.events).collect::<Vec<_>>())
        .bind(number_if_any(|pod| pod.lost_from.map(|at| at.0)))
        .execute(connection)
        .await
        .map_err(Error::to("record pods"))?;
    Ok(())
}

/// A pod as `usage_event` keeps it.
pub(crate) fn to_json(pod: &PodRecord) -> Value {
    json!({
        "uid": pod.uid,
        "namespace": pod.namespace,
        "name": pod.name,
        "node": pod.node,
        "run": pod.run,
        "attempt": pod.attempt,
        "queue": pod.queue,
        "user": pod.user,
        "gpus": pod.gpus,
        "cpuMillis": pod.cpu_millis,
        "scheduledAt": pod.scheduled_at.0,
        "startedAt": pod.started_at.map(|at| at.0),
        "endedAt": pod.ended.map(|end| end.at().0),
        "endedCertain": pod.ended.map(is_certain),
        "lostFrom": pod.lost_from.map(|at| at.0),
    })
}

fn pod(row: &PgRow) -> Result<PodRecord, Error> {
    let ended: Option<End> = get_end(row)?;
    Ok(PodRecord {
        uid: get(row, "uid")?,
        namespace: get(row, "namespace")?,
        name: get(row, "name")?,
        node: get(row, "node")?,
        run: get(row, "run")?,
        attempt: get_attempt(row)?,
        queue: get(row, "queue")?,
        user: get(row, "username")?,
        gpus: get_u32(row, "gpus")?,
        cpu_millis: get(row, "cpu_millis")?,
        scheduled_at: get_moment(row, "scheduled_at")?,
        started_at: get_moment_if_any(row, "started_at")?,
        ended,
        lost_from: get_moment_if_any(row, "lost_from")?,
    })
}
