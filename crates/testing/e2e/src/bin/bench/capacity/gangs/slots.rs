//! Runs a bounded number of gangs at a time, each in a slot: when one is done, the next takes its slot.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::bail;
use api_types::names;
use e2e::claims::node_claims;
use futures::future::try_join_all;
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::finding::Gang;
use crate::capacity::size::Size;

/// About 70 machines. Two cores can serve twice as many, but a rented machine may be slowed down when both
/// cores are busy for ten minutes. Without answers of the API server, the scheduler gives nothing back.
pub const SLOTS: usize = 8;
/// In a rehearsal, which may run during other work.
const SLOTS_REHEARSED: usize = 4;
/// Time between two looks: shorter would be a load of its own.
pub const LOOK: Duration = Duration::from_millis(500);

/// The number of claims, by their machine type or pool.
type Claims = BTreeMap<String, usize>;

/// Claims as of a moment ago, listed once for all slots.
#[derive(Clone)]
pub struct Sight(watch::Receiver<Claims>);

impl Sight {
    /// Waits until no claim of a machine type or pool is left.
    pub async fn until_gone(&mut self, whose: &str, bound: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + bound;
        // An earlier list may be older than the claims.
        self.0.mark_unchanged();
        loop {
            match tokio::time::timeout_at(deadline, self.0.changed()).await {
                Ok(Ok(())) if !self.0.borrow_and_update().contains_key(whose) => return Ok(()),
                Ok(Ok(())) => {}
                Ok(Err(_)) => bail!("claims are listed no longer"),
                Err(_) => bail!("waited {bound:?} in vain: no claim of {whose} is left"),
            }
        }
    }
}

/// Runs all gangs, each by `start(slot, gang)`; the results are in the order of their ends.
pub async fn run<T, F>(
    size: Size,
    client: &Client,
    gangs: &[Gang],
    start: impl Fn(usize, Gang, Sight) -> F,
) -> anyhow::Result<Vec<T>>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (sender, sight) = watch::channel(Claims::new());
    let slots = if size.rehearse { SLOTS_REHEARSED } else { SLOTS };
    let slots = (0..slots).map(|slot| {
        let (next, ended, start, sight) = (&next, &ended, &start, Sight(sight.clone()));
        async move {
            let mut found = Vec::new();
            while let Some(gang) = gangs.get(next.fetch_add(1, Ordering::Relaxed)) {
                found.push(start(slot, gang.clone(), sight.clone()).await?);
                let ended = ended.fetch_add(1, Ordering::Relaxed) + 1;
                if ended % 10 == 0 {
                    println!("{ended} of {} gangs", gangs.len());
                }
            }
            anyhow::Ok(found)
        }
    });
    tokio::select! {
        found = try_join_all(slots) => Ok(found?.into_iter().flatten().collect()),
        error = look(client, sender) => Err(error),
    }
}

/// Lists claims for ever; returns only if that fails.
async fn look(client: &Client, sender: watch::Sender<Claims>) -> anyhow::Error {
    let api = node_claims(client);
    loop {
        let listed = match api.list_metadata(&ListParams::default()).await {
            Ok(listed) => listed,
            Err(error) => return error.into(),
        };
        let mut claims = Claims::new();
        for claim in listed {
            let of_type = claim.annotations().get(names::MACHINE_TYPE_ANNOTATION);
            if let Some(whose) = of_type.or_else(|| claim.labels().get(names::NODE_POOL_LABEL)) {
                *claims.entry(whose.clone()).or_default() += 1;
            }
        }
        sender.send_replace(claims);
        tokio::time::sleep(LOOK).await;
    }
}
