//! The ledger's rows, read as plain SQL.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use num_bigint::BigInt;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Row};

/// The bill in the ledger.
#[derive(Debug, Default)]
pub struct Bill {
    /// Lines that are charged and not reversed.
    pub lines: Vec<BilledLine>,
    /// What goes on.
    pub open: Vec<OpenUse>,
    /// When nodes are taken to have ended, by UID.
    pub node_ends: BTreeMap<String, i64>,
    /// Names of machines that we bought, by UID: of their Nodes, and of their claims while there was no Node.
    pub bought: BTreeMap<String, String>,
    /// Rows of the ledger, reversed ones and reversals included.
    pub rows: usize,
    /// Sum of all rows: reversals are negative.
    pub amount: BigInt,
    /// Sum of the daily sums.
    pub daily_amount: BigInt,
    /// The number of problems that folds found.
    pub problems: i64,
    /// Pods without a certain end.
    pub uncertain: i64,
}

/// One line.
#[derive(Clone, Debug)]
pub struct BilledLine {
    /// The pod; `None` for the rest of the node.
    pub pod_uid: Option<String>,
    /// The node's life.
    pub node_uid: String,
    /// `Productive`, `Starting`, `Lost`, `NodeStarting`, `NodeIdle`.
    pub class: String,
    /// The first second.
    pub from: i64,
    /// The first second after.
    pub to: i64,
    /// GPUs times seconds.
    pub gpu_seconds: i64,
    /// Money, in the ledger's units; `None` without a price.
    pub amount: Option<BigInt>,
    /// Run, attempt, queue and user.
    pub said: [Option<String>; 4],
}

/// What goes on.
#[derive(Clone, Debug)]
pub struct OpenUse {
    /// The node's life.
    pub node_uid: String,
    /// Since when.
    pub since: i64,
    /// Money per second, in the ledger's units.
    pub rate: Option<BigInt>,
}

impl Bill {
    /// Reads everything in one snapshot, with the meter's role.
    pub async fn read(meter_url: &str) -> anyhow::Result<Self> {
        let mut connection = PgConnection::connect(meter_url).await.context("failed to reach the ledger")?;
        let mut snapshot = connection.begin().await?;
        sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            .execute(&mut *snapshot)
            .await?;
        let rows = sqlx::query(
            "SELECT source, sequence, reverses, pod_uid, node_uid, class,
                    extract(epoch FROM from_time)::bigint AS from_second,
                    extract(epoch FROM to_time)::bigint AS to_second,
                    gpu_seconds, amount::text AS amount, run, attempt::text AS attempt, queue, username
             FROM ledger_line ORDER BY pod_uid, from_time, sequence",
        )
        .fetch_all(&mut *snapshot)
        .await
        .context("failed to read the ledger's lines")?;
        let reversed: BTreeSet<(String, i64)> = rows
            .iter()
            .filter_map(|row| Some((row.get("source"), row.get::<Option<i64>, _>("reverses")?)))
            .collect();
        let mut bill = Self { rows: rows.len(), ..Self::default() };
        for row in &rows {
            if let Some(amount) = integer(row, "amount")? {
                bill.amount += amount;
            }
            let is_reversal = row.get::<Option<i64>, _>("reverses").is_some();
            if !is_reversal && !reversed.contains(&(row.get("source"), row.get("sequence"))) {
                bill.lines.push(line(row)?);
            }
        }
        let open = sqlx::query(
            "SELECT node_uid, extract(epoch FROM since)::bigint AS since, rate::text AS rate FROM open_usage",
        );
        for row in open.fetch_all(&mut *snapshot).await.context("failed to read what goes on")? {
            let rate = integer(&row, "rate")?;
            bill.open.push(OpenUse { node_uid: row.get("node_uid"), since: row.get("since"), rate });
        }
        let ends =
            "SELECT uid, extract(epoch FROM ended_at)::bigint FROM node_usage WHERE ended_at IS NOT NULL";
        let ends =
            sqlx::query_as(ends).fetch_all(&mut *snapshot).await.context("failed to read ends of nodes")?;
        bill.node_ends = ends.into_iter().collect();
        let bought = sqlx::query_as("SELECT uid, name FROM node_usage WHERE bought IS NOT NULL");
        let bought = bought.fetch_all(&mut *snapshot).await.context("failed to read what was bought")?;
        bill.bought = bought.into_iter().collect();
        let sums = sqlx::query(
            "SELECT (SELECT coalesce(sum(amount), 0)::text FROM daily_spend) AS daily,
                    (SELECT count(*) FROM problem) AS problems,
                    (SELECT count(*) FROM pod_usage WHERE ended_certain IS NOT TRUE) AS uncertain",
        )
        .fetch_one(&mut *snapshot)
        .await
        .context("failed to read the ledger's sums")?;
        bill.daily_amount = integer(&sums, "daily")?.unwrap_or_default();
        bill.problems = sums.get("problems");
        bill.uncertain = sums.get("uncertain");
        Ok(bill)
    }

    /// Pods that are recorded.
    pub async fn recorded_pods(meter_url: &str) -> anyhow::Result<i64> {
        count(meter_url, "SELECT count(*) FROM pod_usage").await
    }

    /// Accounts whose lines do not show everything that is known: what ended in this second shows in the next.
    pub async fn due_accounts(meter_url: &str) -> anyhow::Result<i64> {
        count(meter_url, "SELECT count(*) FROM account WHERE due_at <= now() + interval '3 seconds'").await
    }
}

async fn count(meter_url: &str, sql: &'static str) -> anyhow::Result<i64> {
    let mut connection = PgConnection::connect(meter_url).await.context("failed to reach the ledger")?;
    Ok(sqlx::query(sql).fetch_one(&mut connection).await.with_context(|| format!("failed to {sql}"))?.get(0))
}

fn line(row: &PgRow) -> anyhow::Result<BilledLine> {
    Ok(BilledLine {
        pod_uid: row.get("pod_uid"),
        node_uid: row.get("node_uid"),
        class: row.get("class"),
        from: row.get("from_second"),
        to: row.get("to_second"),
        gpu_seconds: row.get("gpu_seconds"),
        amount: integer(row, "amount")?,
        said: ["run", "attempt", "queue", "username"].map(|name| row.get(name)),
    })
}

fn integer(row: &PgRow, name: &str) -> anyhow::Result<Option<BigInt>> {
    let text: Option<String> = row.get(name);
    text.map(|text| text.parse().with_context(|| format!("{name} is {text}, not an integer"))).transpose()
}
