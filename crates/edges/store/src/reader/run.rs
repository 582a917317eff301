//! The cost of one Run.

use std::collections::BTreeMap;

use costing::{Class, Moment};
use sqlx::{AssertSqlSafe, PgConnection};

use crate::Error;
use crate::rows::{class, get, get_attempt};

use super::answers::{ReportRow, RunCost};
use super::report::{OPEN_COLUMNS, OPEN_SO_FAR, SUMS, sums};

/// The spend of one attempt in one class.
pub(super) struct Part {
    class: Class,
    attempt: Option<u32>,
    spent: ReportRow,
}

pub(super) async fn parts(
    connection: &mut PgConnection,
    cluster: &str,
    namespace: &str,
    run: &str,
    now: Moment,
) -> Result<Vec<Part>, Error> {
    const FILTERS: &str = "cluster = $1 AND namespace = $3 AND run = $4";
    let sql = format!(
        "SELECT class, attempt, {SUMS}
         FROM (
             SELECT class, attempt, amount, NULL::numeric AS rate, saved, interruptions, gpu_seconds,
                    unpriced_gpu_seconds, lines
             FROM run_spend WHERE {FILTERS}
             UNION ALL
             SELECT class, attempt, {OPEN_COLUMNS} FROM {OPEN_SO_FAR} WHERE {FILTERS}
         ) AS spent
         GROUP BY class, attempt HAVING sum(lines) <> 0"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(cluster)
        .bind(now.0)
        .bind(namespace)
        .bind(run)
        .fetch_all(connection)
        .await
        .map_err(Error::to("sum what a run spent"))?;
    let part =
        |row| Ok(Part { class: class(get(row, "class")?)?, attempt: get_attempt(row)?, spent: sums(row)? });
    rows.iter().map(part).collect()
}

/// The parts summed by class and by attempt.
pub(super) fn cost(currency: Option<String>, parts: Vec<Part>) -> RunCost {
    let mut total = ReportRow::default();
    let mut classes: BTreeMap<Class, ReportRow> = BTreeMap::new();
    let mut attempts: BTreeMap<u32, ReportRow> = BTreeMap::new();
    for Part { class, attempt, spent } in parts {
        total.add(&spent);
        classes.entry(class).or_default().add(&spent);
        if let Some(attempt) = attempt {
            attempts.entry(attempt).or_default().add(&spent);
        }
    }
    RunCost {
        currency,
        total,
        classes: classes.into_iter().collect(),
        attempts: attempts.into_iter().collect(),
    }
}

impl ReportRow {
    fn add(&mut self, other: &Self) {
        self.amount += other.amount;
        self.rate += other.rate;
        self.saved += other.saved;
        self.interruptions += other.interruptions;
        self.gpu_seconds += other.gpu_seconds;
        self.unpriced_gpu_seconds += other.unpriced_gpu_seconds;
    }
}
