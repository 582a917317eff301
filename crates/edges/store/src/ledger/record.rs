//! Joins new facts with the records.

use std::collections::{BTreeMap, BTreeSet};

use costing::{End, Moment, NodeRecord, PodRecord};
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::Error;

use super::changed::Changed;
use super::values::{Batch, LostUse};
use super::{mark, nodes, pods, span};

/// Records a batch, within a transaction that holds the writer's lock.
pub(crate) async fn record(connection: &mut PgConnection, cluster: &str, batch: &Batch) -> Result<(), Error> {
    record_nodes(connection, cluster, &batch.nodes).await?;
    record_pods(connection, cluster, &batch.pods).await
}

/// Records the losses of attempts on their pods, within a transaction that holds the writer's lock.
pub(crate) async fn record_lost(
    connection: &mut PgConnection,
    cluster: &str,
    lost: &[LostUse],
) -> Result<(), Error> {
    let pods = pods::load_lost(connection, cluster, lost).await?;
    record_pods(connection, cluster, &pods).await
}

async fn record_pods(connection: &mut PgConnection, cluster: &str, said: &[PodRecord]) -> Result<(), Error> {
    let uids: BTreeSet<&str> = said.iter().map(|pod| pod.uid.as_str()).collect();
    if uids.is_empty() {
        return Ok(());
    }
    let uids: Vec<&str> = uids.into_iter().collect();
    let known = pods::load(connection, cluster, &uids).await?;
    let changed = join_all(known, said, |pod| &pod.uid, PodRecord::join);
    if changed.is_empty() {
        return Ok(());
    }
    pods::write(connection, cluster, &changed).await?;
    let mut events = Events::default();
    for Changed { now, events: sequence, .. } in &changed {
        let source = format!("{cluster}/pod/{}", now.uid);
        events.push(source, *sequence, Some(&now.namespace), now.queue.as_deref(), pods::to_json(now));
    }
    events.append(connection, cluster).await?;
    let spans = changed.iter().flat_map(|pod| span::of_pod(pod.before.as_ref(), &pod.now)).collect();
    mark::mark(connection, cluster, &spans).await
}

async fn record_nodes(
    connection: &mut PgConnection,
    cluster: &str,
    said: &[NodeRecord],
) -> Result<(), Error> {
    let uids: BTreeSet<&str> = said.iter().map(|node| node.uid.as_str()).collect();
    if uids.is_empty() {
        return Ok(());
    }
    let uids: Vec<&str> = uids.into_iter().collect();
    let known = nodes::load(connection, cluster, &uids).await?;
    let changed = join_all(known, said, |node| &node.uid, NodeRecord::join);
    if changed.is_empty() {
        return Ok(());
    }
    nodes::write(connection, cluster, &changed).await?;
    let mut events = Events::default();
    for Changed { now, events: sequence, .. } in &changed {
        let source = format!("{cluster}/node/{}", now.uid);
        events.push(source, *sequence, None, None, nodes::to_json(now));
    }
    events.append(connection, cluster).await?;
    let mut spans: BTreeSet<_> =
        changed.iter().flat_map(|node| span::of_node(node.before.as_ref(), &node.now)).collect();
    // Recorded pods may show that a node lived on after it was taken to be gone: see `costing::fold`.
    let taken_to_be_gone: Vec<(&str, Moment)> = changed
        .iter()
        .filter_map(|node| match node.now.ended {
            Some(End::Provisional(at)) => Some((node.now.name.as_str(), at)),
            _ => None,
        })
        .collect();
    if !taken_to_be_gone.is_empty() {
        for (position, used_until) in pods::used_beyond(connection, cluster, &taken_to_be_gone).await? {
            let (name, gone) = taken_to_be_gone[position];
            spans.insert(span::span(name, gone, Some(used_until)));
        }
    }
    mark::mark(connection, cluster, &spans).await?;
    mark::mark_existing(connection, cluster, &spans).await
}

/// The records that changed, in the order of UIDs.
fn join_all<T: Clone + PartialEq>(
    known: Vec<(T, i64)>,
    said: &[T],
    uid: fn(&T) -> &String,
    join: fn(T, T) -> T,
) -> Vec<Changed<T>> {
    let known: BTreeMap<String, (T, i64)> =
        known.into_iter().map(|(record, events)| (uid(&record).clone(), (record, events))).collect();
    let mut joined: BTreeMap<String, T> = BTreeMap::new();
    for record in said {
        // Joined at least with itself: every stored record is the result of a join, so the same fact again is
        // no change.
        let other = joined.remove(uid(record)).unwrap_or_else(|| record.clone());
        joined.insert(uid(record).clone(), join(other, record.clone()));
    }
    let changed = |(uid, record): (String, T)| match known.get(&uid) {
        None => Some(Changed { before: None, now: record, events: 1 }),
        Some((before, events)) => {
            let now = join(before.clone(), record);
            (now != *before).then(|| Changed { before: Some(before.clone()), now, events: events + 1 })
        }
    };
    joined.into_iter().filter_map(changed).collect()
}

/// Rows of `usage_event`, as columns.
#[derive(Default)]
struct Events {
    source: Vec<String>,
    sequence: Vec<i64>,
    namespace: Vec<Option<String>>,
    queue: Vec<Option<String>>,
    record: Vec<Json<Value>>,
}

impl Events {
    fn push(
        &mut self,
        source: String,
        sequence: i64,
        namespace: Option<&str>,
        queue: Option<&str>,
        record: Value,
    ) {
        self.source.push(source);
        self.sequence.push(sequence);
        self.namespace.push(namespace.map(str::to_owned));
        self.queue.push(queue.map(str::to_owned));
        self.record.push(Json(record));
    }

    async fn append(self, connection: &mut PgConnection, cluster: &str) -> Result<(), Error> {
        const SQL: &str = "
            INSERT INTO usage_event (cluster, source, sequence, namespace, queue, record)
            SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::jsonb[])";
        sqlx::query(SQL)
            .bind(cluster)
            .bind(self.source)
            .bind(self.sequence)
            .bind(self.namespace)
            .bind(self.queue)
            .bind(self.record)
            .execute(connection)
            .await
            .map_err(Error::to("append usage events"))?;
        Ok(())
    }
}
