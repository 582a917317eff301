//! The rows that a round of posting adds to the ledger, gathered from its accounts and written with a few
//! statements.

use std::collections::{BTreeMap, BTreeSet};

use costing::{Account, Day, Line, Moment, OpenLine, Posting, Problem};
use sqlx::PgConnection;

use crate::Error;
use crate::rows::LineColumns;

use super::locked::{self, Locked, source};
use super::spend::Spend;
use super::values::Posted;

/// The rows to write.
#[derive(Default)]
pub(crate) struct Changes {
    accounts: Vec<(Account, i64, Option<Moment>)>,
    lines: Vec<NewLine>,
    open_gone: Vec<i64>,
    open_new: Vec<(Account, Line)>,
    problems: Vec<(Account, Problem)>,
    spend: Spend,
}

struct NewLine {
    account: Account,
    sequence: i64,
    line: Line,
    /// The sequence number of the charge that it takes back.
    reverses: Option<i64>,
}

impl Changes {
    /// Adds the rows of one account.
    pub(crate) fn add(
        &mut self,
        locked: &Locked,
        postings: Vec<Posting>,
        open: Vec<OpenLine>,
        problems: &[Problem],
        due: Option<Moment>,
    ) -> Result<(), Error> {
        let account = &locked.account;
        let mut sequence = locked.next_sequence;
        let mut charged: BTreeMap<&Line, Vec<i64>> = BTreeMap::new();
        for (sequence, line) in &locked.net {
            charged.entry(line).or_default().push(*sequence);
        }
        for posting in postings {
            let (line, reverses) = match posting {
                Posting::Charge(line) => (line, None),
                Posting::Reverse(line) => {
                    let charge = charged.get_mut(&line).and_then(Vec::pop);
                    let missing = || Error::Corrupt(format!("a reversal without a charge in {account:?}"));
                    (line, Some(charge.ok_or_else(missing)?))
                }
            };
            self.spend.add(account.day, &line, reverses.is_some());
            self.lines.push(NewLine { account: account.clone(), sequence, line, reverses });
            sequence += 1;
        }
        self.replace_open(locked, open);
        self.problems.extend(problems.iter().map(|problem| (account.clone(), problem.clone())));
        self.accounts.push((account.clone(), sequence, due));
        Ok(())
    }

    /// Rows that stay the same are not written again.
    fn replace_open(&mut self, locked: &Locked, open: Vec<OpenLine>) {
        let mut rows: BTreeMap<Line, Vec<i64>> = BTreeMap::new();
        for (id, line) in &locked.open {
            rows.entry(line.clone()).or_default().push(*id);
        }
        for OpenLine { line } in open {
            let line = Line { to: line.from, ..line };
            if rows.get_mut(&line).and_then(Vec::pop).is_none() {
                self.open_new.push((locked.account.clone(), line));
            }
        }
        self.open_gone.extend(rows.into_values().flatten());
    }

    /// Writes all rows.
    pub(crate) async fn write(self, connection: &mut PgConnection, cluster: &str) -> Result<Posted, Error> {
        let reversals = self.lines.iter().filter(|line| line.reverses.is_some()).count() as u64;
        let posted = Posted {
            accounts: self.accounts.len() as u64,
            charges: self.lines.len() as u64 - reversals,
            reversals,
            problems: self.problems.len() as u64,
        };
        self.append_lines(connection, cluster).await?;
        self.write_open(connection, cluster).await?;
        self.spend.write(connection, cluster).await?;
        write_problems(connection, cluster, &self.accounts, &self.problems).await?;
        write_accounts(connection, cluster, &self.accounts).await?;
        Ok(posted)
    }

    async fn append_lines(&self, connection: &mut PgConnection, cluster: &str) -> Result<(), Error> {
        const SQL: &str = "
            INSERT INTO ledger_line (day, source, sequence, cluster, node, node_uid, pod_uid, class, from_time,
                to_time, gpus, namespace, pod, run, attempt, queue, username, rate, amount, gpu_seconds, reverses,
                saved_rate)
            SELECT date '1970-01-01' + day, source, sequence, $1, node, node_uid, pod_uid, class,
                   to_timestamp(from_time), to_timestamp(to_time), gpus, namespace, pod, run, attempt, queue,
                   username, rate::numeric, rate::numeric * seconds, gpus * seconds, reverses, saved_rate::numeric
            FROM unnest($2::int[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[],
                        $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::text[],
                        $15::bigint[], $16::text[], $17::text[], $18::text[], $19::bigint[], $20::text[])
                 AS new(day, source, sequence, node, node_uid, pod_uid, class, from_time, to_time, gpus, namespace,
                        pod, run, attempt, queue, username, rate, reverses, saved_rate)
            CROSS JOIN LATERAL (
                SELECT (to_time - from_time) * CASE WHEN reverses IS NULL THEN 1 ELSE -1 END AS seconds
            ) AS signed";
        if self.lines.is_empty() {
            return Ok(());
        }
        let days: BTreeSet<i32> = self.lines.iter().map(|line| line.account.day.0).collect();
        ensure_partitions(connection, &days.into_iter().collect::<Vec<_>>()).await?;
        let mut columns = LineColumns::default();
        self.lines.iter().for_each(|new| columns.push(&new.line));
        sqlx::query(SQL)
            .bind(cluster)
            .bind(self.lines.iter().map(|new| new.account.day.0).collect::<Vec<_>>())
            .bind(self.lines.iter().map(|new| source(cluster, &new.account)).collect::<Vec<_>>())
            .bind(self.lines.iter().map(|new| new.sequence).collect::<Vec<_>>())
            .bind(self.lines.iter().map(|new| new.account.node.as_str()).collect::<Vec<_>>())
            .bind(columns.node_uid)
            .bind(columns.pod_uid)
            .bind(columns.class)
            .bind(columns.from)
            .bind(columns.to)
            .bind(columns.gpus)
            .bind(columns.namespace)
            .bind(columns.pod)
            .bind(columns.run)
            .bind(columns.attempt)
            .bind(columns.queue)
            .bind(columns.user)
            .bind(columns.rate)
            .bind(self.lines.iter().map(|new| new.reverses).collect::<Vec<_>>())
            .bind(columns.saved_rate)
            .execute(connection)
            .await
            .map_err(Error::to("append ledger lines"))?;
        Ok(())
    }

    async fn write_open(&self, connection: &mut PgConnection, cluster: &str) -> Result<(), Error> {
        const SQL: &str = "
            INSERT INTO open_usage (cluster, node, day, node_uid, pod_uid, class, since, gpus, namespace, pod, run,
                                    attempt, queue, username, rate, saved_rate, of_interruption)
            SELECT $1, node, date '1970-01-01' + day, node_uid, pod_uid, class, to_timestamp(since), gpus, namespace,
                   pod, run, attempt, queue, username, rate::numeric, saved_rate::numeric, of_interruption
            FROM unnest($2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[],
                        $9::text[], $10::text[], $11::text[], $12::bigint[], $13::text[], $14::text[], $15::text[],
                        $16::text[], $17::boolean[])
                 AS new(node, day, node_uid, pod_uid, class, since, gpus, namespace, pod, run, attempt, queue,
                        username, rate, saved_rate, of_interruption)";
        if !self.open_gone.is_empty() {
            sqlx::query("DELETE FROM open_usage WHERE id = ANY($1)")
                .bind(&self.open_gone)
                .execute(&mut *connection)
                .await
                .map_err(Error::to("remove open use"))?;
        }
        if self.open_new.is_empty() {
            return Ok(());
        }
        let mut columns = LineColumns::default();
        self.open_new.iter().for_each(|(_, line)| columns.push(line));
        sqlx::query(SQL)
            .bind(cluster)
            .bind(self.open_new.iter().map(|(account, _)| account.node.as_str()).collect::<Vec<_>>())
            .bind(self.open_new.iter().map(|(account, _)| account.day.0).collect::<Vec<_>>())
            .bind(columns.node_uid)
            .bind(columns.pod_uid)
            .bind(columns.class)
            .bind(columns.from)
            .bind(columns.gpus)
            .bind(columns.namespace)
            .bind(columns.pod)
            .bind(columns.run)
            .bind(columns.attempt)
            .bind(columns.queue)
            .bind(columns.user)
            .bind(columns.rate)
            .bind(columns.saved_rate)
            .bind(self.open_new.iter().map(|(_, line)| line.is_of_interruption()).collect::<Vec<_>>())
            .execute(connection)
            .await
            .map_err(Error::to("write open use"))?;
        Ok(())
    }
}

/// Makes the partitions of these days, if they are missing.
pub(crate) async fn ensure_partitions(connection: &mut PgConnection, days: &[i32]) -> Result<(), Error> {
    // One call for each month, not for each day.
    sqlx::query(
        "SELECT ensure_ledger_partition(month) FROM (
             SELECT DISTINCT date_trunc('month', (date '1970-01-01' + day)::timestamp)::date AS month
             FROM unnest($1::int[]) AS day
         ) AS months",
    )
    .bind(days)
    .execute(connection)
    .await
    .map_err(Error::to("make a month's partition"))?;
    Ok(())
}

async fn write_problems(
    connection: &mut PgConnection,
    cluster: &str,
    accounts: &[(Account, i64, Option<Moment>)],
    problems: &[(Account, Problem)],
) -> Result<(), Error> {
    sqlx::query(
        "DELETE FROM problem USING unnest($2::text[], $3::int[]) AS a(account_node, account_day)
         WHERE cluster = $1 AND node = account_node AND day = date '1970-01-01' + account_day",
    )
    .bind(cluster)
    .bind(accounts.iter().map(|(account, ..)| account.node.as_str()).collect::<Vec<_>>())
    .bind(accounts.iter().map(|(account, ..)| account.day.0).collect::<Vec<_>>())
    .execute(&mut *connection)
    .await
    .map_err(Error::to("remove mended problems"))?;
    if problems.is_empty() {
        return Ok(());
    }
    let parts = |problem: &Problem| match problem {
        Problem::Overcommitted { from, to } => ("Overcommitted", None, Some(from.0), Some(to.0)),
        Problem::OutsideNode { pod_uid } => ("OutsideNode", Some(pod_uid.clone()), None, None),
    };
    sqlx::query(
        "INSERT INTO problem (cluster, node, day, kind, pod_uid, from_time, to_time)
         SELECT $1, node, date '1970-01-01' + day, kind, pod_uid, to_timestamp(from_time), to_timestamp(to_time)
         FROM unnest($2::text[], $3::int[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
              AS new(node, day, kind, pod_uid, from_time, to_time)",
    )
    .bind(cluster)
    .bind(problems.iter().map(|(account, _)| account.node.as_str()).collect::<Vec<_>>())
    .bind(problems.iter().map(|(account, _)| account.day.0).collect::<Vec<_>>())
    .bind(problems.iter().map(|(_, problem)| parts(problem).0).collect::<Vec<_>>())
    .bind(problems.iter().map(|(_, problem)| parts(problem).1).collect::<Vec<_>>())
    .bind(problems.iter().map(|(_, problem)| parts(problem).2).collect::<Vec<_>>())
    .bind(problems.iter().map(|(_, problem)| parts(problem).3).collect::<Vec<_>>())
    .execute(connection)
    .await
    .map_err(Error::to("note problems"))?;
    Ok(())
}

async fn write_accounts(
    connection: &mut PgConnection,
    cluster: &str,
    accounts: &[(Account, i64, Option<Moment>)],
) -> Result<(), Error> {
    sqlx::query(
        "UPDATE account SET next_sequence = new.next_sequence, due_at = to_timestamp(new.due_at)
         FROM unnest($2::text[], $3::int[], $4::bigint[], $5::bigint[]) AS new(node, day, next_sequence, due_at)
         WHERE account.cluster = $1 AND account.node = new.node AND account.day = date '1970-01-01' + new.day",
    )
    .bind(cluster)
    .bind(accounts.iter().map(|(account, ..)| account.node.as_str()).collect::<Vec<_>>())
    .bind(accounts.iter().map(|(account, ..)| account.day.0).collect::<Vec<_>>())
    .bind(accounts.iter().map(|(_, sequence, _)| *sequence).collect::<Vec<_>>())
    .bind(accounts.iter().map(|(.., due)| due.map(|at| at.0)).collect::<Vec<_>>())
    .execute(connection)
    .await
    .map_err(Error::to("bring accounts up to date"))?;
    Ok(())
}

/// Days of one month and of the month after it, one of each.
pub(crate) fn this_and_next_month(today: Day) -> [i32; 2] {
    let date = locked::date(today);
    let next = date.last_of_month().tomorrow().unwrap_or(date);
    // The next month begins at most 31 days from today.
    [today.0, today.0 + (next - date).get_days()]
}
