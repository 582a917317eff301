//! The loop that writes: dirty records go into the ledger, then pods are released, then the spend of queues is
//! written.
//!
//! ```text
//!   ledger reachable? ─► its open records ─► compared with lists ─► ┌► record ─► prices ─► post ─► alive ───────┐
//!                         ▲ again every five minutes                └── at most twice a second ◄── let pods go ◄┘
//! ```

use std::time::Duration;

use costing::Moment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, PartialObjectMeta};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use service_kit::backoff;
use slim_objects::Readable;
use std::collections::BTreeSet;
use store::{Batch, Ledger};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{error, info, warn};

use super::machine::NodeClaim;
use super::watching::{Meter, lock, now};
use super::{finalizer, queues, spend};

/// Time between two flushes: events within it go into one transaction.
const PACE: Duration = Duration::from_millis(500);
/// Without events, the ledger is told this often that nothing happened.
const IDLE: Duration = Duration::from_secs(5);
/// Time between two reads of the spend of queues.
const SPEND_PACE: Duration = Duration::from_secs(10);
/// Time between two comparisons of open records with the cluster. A meter that was paused while another took
/// over may have recorded something as open that had ended. A comparison reads all open records: 100,000 pods
/// are 50 MB.
const COMPARE_PACE: Duration = Duration::from_mins(5);
/// The time that one flush may post. If there is more, such as a price change of years back, the next flush
/// goes on, so that new events are still recorded, pods released and spend written.
const POST_MAX: Duration = Duration::from_secs(2);
/// The limit of one flush: a database that hangs does not say so. Recorded batches are not repeated, so a flush
/// of any size completes after several tries.
const FLUSH_MAX: Duration = Duration::from_mins(2);
/// The wait after a first failure; it doubles with each further one, up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// The longest wait between two tries.
const RETRY_MAX: Duration = Duration::from_secs(10);
/// After this many refusals in a row, about ten seconds, somebody must act. A database whose schema is being
/// created refuses too.
const REFUSALS_TOLD: u32 = 5;
/// Accounts that are brought up to date by one call; each is a transaction of a few milliseconds.
const ACCOUNTS_MAX: u32 = 64;
/// Objects per page of a list of names.
const PAGE: u32 = 500;
/// Pods in one question to the ledger: about 500 bytes each.
const ASKED_MAX: usize = 1_000;

/// Writes for ever. Dropped when the process stops: the next process sees again what was not written.
pub async fn run(meter: &Meter, client: &kube::Client, ledger: &Ledger) {
    let mut writer =
        Writer { meter, client, ledger, opened: None, sheets_version: 0, told_last: None, failing_for: 0 };
    let mut next = Instant::now();
    loop {
        sleep_until(next).await;
        let began = Instant::now();
        let done = match timeout(FLUSH_MAX, writer.flush()).await {
            Ok(done) => done,
            Err(_) => Err(Error::Slow),
        };
        // Not only after a success: pods that never had a node need no ledger.
        writer.release().await;
        match done {
            Ok(left) => {
                writer.recovered();
                if left == Left::Nothing {
                    // An error means that nothing happened, which the ledger must know too.
                    let _ = timeout(IDLE, meter.wake.notified()).await;
                }
                next = began + PACE;
            }
            Err(error) => {
                let wait = writer.failed(&error);
                next = Instant::now() + wait;
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Ledger(#[from] store::Error),
    #[error("the ledger gave no answer for {FLUSH_MAX:?}")]
    Slow,
    #[error("failed to list what exists")]
    List(#[source] Box<kube::Error>),
}

/// Whether due accounts are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Accounts,
}

/// The ledger's open records were compared with the cluster.
#[derive(Clone, Copy, Debug)]
struct Opened {
    /// When a meter had last seen everything. Objects that vanished before our first lists are taken to have
    /// ended then.
    unseen_since: Moment,
    compared_last: Instant,
}

struct Writer<'a> {
    meter: &'a Meter,
    client: &'a kube::Client,
    ledger: &'a Ledger,
    opened: Option<Opened>,
    /// The version of the price sheets that the ledger has.
    sheets_version: u64,
    /// When the spend of queues was last written, and the last queue written.
    told_last: Option<(Instant, String)>,
    failing_for: u32,
}

impl Writer<'_> {
    async fn flush(&mut self) -> Result<Left, Error> {
        self.open().await?;
        let seen = now();
        let sight = *self.meter.sight.borrow();
        self.record().await?;
        self.record_lost().await?;
        self.set_prices().await?;
        let left = self.post().await?;
        if !sight.pods.broken && !sight.nodes.broken {
            self.ledger.note_alive(seen).await?;
            lock(&self.meter.state).seen_until(seen);
        }
        self.meter.metrics.flushed(seen);
        self.tell_queues(seen).await?;
        Ok(left)
    }

    /// Compares the ledger's open records with the cluster, at the start and from time to time.
    async fn open(&mut self) -> Result<(), Error> {
        let unseen_since = match self.opened {
            Some(opened) if opened.compared_last.elapsed() < COMPARE_PACE => return Ok(()),
            Some(opened) => opened.unseen_since,
            None => self.ledger.last_alive().await?.unwrap_or_else(now),
        };
        self.compare(unseen_since).await?;
        if self.opened.is_none() {
            self.take_queues().await?;
            info!("Metering.");
        }
        self.opened = Some(Opened { unseen_since, compared_last: Instant::now() });
        Ok(())
    }

    /// Waits for the lists, and finds the objects that vanished unseen.
    async fn compare(&self, unseen_since: Moment) -> Result<(), Error> {
        let nodes = self.ledger.open_nodes().await?;
        let pods = self.ledger.open_pods().await?;
        let mut sight = self.meter.sight.subscribe();
        // The sender lives as long as the meter.
        let listed = sight.wait_for(|it| it.pods.listed && it.nodes.listed && it.queues.listed).await;
        drop(listed);
        let mut vanished = {
            let mut state = lock(&self.meter.state);
            state.seen_until(unseen_since);
            state.in_ledger(Batch { pods, nodes })
        };
        if !vanished.pods.is_empty() {
            let existing = uids::<Pod>(self.client).await?;
            vanished.pods.retain(|pod| !existing.contains(&pod.uid));
        }
        if !vanished.nodes.is_empty() {
            let mut existing = uids::<Node>(self.client).await?;
            // For machines without a Node, the claims are compared.
            match uids::<NodeClaim>(self.client).await {
                Ok(claims) => existing.extend(claims),
                Err(Error::List(error)) if is_absent(&error) => {}
                Err(error) => return Err(error),
            }
            vanished.nodes.retain(|node| !existing.contains(&node.uid));
        }
        if !vanished.pods.is_empty() || !vanished.nodes.is_empty() {
            warn!(
                pods = vanished.pods.len(),
                nodes = vanished.nodes.len(),
                ?unseen_since,
                "Vanished unseen; taken to have ended when a meter last saw everything."
            );
        }
        lock(&self.meter.state).vanished(vanished, unseen_since);
        Ok(())
    }

    /// Pods without a queue label keep the queue that they have in the ledger.
    async fn take_queues(&self) -> Result<(), Error> {
        let without = lock(&self.meter.state).pods_without_queue();
        for some in without.chunks(ASKED_MAX) {
            let uids: Vec<&str> = some.iter().map(String::as_str).collect();
            let pods = self.ledger.recorded_pods(&uids).await?;
            lock(&self.meter.state).in_ledger(Batch { pods, nodes: Vec::new() });
        }
        Ok(())
    }

    async fn record(&self) -> Result<(), Error> {
        loop {
            let batch = {
                let queues = lock(&self.meter.queues);
                lock(&self.meter.state).batch(|namespace| queues.default_of(namespace))
            };
            if batch.pods.is_empty() && batch.nodes.is_empty() {
                return Ok(());
            }
            self.ledger.record(&batch).await?;
            let dirty = {
                let mut state = lock(&self.meter.state);
                state.recorded(&batch);
                state.dirty_count()
            };
            self.meter.metrics.dirty(dirty);
        }
    }

    /// After everything else: losses are recorded on pods that are in the ledger.
    async fn record_lost(&self) -> Result<(), Error> {
        loop {
            let some = lock(&self.meter.lost).batch(ASKED_MAX);
            if some.is_empty() {
                return Ok(());
            }
            self.ledger.record_lost(&some).await?;
            lock(&self.meter.lost).recorded(&some);
        }
    }

    async fn set_prices(&mut self) -> Result<(), Error> {
        let Some((version, prices)) = lock(&self.meter.sheets).news(self.sheets_version) else {
            return Ok(());
        };
        for left_out in &prices.left_out {
            error!(sheet = %left_out.sheet, why = %left_out.why, "A price sheet is left out.");
        }
        self.meter.metrics.left_out(prices.left_out.len());
        // Without any sheet there is no currency; the ledger then keeps its prices.
        if let Some(currency) = &prices.currency
            && self.ledger.set_prices(currency, &prices.prices).await?
        {
            info!(%currency, prices = prices.prices.len(), "Prices have changed.");
        }
        self.sheets_version = version;
        Ok(())
    }

    async fn post(&self) -> Result<Left, Error> {
        let began = Instant::now();
        loop {
            let posted = self.ledger.post(now(), ACCOUNTS_MAX).await?;
            self.meter.metrics.posted(&posted);
            if posted.problems > 0 {
                warn!(problems = posted.problems, "The bill has problems: see the ledger's table `problem`.");
            }
            if posted.accounts < u64::from(ACCOUNTS_MAX) {
                return Ok(Left::Nothing);
            }
            if began.elapsed() >= POST_MAX {
                return Ok(Left::Accounts);
            }
        }
    }

    async fn tell_queues(&mut self, seen: Moment) -> Result<(), Error> {
        let (told_at, after) = self.told_last.clone().unzip();
        if told_at.is_some_and(|at| at.elapsed() < SPEND_PACE) {
            return Ok(());
        }
        let (first_day, month) = queues::month_of(seen.day());
        let (currency, spent) = self.ledger.queue_spend(first_day, seen).await?;
        let mut last = after.unwrap_or_default();
        if let Some(currency) = currency {
            let news = lock(&self.meter.queues).news(&spent, &currency, month);
            for (name, spend) in spend::write(self.client, news, &last).await {
                last.clone_from(&name);
                lock(&self.meter.queues).written(&name, spend);
            }
        }
        self.told_last = Some((Instant::now(), last));
        Ok(())
    }

    async fn release(&self) {
        let held = lock(&self.meter.state).releasable();
        for pod in finalizer::release(self.client, held).await {
            lock(&self.meter.state).released(&pod);
        }
    }

    /// Logs a failure of the ledger once; returns how long to wait.
    fn failed(&mut self, error: &Error) -> Duration {
        self.meter.metrics.failed();
        self.failing_for = self.failing_for.saturating_add(1);
        let wait = backoff::wait(RETRY_FIRST, RETRY_MAX, self.failing_for);
        let cause = std::error::Error::source(error).map(ToString::to_string);
        let is_refused = matches!(error, Error::Ledger(error) if !error.is_unavailable());
        if self.failing_for == 1 {
            warn!(%error, cause, "The ledger cannot be written; metering waits, and loses nothing.");
        } else if is_refused && self.failing_for == REFUSALS_TOLD {
            error!(%error, cause, "The ledger refuses: check its schema and its roles. Metering waits, and loses nothing.");
        }
        wait
    }

    fn recovered(&mut self) {
        if self.failing_for > 0 {
            info!(failures = self.failing_for, "The ledger has everything again.");
        }
        self.failing_for = 0;
    }
}

/// Whether the kind does not exist here, or we may not read it.
fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 403 | 404))
}

/// The UIDs of all objects of a kind, read consistently, page by page and without content.
async fn uids<K>(client: &kube::Client) -> Result<BTreeSet<String>, Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<Readable<PartialObjectMeta<K>>> = Api::all(client.clone());
    let mut parameters = ListParams::default().limit(PAGE);
    let mut uids = BTreeSet::new();
    loop {
        let page = api.list(&parameters).await.map_err(|error| Error::List(Box::new(error)))?;
        uids.extend(page.items.iter().filter_map(ResourceExt::uid));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(uids),
        }
    }
}
