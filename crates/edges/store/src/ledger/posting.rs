//! Brings accounts up to date: reads, folds, and appends the difference, a few accounts in one transaction.
//!
//! ```text
//!   lock due accounts ─► prices, nodes, pods, net lines, open rows ─► fold, post ─► Changes ─► write, next due
//! ```
//!
//! Everything is read after the accounts are locked. A transaction that changes a record also marks its
//! accounts. So we either read the change here, or its mark waits for our lock and comes after.

use std::collections::BTreeMap;
use std::sync::Arc;

use costing::{Account, Day, Fold, Line, Moment, NodeRecord, PodRecord, PriceBook, fold, post};
use sqlx::PgConnection;

use crate::Error;
use crate::rows::{get, get_line, line_columns};

use super::changes::Changes;
use super::due::next_due;
use super::locked::{Locked, position, source};
use super::values::Posted;
use super::{nodes, pods, prices};

/// The prices of a version, kept from one transaction to the next.
pub(crate) type Book = Option<(i64, Arc<PriceBook>)>;

/// Brings at most `accounts_max` accounts up to date, within a transaction.
pub(crate) async fn post_some(
    connection: &mut PgConnection,
    cluster: &str,
    now: Moment,
    accounts_max: u32,
    book: &mut Book,
) -> Result<Posted, Error> {
    let mut accounts = lock_due(connection, cluster, now, accounts_max).await?;
    if accounts.is_empty() {
        return Ok(Posted::default());
    }
    let prices = current_prices(connection, cluster, book).await?;
    let nodes = nodes_by_name(connection, cluster, &accounts).await?;
    let pods = pods_by_account(connection, cluster, &accounts).await?;
    read_lines(connection, cluster, &mut accounts).await?;

    let mut changes = Changes::default();
    for (locked, pods) in accounts.iter().zip(&pods) {
        let nodes = nodes.get(&locked.account.node).map_or(&[][..], Vec::as_slice);
        let Fold { closed, open, problems } = fold(&locked.account, nodes, pods, &prices, now);
        let net: Vec<Line> = locked.net.iter().map(|(_, line)| line.clone()).collect();
        let due = next_due(&locked.account, nodes, pods, &prices, now, !open.is_empty());
        changes.add(locked, post(&net, &closed), open, &problems, due)?;
    }
    changes.write(connection, cluster).await
}

async fn lock_due(
    connection: &mut PgConnection,
    cluster: &str,
    now: Moment,
    accounts_max: u32,
) -> Result<Vec<Locked>, Error> {
    // Accounts that another replica works on are skipped. The newest days come first: today's use must not wait
    // until a price change of years back is posted.
    let rows: Vec<(String, i32, i64)> = sqlx::query_as(
        "SELECT node, day - date '1970-01-01', next_sequence FROM account
         WHERE cluster = $1 AND due_at <= to_timestamp($2)
         ORDER BY day DESC, node LIMIT $3 FOR UPDATE SKIP LOCKED",
    )
    .bind(cluster)
    .bind(now.0)
    .bind(i64::from(accounts_max))
    .fetch_all(connection)
    .await
    .map_err(Error::to("lock due accounts"))?;
    let locked = |(node, day, next_sequence)| Locked {
        account: Account { node, day: Day(day) },
        next_sequence,
        net: Vec::new(),
        open: Vec::new(),
    };
    Ok(rows.into_iter().map(locked).collect())
}

async fn current_prices(
    connection: &mut PgConnection,
    cluster: &str,
    book: &mut Book,
) -> Result<Arc<PriceBook>, Error> {
    let Some(version) = prices::version(connection, cluster).await? else { return Ok(Arc::default()) };
    if let Some((number, known)) = book
        && *number == version.number
    {
        return Ok(known.clone());
    }
    let loaded = Arc::new(PriceBook::new(prices::load(connection, cluster, version.number).await?));
    *book = Some((version.number, loaded.clone()));
    Ok(loaded)
}

async fn nodes_by_name(
    connection: &mut PgConnection,
    cluster: &str,
    accounts: &[Locked],
) -> Result<BTreeMap<String, Vec<NodeRecord>>, Error> {
    let mut names: Vec<&str> = accounts.iter().map(|locked| locked.account.node.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut by_name: BTreeMap<String, Vec<NodeRecord>> = BTreeMap::new();
    for node in nodes::load_of_names(connection, cluster, &names).await? {
        by_name.entry(node.name.clone()).or_default().push(node);
    }
    Ok(by_name)
}

async fn pods_by_account(
    connection: &mut PgConnection,
    cluster: &str,
    accounts: &[Locked],
) -> Result<Vec<Vec<PodRecord>>, Error> {
    let names: Vec<&str> = accounts.iter().map(|locked| locked.account.node.as_str()).collect();
    let days: Vec<Day> = accounts.iter().map(|locked| locked.account.day).collect();
    let mut by_account: Vec<Vec<PodRecord>> = accounts.iter().map(|_| Vec::new()).collect();
    for (position, pod) in pods::load_of_accounts(connection, cluster, &names, &days).await? {
        by_account[position].push(pod);
    }
    Ok(by_account)
}

/// Fills in the lines that the ledger has for the accounts.
async fn read_lines(
    connection: &mut PgConnection,
    cluster: &str,
    accounts: &mut [Locked],
) -> Result<(), Error> {
    const NET: &str = concat!(
        "SELECT a.position, l.sequence, extract(epoch FROM l.from_time)::bigint AS from_time,
                extract(epoch FROM l.to_time)::bigint AS to_time, ",
        line_columns!(),
        " FROM unnest($2::text[], $3::int[]) WITH ORDINALITY AS a(account, account_day, position)
          CROSS JOIN LATERAL (
              SELECT * FROM ledger_line charge
              WHERE charge.day = date '1970-01-01' + a.account_day AND charge.source = a.account
                AND charge.cluster = $1 AND charge.reverses IS NULL
                AND NOT EXISTS (
                    SELECT FROM ledger_line reversal
                    WHERE reversal.day = date '1970-01-01' + a.account_day AND reversal.source = a.account
                      AND reversal.reverses = charge.sequence)
              OFFSET 0
          ) l"
    );
    const OPEN: &str = concat!(
        "SELECT a.position, o.id, extract(epoch FROM o.since)::bigint AS from_time,
                extract(epoch FROM o.since)::bigint AS to_time, ",
        line_columns!(),
        " FROM unnest($2::text[], $3::int[]) WITH ORDINALITY AS a(account_node, account_day, position)
          CROSS JOIN LATERAL (
              SELECT * FROM open_usage
              WHERE cluster = $1 AND node = a.account_node AND day = date '1970-01-01' + a.account_day
              OFFSET 0
          ) o"
    );
    let days: Vec<i32> = accounts.iter().map(|locked| locked.account.day.0).collect();
    let sources: Vec<String> = accounts.iter().map(|locked| source(cluster, &locked.account)).collect();
    let rows = sqlx::query(NET).bind(cluster).bind(sources).bind(&days).fetch_all(&mut *connection).await;
    for row in rows.map_err(Error::to("read ledger lines"))? {
        accounts[position(&row)?].net.push((get(&row, "sequence")?, get_line(&row)?));
    }
    let names: Vec<String> = accounts.iter().map(|locked| locked.account.node.clone()).collect();
    let rows = sqlx::query(OPEN).bind(cluster).bind(names).bind(&days).fetch_all(connection).await;
    for row in rows.map_err(Error::to("read open use"))? {
        accounts[position(&row)?].open.push((get(&row, "id")?, get_line(&row)?));
    }
    Ok(())
}
