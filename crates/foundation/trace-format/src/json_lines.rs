//! Our own format: one JSON object on each line, each a node, a queue, a job or an event. See
//! `docs/reference/trace.md`.
//!
//! Whatever a line leaves out has the default of an installed platform. An unknown field is an error, because a trace
//! that is half understood gives wrong figures.

mod lines;

use std::collections::BTreeSet;

use cluster_model::{Amounts, BankTerms, Node, Power, Queue, Reclaim, Resources};

use self::lines::{BankLine, EventLine, JobLine, Line, NodeLine, PowerLine, QueueLine, What};
use crate::workload::{Event, Workload};
use crate::{Error, Shared};

/// The most nodes that one line may stand for.
const COUNT_MAX: u32 = 1_000_000;
const GIB: i64 = 1 << 30;

/// Reads line by line, so that no whole file must be in memory.
#[derive(Default)]
pub struct Reader {
    workload: Workload,
    shared: Shared,
    names: BTreeSet<(std::sync::Arc<str>, std::sync::Arc<str>)>,
    line: usize,
}

impl Reader {
    /// Takes one line. Empty lines and those that start with `#` are ignored.
    pub fn line(&mut self, text: &str) -> Result<(), Error> {
        self.line += 1;
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let line: Line = serde_json::from_str(text).map_err(|error| self.wrong(error.to_string()))?;
        match line {
            Line::Node(node) => self.nodes(&node),
            Line::Queue(queue) => {
                self.workload.queues.push(queue.into());
                Ok(())
            }
            Line::Job(job) => self.job(&job),
            Line::Event(event) => self.event(event),
        }
    }

    /// What was read.
    pub fn finish(self) -> Workload {
        self.workload
    }

    fn nodes(&mut self, line: &NodeLine) -> Result<(), Error> {
        let nodes = self.each_node(line)?;
        self.workload.nodes.extend(nodes);
        Ok(())
    }

    fn each_node(&self, line: &NodeLine) -> Result<Vec<Node>, Error> {
        match line.count {
            None => Ok(vec![line.node(line.name.as_str())]),
            Some(count) if count <= COUNT_MAX => {
                Ok((0..count).map(|number| line.node(&format!("{}-{number:05}", line.name))).collect())
            }
            Some(count) => Err(self.wrong(format!("count is {count}, and must be at most {COUNT_MAX}"))),
        }
    }

    fn job(&mut self, line: &JobLine) -> Result<(), Error> {
        let job = line.job(&mut self.shared).map_err(|message| self.wrong(message))?;
        if !self.names.insert((self.shared.text(job.queue.as_str()), job.name.clone())) {
            let message = format!("job {} of queue {} is there twice", job.name, job.queue);
            return Err(self.wrong(message));
        }
        self.workload.jobs.push(job);
        Ok(())
    }

    fn event(&mut self, line: EventLine) -> Result<(), Error> {
        let events: Vec<Event> = match line.what {
            What::NodeUp(node) => self.each_node(&node)?.into_iter().map(Event::NodeUp).collect(),
            What::NodeDown(name) => vec![Event::NodeDown(name)],
            What::NodeLeaves { node, notice_seconds } => vec![Event::NodeLeaves { node, notice_seconds }],
            What::Queue(queue) => vec![Event::Queue(queue.into())],
        };
        self.workload.events.extend(events.into_iter().map(|event| (line.at, event)));
        Ok(())
    }

    fn wrong(&self, message: String) -> Error {
        Error { line: self.line, message }
    }
}

/// Reads a whole trace.
pub fn read(text: &str) -> Result<Workload, Error> {
    let mut reader = Reader::default();
    for line in text.lines() {
        reader.line(line)?;
    }
    Ok(reader.finish())
}

/// Writes a workload, one line at a time: nodes, queues, jobs, events, each in the order given.
pub fn write(workload: &Workload) -> impl Iterator<Item = String> {
    let nodes = workload.nodes.iter().map(|node| Line::Node(NodeLine::from(node)));
    let queues = workload.queues.iter().map(|queue| Line::Queue(QueueLine::from(queue)));
    let jobs = workload.jobs.iter().map(|job| Line::Job(Box::new(JobLine::from(job))));
    let events = workload.events.iter().map(|(at, event)| {
        let what = match event {
            Event::NodeUp(node) => What::NodeUp(NodeLine::from(node)),
            Event::NodeDown(name) => What::NodeDown(name.clone()),
            Event::NodeLeaves { node, notice_seconds } => {
                What::NodeLeaves { node: node.clone(), notice_seconds: *notice_seconds }
            }
            Event::Queue(queue) => What::Queue(QueueLine::from(queue)),
        };
        Line::Event(EventLine { at: *at, what })
    });
    let lines = nodes.chain(queues).chain(jobs).chain(events);
    lines.map(|line| serde_json::to_string(&line).expect("names and numbers can be written"))
}

impl NodeLine {
    /// One of the nodes that the line stands for.
    fn node(&self, node_name: &str) -> Node {
        let Self {
            // Given by the caller: a line may stand for many nodes.
            name: _,
            count: _,
            gpus,
            gpu_type,
            cpu_millis,
            memory_gib,
            pods,
            topology,
            exact,
            spot,
            power,
        } = self;
        Node {
            gpu_type: gpu_type.clone(),
            allocatable: Resources {
                gpus: i64::from(*gpus),
                cpu_millis: *cpu_millis,
                memory_bytes: memory_gib.saturating_mul(GIB),
                pods: *pods,
            },
            topology: topology.iter().map(|domain| domain.as_str().into()).collect(),
            exact: *exact,
            power: power.map(|PowerLine { idle_watts, gpu_watts }| Power { idle_watts, gpu_watts }),
            spot: *spot,
            ..Node::new(node_name)
        }
    }
}

impl From<QueueLine> for Queue {
    fn from(line: QueueLine) -> Self {
        let QueueLine {
            name,
            parent,
            weight,
            quota,
            limit,
            lend,
            reclaim_grace_seconds,
            min_run_seconds,
            half_life_seconds,
            bank,
            highest_tier,
            out_of_budget,
        } = line;
        let amounts = |gpus: Option<lines::Gpus>| {
            gpus.map(|gpus| Amounts { gpus, ..Amounts::default() }).filter(|it| !it.gpus.is_empty())
        };
        Self {
            parent,
            weight,
            quota: amounts(quota),
            limit: amounts(limit),
            lend: lend.map(|gpus| Amounts { gpus, ..Amounts::default() }),
            reclaim: Reclaim { grace_seconds: reclaim_grace_seconds, min_run_seconds },
            half_life_seconds,
            bank: bank
                .map(|BankLine { earn_millis, cap_gpu_seconds }| BankTerms { earn_millis, cap_gpu_seconds }),
            highest_tier,
            out_of_budget,
            ..Self::new(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn terms_are_read() {
        let text = r#"
# A comment.
{"node": {"name": "n", "gpus": 8, "gpuType": "H100", "topology": ["zone", "rack-1"], "count": 3}}
{"queue": {"name": "q", "quota": {"H100": 8}, "bank": {"earnMillis": 500, "capGpuSeconds": 3600}}}
{"job": {"name": "j", "queue": "q", "submitted": "2026-01-05T09:00:00Z", "runSeconds": 60, "gpus": 8, "members": 4, "topologyRequired": 1, "timeLimitSeconds": 90, "checkpointSeconds": 30}}
{"event": {"at": "2026-01-05T10:00:00Z", "nodeLeaves": {"node": "n-00001", "noticeSeconds": 120}}}
"#;
        let workload = read(text).unwrap();
        assert_eq!(workload.nodes.len(), 3);
        assert_eq!(workload.nodes[2].name.as_str(), "n-00002");
        let job = &workload.jobs[0];
        assert_eq!((job.members, job.members_min, job.requests.gpus), (4, 4, 8));
        assert_eq!(job.terms.time_limit_seconds, Some(90));
        assert_eq!(job.terms.topology.required, Some(cluster_model::Level(1)));
        assert!(job.terms.eviction.checkpoints);
        assert_eq!(workload.events.len(), 1);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        let job =
            r#"{"job": {"name": "j", "queue": "q", "submitted": "2026-01-05T09:00:00Z", "runSeconds": 60}}"#;
        for (text, expect) in [
            ("\n{\"jop\": {}}", "line 2: unknown variant `jop`"),
            (&format!("{job}\n{job}"), "line 2: job j of queue q is there twice"),
            (&job.replace("runSeconds", "runMinutes"), "line 1: unknown field `runMinutes`"),
            (&job.replace("60}", "60, \"members\": 0}"), "line 1: members is 0"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(expect), "{error}");
        }
    }
}
