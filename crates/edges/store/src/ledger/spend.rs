//! Sums that are updated with the lines, in the same transaction: `daily_spend` and `run_spend`.

use std::collections::BTreeMap;

use costing::{Amount, Attribution, Day, Line};
use sqlx::PgConnection;

use crate::Error;
use crate::rows::class_name;

/// The amounts by which the sums grow. Ordered, so that two posts that touch the same rows lock them in the
/// same order.
#[derive(Default)]
pub(crate) struct Spend {
    daily: BTreeMap<DailyKey, Sums>,
    runs: BTreeMap<RunKey, Sums>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct DailyKey {
    day: Day,
    namespace: Option<String>,
    queue: Option<String>,
    user: Option<String>,
    class: &'static str,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RunKey {
    run: Option<String>,
    attempt: Option<u32>,
    of: DailyKey,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    amount: Amount,
    saved: Amount,
    interruptions: Amount,
    gpu_seconds: i64,
    unpriced_gpu_seconds: i64,
    lines: i64,
}

impl Spend {
    /// Adds a line of an account of this day, or takes it back.
    pub(crate) fn add(&mut self, day: Day, line: &Line, is_reversal: bool) {
        let sign = if is_reversal { -1 } else { 1 };
        let amount = line.amount().unwrap_or_default() * sign;
        let sums = Sums {
            amount,
            saved: line.saved() * sign,
            interruptions: if line.is_of_interruption() { amount } else { Amount::ZERO },
            gpu_seconds: line.gpu_seconds() * sign,
            unpriced_gpu_seconds: if line.rate.is_none() { line.gpu_seconds() * sign } else { 0 },
            lines: sign,
        };
        let Attribution { namespace, run, attempt, queue, user, pod: _ } = &line.attribution;
        let key = || DailyKey {
            day,
            namespace: namespace.clone(),
            queue: queue.clone(),
            user: user.clone(),
            class: class_name(line.class),
        };
        self.daily.entry(key()).or_default().add(sums);
        self.runs.entry(RunKey { run: run.clone(), attempt: *attempt, of: key() }).or_default().add(sums);
    }

    /// Adds to the tables.
    pub(crate) async fn write(&self, connection: &mut PgConnection, cluster: &str) -> Result<(), Error> {
        const DAILY: &str = "
            INSERT INTO daily_spend AS old (cluster, day, namespace, queue, username, class,
                                            amount, saved, interruptions, gpu_seconds, unpriced_gpu_seconds, lines)
            SELECT $1, date '1970-01-01' + day, namespace, queue, username, class, amount::numeric,
                   saved::numeric, interruptions::numeric, gpu_seconds, unpriced_gpu_seconds, lines
            FROM unnest($2::int[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                        $9::text[], $10::bigint[], $11::bigint[], $12::bigint[])
                 AS new(day, namespace, queue, username, class, amount, saved, interruptions, gpu_seconds,
                        unpriced_gpu_seconds, lines)
            ON CONFLICT (cluster, day, namespace, queue, username, class) DO UPDATE SET
                amount = old.amount + excluded.amount, saved = old.saved + excluded.saved,
                interruptions = old.interruptions + excluded.interruptions,
                gpu_seconds = old.gpu_seconds + excluded.gpu_seconds,
                unpriced_gpu_seconds = old.unpriced_gpu_seconds + excluded.unpriced_gpu_seconds,
                lines = old.lines + excluded.lines";
        const RUNS: &str = "
            INSERT INTO run_spend AS old (cluster, day, namespace, queue, username, class, run, attempt,
                                          amount, saved, interruptions, gpu_seconds, unpriced_gpu_seconds, lines)
            SELECT $1, date '1970-01-01' + day, namespace, queue, username, class, run, attempt, amount::numeric,
                   saved::numeric, interruptions::numeric, gpu_seconds, unpriced_gpu_seconds, lines
            FROM unnest($2::int[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                        $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[])
                 AS new(day, namespace, queue, username, class, amount, saved, interruptions, gpu_seconds,
                        unpriced_gpu_seconds, lines, run, attempt)
            ON CONFLICT (cluster, namespace, run, attempt, day, queue, username, class) DO UPDATE SET
                amount = old.amount + excluded.amount, saved = old.saved + excluded.saved,
                interruptions = old.interruptions + excluded.interruptions,
                gpu_seconds = old.gpu_seconds + excluded.gpu_seconds,
                unpriced_gpu_seconds = old.unpriced_gpu_seconds + excluded.unpriced_gpu_seconds,
                lines = old.lines + excluded.lines";
        if self.daily.is_empty() {
            return Ok(());
        }
        bind_common(DAILY, cluster, &self.daily.iter().collect::<Vec<_>>())
            .execute(&mut *connection)
            .await
            .map_err(Error::to("add to the sums of days"))?;
        bind_common(RUNS, cluster, &self.runs.iter().map(|(key, sums)| (&key.of, sums)).collect::<Vec<_>>())
            .bind(self.runs.keys().map(|key| key.run.clone()).collect::<Vec<_>>())
            .bind(self.runs.keys().map(|key| key.attempt.map(i64::from)).collect::<Vec<_>>())
            .execute(connection)
            .await
            .map_err(Error::to("add to the sums of runs"))?;
        Ok(())
    }
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.amount += other.amount;
        self.saved += other.saved;
        self.interruptions += other.interruptions;
        self.gpu_seconds += other.gpu_seconds;
        self.unpriced_gpu_seconds += other.unpriced_gpu_seconds;
        self.lines += other.lines;
    }
}

type Query<'a> = sqlx::query::Query<'a, sqlx::Postgres, sqlx::postgres::PgArguments>;

/// The columns that both tables have: $1 to $12.
fn bind_common<'q>(sql: &'static str, cluster: &'q str, rows: &[(&DailyKey, &Sums)]) -> Query<'q> {
    let keys = || rows.iter().map(|(key, _)| *key);
    let sums = || rows.iter().map(|(_, sums)| *sums);
    sqlx::query(sql)
        .bind(cluster)
        .bind(keys().map(|key| key.day.0).collect::<Vec<_>>())
        .bind(keys().map(|key| key.namespace.clone()).collect::<Vec<_>>())
        .bind(keys().map(|key| key.queue.clone()).collect::<Vec<_>>())
        .bind(keys().map(|key| key.user.clone()).collect::<Vec<_>>())
        .bind(keys().map(|key| key.class).collect::<Vec<_>>())
        .bind(sums().map(|sums| sums.amount.0.to_string()).collect::<Vec<_>>())
        .bind(sums().map(|sums| sums.saved.0.to_string()).collect::<Vec<_>>())
        .bind(sums().map(|sums| sums.interruptions.0.to_string()).collect::<Vec<_>>())
        .bind(sums().map(|sums| sums.gpu_seconds).collect::<Vec<_>>())
        .bind(sums().map(|sums| sums.unpriced_gpu_seconds).collect::<Vec<_>>())
        .bind(sums().map(|sums| sums.lines).collect::<Vec<_>>())
}
