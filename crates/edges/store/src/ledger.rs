//! The meter's side of the ledger, with the meter's role.
//!
//! ```text
//!   record ─► join with pod_usage, node_usage ─► usage_event ─► span: which days? ─┐
//!   set_prices ─► price versions ──────────────────────────────────────────────────┼─► mark: account.due_at
//!   roll ─► partitions, the accounts of a new day ─────────────────────────────────┘
//!   post ─► due accounts, in batches ─► fold ─► ledger_line, open_usage, daily_spend, run_spend, problem
//! ```
//!
//! Every method is one or more whole transactions. A method that fails half-way has done some of them and none
//! in part, and may be repeated. Two replicas may run any of them at once.

mod archive;
mod changed;
mod changes;
mod due;
mod locked;
mod mark;
mod nodes;
mod pods;
mod posting;
pub(crate) mod prices;
mod queues;
mod record;
mod span;
mod spend;
mod values;

pub use archive::ArchivedRun;
pub use values::{Batch, LostUse, Posted, QueueSpend};

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use costing::{Day, Moment, NodeRecord, PodRecord, Price};
use sqlx::{PgPool, PgTransaction};

use crate::Error;
use crate::connect::{self, Limits};

const LIMITS: Limits = Limits {
    connections_max: 4,
    acquire_timeout: Duration::from_secs(5),
    statement_timeout: Duration::from_secs(30),
    read_only: false,
};

/// Accounts that one transaction brings up to date. A busy account has some hundred lines of about 300 bytes,
/// so this is some megabytes at most. One commit for all of them keeps the disk's work per account small.
const ACCOUNTS_PER_TRANSACTION: u32 = 32;

/// The ledger of one cluster, opened for writing.
#[derive(Clone, Debug)]
pub struct Ledger {
    pool: PgPool,
    cluster: Arc<str>,
    known: Arc<Mutex<Known>>,
}

/// What we know and need not read again.
#[derive(Debug, Default)]
struct Known {
    book: posting::Book,
    /// A day to which we have rolled.
    rolled_to: Option<Day>,
}

impl Ledger {
    /// Opens a small pool (at most 4 connections; 5 s to get one; statement timeout 30 s). Does not wait for
    /// the database: the first use fails if it cannot be reached. Needs a tokio runtime around it.
    pub fn open(meter_url: &str, cluster: &str) -> Result<Self, Error> {
        let pool = connect::pool(meter_url, "warpyard-meter", &LIMITS)?;
        Ok(Self { pool, cluster: cluster.into(), known: Arc::default() })
    }

    /// Joins the batch with what is recorded, appends what changed to `usage_event`, and marks the accounts that it
    /// touches, in one transaction. The same batch twice changes nothing.
    pub async fn record(&self, batch: &Batch) -> Result<(), Error> {
        if batch.pods.is_empty() && batch.nodes.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin_writing().await?;
        record::record(&mut transaction, &self.cluster, batch).await?;
        transaction.commit().await.map_err(Error::to("commit what was recorded"))
    }

    /// Records what attempts lost, on their recorded pods, and marks the accounts that it touches, in one
    /// transaction. The same twice changes nothing, and a loss is never taken back. Pass 1,000 at a time.
    pub async fn record_lost(&self, lost: &[LostUse]) -> Result<(), Error> {
        if lost.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin_writing().await?;
        record::record_lost(&mut transaction, &self.cluster, lost).await?;
        transaction.commit().await.map_err(Error::to("commit what was lost"))
    }

    /// Writes Runs that have ended, all of them or none. The same Run twice is one row. Pass 100 at a time.
    pub async fn archive(&self, runs: &[ArchivedRun]) -> Result<(), Error> {
        if runs.is_empty() {
            return Ok(());
        }
        archive::archive(&self.pool, &self.cluster, runs).await
    }

    /// Sets all prices, if they differ from the recorded ones, and marks every account from the earliest moment
    /// at which a price changed. Returns whether anything changed.
    pub async fn set_prices(&self, currency: &str, prices: &[Price]) -> Result<bool, Error> {
        let mut transaction = self.begin_writing().await?;
        let changed = prices::set(&mut transaction, &self.cluster, currency, prices).await?;
        transaction.commit().await.map_err(Error::to("commit prices"))?;
        Ok(changed)
    }

    /// Brings at most `accounts_max` due accounts up to date, each within one transaction; call again while it
    /// returns as many. At `now` open use is cut: earlier seconds are past, later ones go on. Rolls to its day
    /// first, if that was not done.
    pub async fn post(&self, now: Moment, accounts_max: u32) -> Result<Posted, Error> {
        if self.known(|known| known.rolled_to) < Some(now.day()) {
            self.roll(now.day()).await?;
        }
        let mut posted = Posted::default();
        let mut accounts_left = accounts_max;
        while accounts_left > 0 {
            let wanted = accounts_left.min(ACCOUNTS_PER_TRANSACTION);
            let some = self.post_some(now, wanted).await?;
            posted.add(some);
            if some.accounts < u64::from(wanted) {
                break;
            }
            accounts_left -= wanted;
        }
        Ok(posted)
    }

    /// Makes sure that the partitions of this and the next month exist, and makes the accounts of `today` (and of
    /// days missed) for the nodes that live on into it. Call at start and whenever the day changes.
    pub async fn roll(&self, today: Day) -> Result<(), Error> {
        let mut transaction = self.begin_writing().await?;
        changes::ensure_partitions(&mut transaction, &changes::this_and_next_month(today)).await?;
        mark::roll(&mut transaction, &self.cluster, today).await?;
        transaction.commit().await.map_err(Error::to("commit a new day"))?;
        self.known(|known| known.rolled_to = known.rolled_to.max(Some(today)));
        Ok(())
    }

    /// Recorded pods without an end.
    pub async fn open_pods(&self) -> Result<Vec<PodRecord>, Error> {
        let mut connection = self.pool.acquire().await.map_err(Error::to("connect"))?;
        pods::load_open(&mut connection, &self.cluster).await
    }

    /// The records of these pods, where there are any. Ask for 1,000 at a time.
    pub async fn recorded_pods(&self, uids: &[&str]) -> Result<Vec<PodRecord>, Error> {
        let mut connection = self.pool.acquire().await.map_err(Error::to("connect"))?;
        let loaded = pods::load(&mut connection, &self.cluster, uids).await?;
        Ok(loaded.into_iter().map(|(pod, _)| pod).collect())
    }

    /// Recorded nodes without an end.
    pub async fn open_nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        let mut connection = self.pool.acquire().await.map_err(Error::to("connect"))?;
        nodes::load_open(&mut connection, &self.cluster).await
    }

    /// Records that the meter has seen everything up to now. The time never goes back.
    pub async fn note_alive(&self, now: Moment) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO meter_state AS old (cluster, alive_until) VALUES ($1, to_timestamp($2))
             ON CONFLICT (cluster) DO UPDATE SET alive_until = greatest(old.alive_until, excluded.alive_until)",
        )
        .bind(&*self.cluster)
        .bind(now.0)
        .execute(&self.pool)
        .await
        .map_err(Error::to("note that the meter is alive"))?;
        Ok(())
    }

    /// Until when the meter is known to have seen everything.
    pub async fn last_alive(&self) -> Result<Option<Moment>, Error> {
        let at: Option<Option<i64>> = sqlx::query_scalar(
            "SELECT extract(epoch FROM alive_until)::bigint FROM meter_state WHERE cluster = $1",
        )
        .bind(&*self.cluster)
        .fetch_optional(&self.pool)
        .await
        .map_err(Error::to("read until when the meter was alive"))?;
        Ok(at.flatten().map(Moment))
    }

    /// The spend of each queue itself, without the queues below it, from `since` until `now`, with open use, in
    /// the order of names; and the currency, once prices are set.
    pub async fn queue_spend(
        &self,
        since: Day,
        now: Moment,
    ) -> Result<(Option<String>, Vec<QueueSpend>), Error> {
        let mut connection = self.pool.acquire().await.map_err(Error::to("connect"))?;
        let version = prices::version(&mut connection, &self.cluster).await?;
        let queues = queues::spend(&mut connection, &self.cluster, since, now).await?;
        Ok((version.map(|version| version.currency), queues))
    }

    async fn post_some(&self, now: Moment, accounts_max: u32) -> Result<Posted, Error> {
        let mut book = self.known(|known| known.book.clone());
        let mut transaction = self.pool.begin().await.map_err(Error::to("begin to post"))?;
        let posted =
            posting::post_some(&mut transaction, &self.cluster, now, accounts_max, &mut book).await?;
        transaction.commit().await.map_err(Error::to("commit what was posted"))?;
        self.known(|known| known.book = book);
        Ok(posted)
    }

    /// A transaction that excludes the other writers of this cluster.
    async fn begin_writing(&self) -> Result<PgTransaction<'static>, Error> {
        let mut transaction = self.pool.begin().await.map_err(Error::to("begin to write"))?;
        mark::lock_writer(&mut transaction, &self.cluster).await?;
        Ok(transaction)
    }

    fn known<T>(&self, with: impl FnOnce(&mut Known) -> T) -> T {
        with(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Posted {
    fn add(&mut self, other: Self) {
        self.accounts += other.accounts;
        self.charges += other.charges;
        self.reversals += other.reversals;
        self.problems += other.problems;
    }
}
