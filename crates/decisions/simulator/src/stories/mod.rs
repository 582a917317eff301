//! Stories: a script of what happens to a cluster, with the planner's decisions written below each part.
//!
//! ```text
//!   node a H100 x8                                a line is a command,
//!   queue research quota 8
//!   submit train to research needs 8 runs 1h
//!     | 0:00:00  train starts on a                what happened then, indented behind a bar
//!   at 2h                                         the clock goes on
//!     | 1:00:00  train ends
//! ```
//!
//! [`play`] returns the script with the actual outputs; a test compares that with the file. The language is described
//! in `stories/README.md`.

mod parse;
mod story;

use cluster_model::{GpuType, Node, QueueName};
use jiff::{SignedDuration, Timestamp};
use placement::Policy;
use trace_format::{Event, Workload};

use crate::policies;
use crate::simulation::{Options, Simulation};
use parse::{Command, Show, parse};
use story::Story;

/// What precedes an output line.
const BAR: &str = "  | ";
/// The longest story: ten simulated years. It keeps a typing error from running for ever.
const SECONDS_MAX: i64 = 10 * 366 * 86_400;

/// A line that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Error {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// Plays a script. Returns the same text with the right outputs, whatever outputs it had before.
pub fn play(script: &str) -> Result<String, Error> {
    let mut stage = Stage::new();
    let mut text = String::new();
    for (index, line) in script.lines().enumerate() {
        if line.starts_with(BAR.trim_end()) {
            continue;
        }
        let wrong = |message: String| Error { line: index + 1, message };
        let command = parse(line).map_err(wrong)?;
        if command.as_ref().is_none_or(Command::shows_what_was) {
            stage.settle(&mut text);
        }
        text.push_str(line);
        text.push('\n');
        if let Some(command) = command {
            stage.act(command).map_err(wrong)?;
            stage.tell(&mut text);
        }
    }
    stage.settle(&mut text);
    Ok(text)
}

struct Stage {
    simulation: Simulation,
    story: Story,
    nodes: Vec<Node>,
    /// Whether something was done at this moment and not played yet.
    is_open: bool,
    output: Vec<String>,
}

impl Stage {
    fn new() -> Self {
        let policy = Policy { explain: true, ..policies::preset("default").unwrap_or_default() };
        Self {
            simulation: Simulation::new(Workload::default(), policy, Options::default()),
            story: Story::default(),
            nodes: Vec::new(),
            is_open: false,
            output: Vec::new(),
        }
    }

    fn act(&mut self, command: Command) -> Result<(), String> {
        let now = self.simulation.now();
        match command {
            Command::Nodes(nodes) => {
                for node in nodes {
                    self.nodes.push(node.clone());
                    self.at_once(Event::NodeUp(node));
                }
            }
            Command::Queue(template) => {
                let queue = template.queue(&self.gpu_type());
                self.at_once(Event::Queue(queue));
            }
            Command::Policy(key, value) => policies::set(self.simulation.policy_mut(), &key, &value)?,
            Command::Preset(name) => {
                let preset =
                    policies::preset(&name).ok_or_else(|| format!("no policy is called `{name}`"))?;
                *self.simulation.policy_mut() = Policy { explain: true, ..preset };
            }
            Command::EvictionGrace(seconds) => self.simulation.options_mut().eviction_grace_seconds = seconds,
            Command::Restart(seconds) => self.simulation.options_mut().restart_seconds = seconds,
            Command::Submit(template) => {
                for job in template.jobs(now, self.gpu_type()) {
                    self.simulation.add_job(job);
                }
                self.is_open = true;
            }
            Command::Fail(name) => {
                let node = self.node(&name)?;
                self.at_once(Event::NodeDown(node.name));
            }
            Command::Notice(name, notice_seconds) => {
                let node = self.node(&name)?.name;
                self.at_once(Event::NodeLeaves { node, notice_seconds });
            }
            Command::Return(name) => {
                let node = self.node(&name)?;
                self.at_once(Event::NodeUp(node));
            }
            Command::At(seconds) => self.go_on(seconds)?,
            Command::Quiet(is_quiet) => self.story.is_quiet = is_quiet,
            Command::Why(job) => self.output.extend(story::why(&mut self.simulation, &job)?),
            Command::Show(show) => self.show(&show)?,
        }
        Ok(())
    }

    fn at_once(&mut self, event: Event) {
        self.simulation.add_event(self.simulation.now(), event);
        self.is_open = true;
    }

    fn go_on(&mut self, seconds: i64) -> Result<(), String> {
        if seconds > SECONDS_MAX {
            return Err("a story ends within ten years".to_owned());
        }
        let until = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        if until < self.simulation.now() {
            return Err("time does not go back".to_owned());
        }
        self.play_until(until);
        Ok(())
    }

    /// Plays what was put on the stage at this moment.
    fn settle(&mut self, text: &mut String) {
        if self.is_open {
            self.play_until(self.simulation.now());
        }
        self.tell(text);
    }

    fn play_until(&mut self, until: Timestamp) {
        self.simulation.run_until(until, &mut self.story);
        self.is_open = false;
        self.output.extend(self.story.take());
    }

    fn show(&mut self, show: &Show) -> Result<(), String> {
        let lines = match show {
            Show::Queues => story::queues(&self.simulation),
            Show::Nodes => story::nodes(&self.simulation, &self.nodes),
            Show::Shares => story::shares(&mut self.simulation),
            Show::Bank(queue) => story::bank(&self.simulation, &QueueName::from(queue.as_str()))?,
            Show::Job(name) => story::job(&self.simulation, name)?,
        };
        self.output.extend(lines);
        Ok(())
    }

    fn tell(&mut self, text: &mut String) {
        for line in self.output.drain(..) {
            text.push_str(BAR);
            text.push_str(&line);
            text.push('\n');
        }
    }

    fn node(&self, name: &str) -> Result<Node, String> {
        let known = self.nodes.iter().find(|node| node.name.as_str() == name);
        known.cloned().ok_or_else(|| format!("there is no node {name}"))
    }

    /// What `quota 8` means: GPUs of the first node's type.
    fn gpu_type(&self) -> GpuType {
        self.nodes.iter().find_map(|node| node.gpu_type.clone()).unwrap_or_else(GpuType::unknown)
    }
}
