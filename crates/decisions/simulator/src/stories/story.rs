//! What happened, in lines that people read.

use cluster_model::plan::EvictionRule;
use cluster_model::{Node, QueueName, ResourceName};
use jiff::Timestamp;
use placement::Policy;
use trace_format::Job;

use crate::outcome::ratio;
use crate::simulation::{Happening, Simulation, Watch};

/// Collects what happens. Similar jobs that do the same at the same moment are one line.
#[derive(Default)]
pub(super) struct Story {
    pub is_quiet: bool,
    lines: Vec<Happened>,
}

struct Happened {
    at: i64,
    /// What the lines to be merged have in common: the name without its number.
    stem: String,
    verb: String,
    /// Written only for a job that is alone.
    detail: String,
    names: Vec<String>,
}

impl Story {
    /// The lines since they were last taken.
    pub fn take(&mut self) -> Vec<String> {
        self.lines.drain(..).map(Happened::text).collect()
    }

    fn say(&mut self, at: Timestamp, job: &Job, verb: String, detail: String) {
        if self.is_quiet {
            return;
        }
        let (at, stem) = (at.as_second(), stem(&job.name));
        let same = |line: &&mut Happened| line.at == at && line.stem == stem && line.verb == verb;
        let known = self.lines.iter_mut().rev().take_while(|line| line.at == at).find(same);
        if let Some(line) = known {
            line.names.push(job.name.to_string());
        } else {
            self.lines.push(Happened { at, stem, verb, detail, names: vec![job.name.to_string()] });
        }
    }
}

impl Happened {
    fn text(self) -> String {
        let clock = clock(self.at);
        match &self.names[..] {
            [name] => format!("{clock}  {name} {}{}", self.verb, self.detail),
            names => format!("{clock}  {} of {}: {}", names.len(), self.stem, plural(&self.verb)),
        }
    }
}

impl Watch for Story {
    fn happened(&mut self, at: Timestamp, what: &Happening<'_>) {
        match what {
            Happening::Submitted { .. } => {}
            Happening::Started { job, placement, .. } => {
                let mut nodes: Vec<&str> =
                    placement.members.iter().map(|member| member.node.as_str()).collect();
                nodes.sort_unstable();
                nodes.dedup();
                self.say(at, job, "starts".to_owned(), format!(" on {}", some_of(&nodes)));
            }
            Happening::Ended { job, .. } => self.say(at, job, "ends".to_owned(), String::new()),
            Happening::Evicted { job, claimant, rule, .. } => {
                let rule = match rule {
                    EvictionRule::Priority => "gives way to",
                    EvictionRule::Reclaim => "gives back to",
                    EvictionRule::ExpectedWork => "lets pass",
                    EvictionRule::Consolidation => "moves for",
                };
                self.say(at, job, format!("{rule} {}", claimant.name), String::new());
            }
            Happening::Requeued { job, lost_gpu_seconds, .. } => {
                let lost = format!(", {} GPU-minutes lost", lost_gpu_seconds / 60);
                self.say(at, job, "is back in its queue".to_owned(), lost);
            }
        }
    }
}

/// Why a job waits, by a plan that is made to say so and then thrown away.
pub(super) fn why(simulation: &mut Simulation, name: &str) -> Result<Vec<String>, String> {
    let now = simulation.now();
    let policy = Policy { explain: true, ..simulation.policy_mut().clone() };
    let plan = placement::plan(simulation.state_mut(), &policy, now);
    let waiting = plan.waiting.iter().find(|gang| &*gang.gang.name == name);
    if let Some(waiting) = waiting {
        let reasons = waiting.reasons.iter().map(|reason| on_the_clock(&reason.to_string()));
        return Ok(reasons.map(|reason| format!("{name}: {reason}")).collect());
    }
    let is_live = simulation.state().gangs().any(|(key, _)| &*key.name == name);
    if is_live { Ok(vec![format!("{name}: runs")]) } else { Err(format!("there is no job {name}")) }
}

/// What each queue holds of what it owns.
pub(super) fn queues(simulation: &Simulation) -> Vec<String> {
    let state = simulation.state();
    let line = |(queue, usage): (&cluster_model::Queue, &cluster_model::QueueUsage)| {
        let holds: i64 = usage.gpus.values().sum();
        let mut owns: Vec<String> = Vec::new();
        for (word, amounts) in [("quota", &queue.quota), ("limit", &queue.limit)] {
            for (gpu_type, amount) in amounts.iter().flat_map(|amounts| &amounts.gpus) {
                owns.push(format!("{word} {amount} {}", ResourceName::Gpu(gpu_type.clone())));
            }
        }
        let owns = if owns.is_empty() { String::new() } else { format!(" ({})", owns.join(", ")) };
        let (running, waiting) = (usage.gangs_running, usage.gangs_waiting);
        format!("{} holds {holds}{owns}: {running} running, {waiting} waiting", queue.name)
    };
    state.queues().map(line).collect()
}

/// What each node has in use.
pub(super) fn nodes(simulation: &Simulation, nodes: &[Node]) -> Vec<String> {
    let state = simulation.state();
    let line = |node: &Node| match state.node_id(&node.name) {
        Some(id) => {
            let all = node.allocatable.gpus;
            format!("{} {} of {all} in use", node.name, all - state.node(id).free().gpus)
        }
        None => format!("{} is gone", node.name),
    };
    nodes.iter().map(line).collect()
}

/// How the GPU time was shared, since the start.
pub(super) fn shares(simulation: &mut Simulation) -> Vec<String> {
    let totals = simulation.queue_gpu_seconds();
    let all: u64 = totals.iter().map(|(_, seconds)| seconds).sum();
    totals
        .iter()
        .filter(|(_, seconds)| *seconds > 0)
        .map(|(queue, seconds)| {
            format!("{queue} had {} GPU-hours, {:.1} %", seconds / 3_600, 100.0 * ratio(*seconds, all))
        })
        .collect()
}

/// What a queue has saved.
pub(super) fn bank(simulation: &Simulation, queue: &QueueName) -> Result<Vec<String>, String> {
    let state = simulation.state();
    state.queue(queue).ok_or_else(|| format!("there is no queue {queue}"))?;
    Ok(vec![format!("{queue} has {} GPU-hours in the bank", state.bank_gpu_seconds(queue) / 3_600)])
}

/// What happened to a job.
pub(super) fn job(simulation: &Simulation, name: &str) -> Result<Vec<String>, String> {
    let number = simulation.jobs().iter().position(|job| &*job.name == name);
    let record =
        number.map(|number| simulation.records()[number]).ok_or_else(|| format!("there is no job {name}"))?;
    let times = |count: u16| if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let mut text = match record.started {
        None => format!("{name} has not started"),
        Some(wait) => format!("{name} started after {}", clock(i64::from(wait))),
    };
    if let Some(ended) = record.ended {
        text = format!("{text}, ended after {}", clock(i64::from(ended)));
    }
    if record.preemptions > 0 {
        text = format!("{text}, gave way {}", times(record.preemptions));
    }
    if record.failures > 0 {
        text = format!("{text}, lost a node {}", times(record.failures));
    }
    Ok(vec![text])
}

/// `1:05:00`, in hours, minutes, seconds.
fn clock(seconds: i64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3_600, seconds % 3_600 / 60, seconds % 60)
}

/// A sentence whose times are those of the story.
fn on_the_clock(sentence: &str) -> String {
    let word = |word: &str| match word.parse::<Timestamp>() {
        Ok(at) => clock(at.as_second()),
        Err(_) => word.to_owned(),
    };
    sentence.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// `small-07` is one of `small`.
fn stem(name: &str) -> String {
    match name.rsplit_once('-') {
        Some((stem, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => stem.to_owned(),
        _ => name.to_owned(),
    }
}

fn plural(verb: &str) -> String {
    for (one, many) in [
        ("starts", "start"),
        ("ends", "end"),
        ("gives way", "give way"),
        ("gives back", "give back"),
        ("moves", "move"),
        ("is back in its queue", "are back in their queue"),
    ] {
        if let Some(rest) = verb.strip_prefix(one) {
            return format!("{many}{rest}");
        }
    }
    verb.to_owned()
}

fn some_of(names: &[&str]) -> String {
    const SHOWN: usize = 4;
    if names.len() <= SHOWN {
        return names.join(", ");
    }
    format!("{} and {} more", names[..SHOWN - 1].join(", "), names.len() + 1 - SHOWN)
}
