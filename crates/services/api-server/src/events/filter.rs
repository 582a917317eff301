//! The filter of a stream. Pure: rights are checked elsewhere.

use super::batch::Event;
use super::changes::RunKey;

/// The kinds of objects in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topics {
    /// Runs.
    pub runs: bool,
    /// Queues.
    pub queues: bool,
    /// Nodes.
    pub nodes: bool,
}

/// A word that is no topic.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("topics are runs, queues and nodes, separated by commas")]
pub struct NoSuchTopic;

impl Topics {
    /// Every topic.
    pub const ALL: Self = Self { runs: true, queues: true, nodes: true };

    /// Reads `runs,queues,nodes`, or some of them.
    pub fn parse(text: &str) -> Result<Self, NoSuchTopic> {
        let mut topics = Self { runs: false, queues: false, nodes: false };
        for topic in text.split(',') {
            match topic {
                "runs" => topics.runs = true,
                "queues" => topics.queues = true,
                "nodes" => topics.nodes = true,
                _ => return Err(NoSuchTopic),
            }
        }
        Ok(topics)
    }
}

/// Which runs a stream has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runs {
    /// All that the caller may list.
    Visible,
    /// Those of one namespace.
    OfNamespace(String),
    /// One run, with changes of its members.
    One(RunKey),
}

/// The filter of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The kinds.
    pub topics: Topics,
    /// The runs.
    pub runs: Runs,
}

impl Filter {
    /// Whether the stream asked for this event.
    pub fn wants(&self, event: &Event) -> bool {
        match event {
            Event::Queue { .. } => self.topics.queues,
            Event::Node(_) => self.topics.nodes,
            Event::Run { key, members_only, .. } => {
                self.topics.runs
                    && match &self.runs {
                        Runs::Visible => !members_only,
                        Runs::OfNamespace(namespace) => !members_only && *key.namespace == **namespace,
                        Runs::One(run) => key == run,
                    }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Filter, NoSuchTopic, Runs, Topics};
    use crate::events::batch::Event;
    use crate::events::changes::RunKey;
    use crate::events::node_event::NodeEvent;

    #[test]
    fn topics_are_read_in_any_order_and_nothing_else_is() {
        let runs = Topics { runs: true, queues: false, nodes: false };
        assert_eq!(Topics::parse("runs"), Ok(runs));
        assert_eq!(Topics::parse("nodes,runs,queues"), Ok(Topics::ALL));
        for text in ["", "runs,", "pods", "runs queues", "Runs"] {
            assert_eq!(Topics::parse(text), Err(NoSuchTopic), "{text}");
        }
    }

    #[test]
    fn a_stream_gets_what_it_asked_for() {
        let run = |namespace, name, members_only| Event::Run {
            key: RunKey::new(namespace, name),
            members_only,
            frame: "".into(),
        };
        let events = [
            run("nlp", "a", false),
            run("nlp", "a", true),
            run("nlp", "b", false),
            run("vision", "a", false),
            Event::Queue { name: "q".into(), frame: "".into() },
            Event::Node(NodeEvent::gone("n")),
        ];
        let one = Runs::One(RunKey::new("nlp", "a"));
        let namespace = Runs::OfNamespace("nlp".to_owned());
        for (topics, runs, expect) in [
            ("runs", Runs::Visible, [true, false, true, true, false, false]),
            ("runs", namespace, [true, false, true, false, false, false]),
            ("runs", one.clone(), [true, true, false, false, false, false]),
            ("queues,nodes", one, [false, false, false, false, true, true]),
        ] {
            let filter = Filter { topics: Topics::parse(topics).expect("valid"), runs };
            assert_eq!(events.each_ref().map(|event| filter.wants(event)), expect, "{filter:?}");
        }
    }
}
