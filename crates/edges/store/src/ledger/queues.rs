//! The spend of queues.

use costing::{Day, Moment};
use sqlx::PgConnection;

use crate::Error;
use crate::open::open_seconds;
use crate::rows::amount;

use super::values::QueueSpend;

/// Queues that spent anything, in the order of names.
pub(crate) async fn spend(
    connection: &mut PgConnection,
    cluster: &str,
    since: Day,
    now: Moment,
) -> Result<Vec<QueueSpend>, Error> {
    const SQL: &str = concat!(
        "SELECT queue, coalesce(sum(amount), 0)::numeric(38, 0)::text, sum(gpu_seconds)::bigint
         FROM (
             SELECT queue, amount, gpu_seconds FROM daily_spend
             WHERE cluster = $1 AND day >= date '1970-01-01' + $2 AND queue IS NOT NULL
             UNION ALL
             SELECT queue, rate * seconds, gpus * seconds
             FROM open_usage CROSS JOIN LATERAL (SELECT ",
        open_seconds!("$3"),
        " AS seconds) AS so_far
             WHERE cluster = $1 AND day >= date '1970-01-01' + $2 AND queue IS NOT NULL
         ) AS spent
         GROUP BY queue ORDER BY queue COLLATE \"C\""
    );
    let rows: Vec<(String, String, i64)> = sqlx::query_as(SQL)
        .bind(cluster)
        .bind(since.0)
        .bind(now.0)
        .fetch_all(connection)
        .await
        .map_err(Error::to("sum what queues spent"))?;
    rows.into_iter()
        .map(|(queue, money, gpu_seconds)| Ok(QueueSpend { queue, amount: amount(&money)?, gpu_seconds }))
        .collect()
}
