//! A batch of changes, looked up in the cache and serialised once.

use std::collections::BTreeSet;
use std::sync::Arc;

use api_types::rest::{ObjectName, RunName};
use axum::body::Bytes;

use super::changes::{ChangedObject, RunKey, Taken};
use super::frame::frame;
use super::node_event::NodeEvent;
use crate::cache::cluster_cache::ClusterCache;
use crate::views;
use crate::views::cluster;

/// Events that are sent together.
#[derive(Debug, Default)]
pub struct Batch {
    /// Some changes are missing from the events: clients should fetch anew.
    pub reload: bool,
    /// In the order of the changes.
    pub events: Vec<Event>,
}

/// One event, with the fields that decide who gets it.
#[derive(Debug)]
pub enum Event {
    /// A run as it is now, or its end.
    Run {
        /// The run.
        key: RunKey,
        /// Only its members changed: for streams of this one run.
        members_only: bool,
        /// As it is sent.
        frame: Bytes,
    },
    /// A queue as it is now, or its end.
    Queue {
        /// The queue.
        name: Arc<str>,
        /// As it is sent.
        frame: Bytes,
    },
    /// A node as it is now, or its end.
    Node(NodeEvent),
}

impl Batch {
    /// Looks up the changed objects. Locks are taken in the cache's order and held for this batch only.
    pub fn read(taken: &Taken, cache: &ClusterCache) -> Self {
        let whole: BTreeSet<&RunKey> = taken.changes.iter().filter_map(run_changed).collect();
        let mut batch = Self { reload: taken.everything, events: Vec::with_capacity(taken.changes.len()) };
        for change in &taken.changes {
            match change {
                ChangedObject::Run(key) => batch.events.push(run_event(cache, key, false)),
                ChangedObject::Members(key) if whole.contains(key) => {}
                ChangedObject::Members(key) => batch.events.push(run_event(cache, key, true)),
                ChangedObject::Queue(name) => batch.events.push(queue_event(cache, name)),
                ChangedObject::Node(name) => batch.events.push(node_event(cache, name)),
                ChangedObject::Everything => batch.reload = true,
            }
        }
        batch
    }
}

fn run_changed(change: &ChangedObject) -> Option<&RunKey> {
    match change {
        ChangedObject::Run(key) => Some(key),
        _ => None,
    }
}

fn run_event(cache: &ClusterCache, key: &RunKey, members_only: bool) -> Event {
    let queues = cache.queues();
    let run = cache.runs().get(&key.namespace, &key.name);
    let frame = if let Some(run) = run {
        frame("run", &views::run_summary(&run, &queues))
    } else {
        let gone = RunName { namespace: key.namespace.to_string(), name: key.name.to_string() };
        frame("run-gone", &gone)
    };
    Event::Run { key: key.clone(), members_only, frame }
}

fn queue_event(cache: &ClusterCache, name: &Arc<str>) -> Event {
    let frame = match cache.queues().get(name) {
        Some(queue) => frame("queue", &views::queue_view(&queue)),
        None => frame("queue-gone", &ObjectName { name: name.to_string() }),
    };
    Event::Queue { name: Arc::clone(name), frame }
}

fn node_event(cache: &ClusterCache, name: &Arc<str>) -> Event {
    let queues = cache.queues();
    let nodes = cache.nodes();
    let view = nodes.get(name).map(|node| cluster::node_view(node, &cache.pods(), &queues));
    Event::Node(match view {
        Some(view) => NodeEvent::changed(view),
        None => NodeEvent::gone(name),
    })
}

#[cfg(test)]
mod tests {
    use api_types::{Queue, QueueSpec, Run, RunSpec};

    use super::{Batch, Event};
    use crate::cache::cluster_cache::ClusterCache;
    use crate::events::changes::{ChangedObject, RunKey, Taken};

    fn frames(changes: Vec<ChangedObject>) -> Vec<(String, bool)> {
        let mut run = Run::new("a", RunSpec { members: 1, ..RunSpec::default() });
        run.metadata.namespace = Some("nlp".to_owned());
        let cache = ClusterCache::complete_with(vec![run], vec![Queue::new("q", QueueSpec::default())]);
        let batch = Batch::read(&Taken { changes, everything: false }, &cache);
        let text = |frame: &[u8]| {
            let text = String::from_utf8(frame.to_vec()).expect("frames are text");
            assert!(text.ends_with("}\n\n") && text.lines().count() == 3, "{text:?}");
            text.lines().next().unwrap_or_default().to_owned()
        };
        let frame = |event: &Event| match event {
            Event::Run { frame, members_only, .. } => (text(frame), *members_only),
            Event::Queue { frame, .. } => (text(frame), false),
            Event::Node(node) => (text(&node.frame_for(&[].into())), false),
        };
        batch.events.iter().map(frame).collect()
    }

    #[test]
    fn what_is_there_is_told_as_it_is_and_what_is_not_as_gone() {
        let run = |name| ChangedObject::Run(RunKey::new("nlp", name));
        let changes = vec![
            run("a"),
            run("b"),
            ChangedObject::Queue("q".into()),
            ChangedObject::Queue("r".into()),
            ChangedObject::Node("n".into()),
        ];
        let events: Vec<_> = frames(changes).into_iter().map(|(event, _)| event).collect();
        assert_eq!(
            events,
            ["event: run", "event: run-gone", "event: queue", "event: queue-gone", "event: node-gone"]
        );
    }

    #[test]
    fn members_that_changed_with_their_run_are_told_once_for_all() {
        let key = RunKey::new("nlp", "a");
        assert_eq!(frames(vec![ChangedObject::Members(key.clone())]), [("event: run".to_owned(), true)]);
        assert_eq!(
            frames(vec![ChangedObject::Members(key.clone()), ChangedObject::Run(key)]),
            [("event: run".to_owned(), false)]
        );
    }
}
