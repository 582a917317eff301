//! The caller's rights on one batch: all are asked for at once, and are then a value.
//!
//! ```text
//!   Batch, Filter ──► Needs (pure) ──ask Kubernetes, or remember──► Rights ──► frame of each event (pure)
//! ```

use std::collections::BTreeSet;

use axum::body::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::Events;
use super::batch::{Batch, Event};
use super::filter::{Filter, Runs};
use crate::access::authorization::{Access, Authorizer};
use crate::access::identity::Identity;
use crate::http::problem::ApiError;

/// Questions at one time for one stream, so that one caller cannot use up all of them.
const QUESTIONS_AT_ONCE: usize = 16;

/// The rights that a stream must know for a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs<'a> {
    the_run: bool,
    namespaces: BTreeSet<&'a str>,
    queues: BTreeSet<&'a str>,
    nodes: bool,
}

impl<'a> Needs<'a> {
    /// The rights that the wanted events of a batch need.
    pub fn of(batch: &'a Batch, filter: &Filter) -> Self {
        let mut needs = Self::default();
        for event in batch.events.iter().filter(|event| filter.wants(event)) {
            match event {
                Event::Run { .. } if matches!(filter.runs, Runs::One(_)) => needs.the_run = true,
                Event::Run { key, .. } => drop(needs.namespaces.insert(&key.namespace)),
                Event::Queue { name, .. } => drop(needs.queues.insert(name)),
                Event::Node(event) => {
                    needs.nodes = true;
                    needs.namespaces.extend(event.namespaces().iter().map(String::as_str));
                }
            }
        }
        needs
    }
}

/// The rights that the caller has.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rights {
    the_run: bool,
    namespaces: BTreeSet<String>,
    queues: BTreeSet<String>,
    nodes: bool,
}

/// Asks about the rights of one caller.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// Caches refusals.
    pub events: &'a Events,
    /// Asks Kubernetes.
    pub authorizer: &'a Authorizer,
    /// The caller.
    pub identity: &'a Identity,
}

impl Asker<'_> {
    /// Asks for the needed rights.
    pub async fn rights(self, needs: Needs<'_>, filter: &Filter) -> Result<Rights, ApiError> {
        let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let Needs { the_run, namespaces, queues, nodes } = needs;
        let (namespaces, queues) = (owned(namespaces), owned(queues));
        let the_run = match &filter.runs {
            Runs::One(run) if the_run => self.may(Access::run("get", &run.namespace, &run.name)).await?,
            _ => false,
        };
        let in_namespace = |namespace: &str| Access::runs("list", Some(namespace));
        let of_name = |queue: &str| Access::queue("get", Some(queue));
        Ok(Rights {
            the_run,
            namespaces: self.some(namespaces, Access::runs("list", None), in_namespace).await?,
            queues: self.some(queues, Access::queue("get", None), of_name).await?,
            nodes: nodes && self.may(Access::nodes("list")).await?,
        })
    }

    /// The names that the caller may see: all of them by one right to everything, or each by its own.
    async fn some(
        self,
        names: Vec<String>,
        everything: Access,
        one: fn(&str) -> Access,
    ) -> Result<BTreeSet<String>, ApiError> {
        if names.is_empty() || self.may(everything).await? {
            return Ok(names.into_iter().collect());
        }
        let questions = names.into_iter().map(|name| async move {
            let seen = self.may(one(&name)).await?;
            Ok::<_, ApiError>(seen.then_some(name))
        });
        let answers = stream::iter(questions).buffer_unordered(QUESTIONS_AT_ONCE);
        answers.try_filter_map(|name| async move { Ok(name) }).try_collect().await
    }

    async fn may(self, access: Access) -> Result<bool, ApiError> {
        self.events.allows(self.authorizer, self.identity, access).await
    }
}

impl Rights {
    /// The event as the caller may see it; `None` if they may not.
    pub fn frame(&self, event: &Event, filter: &Filter) -> Option<Bytes> {
        match event {
            Event::Run { key, frame, .. } => {
                let seen = match filter.runs {
                    Runs::One(_) => self.the_run,
                    Runs::Visible | Runs::OfNamespace(_) => self.namespaces.contains(&*key.namespace),
                };
                seen.then(|| frame.clone())
            }
            Event::Queue { name, frame } => self.queues.contains(&**name).then(|| frame.clone()),
            Event::Node(event) if self.nodes => {
                Some(event.frame_for(&event.namespaces().intersection(&self.namespaces).cloned().collect()))
            }
            Event::Node(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use api_types::rest::{MemberState, NodeView, Occupant};

    use super::{Needs, Rights};
    use crate::events::batch::{Batch, Event};
    use crate::events::changes::RunKey;
    use crate::events::filter::{Filter, Runs, Topics};
    use crate::events::node_event::NodeEvent;

    fn batch() -> Batch {
        let run = |namespace: &str| Event::Run {
            key: RunKey::new(namespace, "a"),
            members_only: false,
            frame: format!("run of {namespace}").into(),
        };
        let node = NodeEvent::changed(NodeView {
            name: "n".to_owned(),
            rack: None,
            gpu_type: None,
            gpus: 8,
            ready: true,
            schedulable: true,
            occupants: vec![Occupant {
                namespace: Some("speech".to_owned()),
                run: Some("secret".to_owned()),
                queue: None,
                gpus: 8,
                state: MemberState::Running,
            }],
        });
        let queue = Event::Queue { name: "q".into(), frame: "queue".into() };
        Batch { reload: false, events: vec![run("nlp"), run("vision"), queue, Event::Node(node)] }
    }

    fn filter(topics: &str, runs: Runs) -> Filter {
        Filter { topics: Topics::parse(topics).expect("valid"), runs }
    }

    #[test]
    fn only_what_is_wanted_is_asked_for() {
        let batch = batch();
        let all = Needs::of(&batch, &filter("runs,queues,nodes", Runs::Visible));
        let namespaces = BTreeSet::from(["nlp", "speech", "vision"]);
        assert_eq!(all, Needs { the_run: false, namespaces, queues: ["q"].into(), nodes: true });
        let one = Runs::One(RunKey::new("nlp", "a"));
        let one = Needs::of(&batch, &filter("runs", one));
        assert_eq!(one, Needs { the_run: true, ..Needs::default() });
    }

    #[test]
    fn what_the_caller_may_not_see_is_not_sent() {
        let batch = batch();
        let filter = filter("runs,queues,nodes", Runs::Visible);
        let frames = |rights: &Rights| -> Vec<String> {
            let frames = batch.events.iter().filter_map(|event| rights.frame(event, &filter));
            frames.map(|frame| String::from_utf8(frame.to_vec()).expect("text")).collect()
        };
        assert_eq!(frames(&Rights::default()), Vec::<String>::new());
        let some = Rights { namespaces: ["nlp".to_owned()].into(), nodes: true, ..Rights::default() };
        let seen = frames(&some);
        assert_eq!(seen[0], "run of nlp");
        assert!(
            seen.len() == 2 && seen[1].contains("event: node") && !seen[1].contains("secret"),
            "{seen:?}"
        );
    }
}
