//! One line of a story.

use std::sync::Arc;

use cluster_model::{
    Amounts, BankTerms, EvictionTerms, GpuType, Level, Node, NodeName, Power, Queue, Reclaim, Resources,
    Segment, Terms, Tier, TopologyTerms,
};
use jiff::{SignedDuration, Timestamp};
use trace_format::Job;

/// The most nodes or jobs that one line makes.
const COUNT_MAX: u32 = 100_000;

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    Nodes(Vec<Node>),
    Queue(Box<QueueTemplate>),
    Policy(String, String),
    Preset(String),
    EvictionGrace(u32),
    Restart(u32),
    Submit(Box<JobTemplate>),
    Fail(String),
    Notice(String, u32),
    Return(String),
    At(i64),
    Quiet(bool),
    Why(String),
    Show(Show),
}

/// What can be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Show {
    Queues,
    Nodes,
    Shares,
    Bank(String),
    Job(String),
}

impl Command {
    /// Whether it looks at things, so that open actions must be played first.
    pub fn shows_what_was(&self) -> bool {
        matches!(self, Self::At(_) | Self::Why(_) | Self::Show(_) | Self::Quiet(_))
    }
}

/// A queue whose amounts are of a GPU type that only the stage knows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueueTemplate {
    queue: Queue,
    quota: Option<i64>,
    limit: Option<i64>,
    lend: Option<i64>,
}

impl QueueTemplate {
    pub fn queue(self, gpu_type: &GpuType) -> Queue {
        let amounts = |gpus: i64| Amounts {
            gpus: [(gpu_type.clone(), gpus)].into_iter().collect(),
            ..Amounts::default()
        };
        Queue {
            quota: self.quota.map(amounts),
            limit: self.limit.map(amounts),
            lend: self.lend.map(amounts),
            ..self.queue
        }
    }
}

/// One job, or many similar jobs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobTemplate {
    count: Option<u32>,
    name: String,
    queue: String,
    gpus: i64,
    gpu_types: Vec<GpuType>,
    members: u32,
    run_seconds: u32,
    priority: i32,
    checkpoint_seconds: Option<u32>,
    deadline_seconds: Option<i64>,
    terms: Terms,
}

impl JobTemplate {
    pub fn jobs(self, now: Timestamp, default_type: GpuType) -> Vec<Job> {
        let mut terms = self.terms;
        terms.deadline =
            self.deadline_seconds.map(|at| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(at));
        let terms = Arc::new(terms);
        let mut types = self.gpu_types;
        if types.is_empty() && self.gpus > 0 {
            types.push(default_type);
        }
        types.sort();
        let gpu_types: Arc<[GpuType]> = types.into();
        let job = |name: String| Job {
            run_seconds: self.run_seconds,
            members: self.members,
            members_min: self.members,
            requests: Resources { gpus: self.gpus, pods: 1, ..Resources::default() },
            gpu_types: gpu_types.clone(),
            priority: self.priority,
            checkpoint_seconds: self.checkpoint_seconds,
            terms: terms.clone(),
            ..Job::new(name, self.queue.as_str(), now)
        };
        match self.count {
            None => vec![job(self.name.clone())],
            Some(count) => {
                let width = count.to_string().len();
                (1..=count).map(|number| job(format!("{}-{number:0width$}", self.name))).collect()
            }
        }
    }
}

/// Reads a line; `None` for an empty one.
pub(super) fn parse(line: &str) -> Result<Option<Command>, String> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = Words(line.split_whitespace().collect::<Vec<_>>().into_iter());
    let Some(verb) = words.0.next() else { return Ok(None) };
    let command = match verb {
        "node" | "nodes" => nodes(&mut words)?,
        "queue" => Command::Queue(Box::new(queue(&mut words)?)),
        "policy" => {
            let key = words.word("a policy")?;
            match words.0.next() {
                Some(value) => Command::Policy(key, value.to_owned()),
                None => Command::Preset(key),
            }
        }
        "evictions" => Command::EvictionGrace(words.after("take")?.seconds()?),
        "restarts" => Command::Restart(words.after("cost")?.seconds()?),
        "submit" => Command::Submit(Box::new(job(&mut words)?)),
        "fail" => Command::Fail(words.word("a node")?),
        "notice" => Command::Notice(words.word("a node")?, words.seconds()?),
        "return" => Command::Return(words.word("a node")?),
        "at" => Command::At(i64::from(words.seconds()?)),
        "quiet" => Command::Quiet(true),
        "aloud" => Command::Quiet(false),
        "why" => Command::Why(words.word("a job")?),
        "show" => Command::Show(match words.word("what to show")?.as_str() {
            "queues" => Show::Queues,
            "nodes" => Show::Nodes,
            "shares" => Show::Shares,
            "bank" => Show::Bank(words.word("a queue")?),
            "job" => Show::Job(words.word("a job")?),
            other => {
                return Err(format!(
                    "cannot show `{other}`: queues, nodes, shares, bank and job are possible"
                ));
            }
        }),
        other => return Err(format!("there is no command `{other}`")),
    };
    match words.0.next() {
        None => Ok(Some(command)),
        Some(word) => Err(format!("`{word}` is too much")),
    }
}

/// `node a H100 x8 [count 4] [rack r] [spot] [watts 1000 700]`; with a count, numbers follow the name.
fn nodes(words: &mut Words<'_>) -> Result<Command, String> {
    let name = words.word("a name")?;
    let mut node = Node::new(name.as_str());
    node.gpu_type = Some(words.word("a GPU type")?.into());
    let gpus = words.word("how many GPUs, such as x8")?;
    let gpus: i64 = number(gpus.strip_prefix('x').unwrap_or(&gpus))?;
    // More CPU and memory than stories ask for.
    node.allocatable = Resources { gpus, cpu_millis: 1 << 40, memory_bytes: 1 << 60, pods: 250 };
    let mut count = None;
    while let Some(word) = words.0.next() {
        match word {
            "count" => count = Some(words.count()?),
            "in" => {
                node.topology = words.word("domains, such as zone/rack")?.split('/').map(Arc::from).collect();
            }
            "spot" => node.spot = true,
            "watts" => {
                let (idle_watts, gpu_watts) = (words.number("idle watts")?, words.number("watts per GPU")?);
                node.power = Some(Power { idle_watts, gpu_watts });
            }
            other => return Err(format!("a node has no `{other}`")),
        }
    }
    let Some(count) = count else { return Ok(Command::Nodes(vec![node])) };
    let width = count.to_string().len();
    let numbered = (1..=count)
        .map(|number| Node { name: NodeName::from(format!("{name}{number:0width$}")), ..node.clone() });
    Ok(Command::Nodes(numbered.collect()))
}

fn queue(words: &mut Words<'_>) -> Result<QueueTemplate, String> {
    let mut queue = Queue::new(words.word("a name")?.as_str());
    let (mut quota, mut limit, mut lend) = (None, None, None);
    while let Some(word) = words.0.next() {
        match word {
            "under" => queue.parent = Some(words.word("a queue")?.into()),
            "quota" => quota = Some(words.number("GPUs")?),
            "limit" => limit = Some(words.number("GPUs")?),
            "lends" => lend = Some(words.number("GPUs")?),
            "weight" => queue.weight = words.number("a weight")?,
            "reclaims" => {
                queue.reclaim = Reclaim { grace_seconds: words.after("after")?.seconds()?, ..queue.reclaim }
            }
            "protects" => queue.reclaim = Reclaim { min_run_seconds: words.seconds()?, ..queue.reclaim },
            "half-life" => queue.half_life_seconds = words.seconds()?,
            "banks" => {
                let cap = u64::from(words.after("up")?.after("to")?.number::<u32>("GPU-hours")?);
                queue.bank = Some(BankTerms { earn_millis: 1000, cap_gpu_seconds: cap * 3_600 });
            }
            "up" => {
                let tier = words.after("to")?.word("a tier")?;
                let known = Tier::named(&tier).ok_or_else(|| format!("there is no tier `{tier}`"))?;
                queue.highest_tier = Some(known);
            }
            "out-of-budget" => queue.out_of_budget = true,
            other => return Err(format!("a queue has no `{other}`")),
        }
    }
    Ok(QueueTemplate { queue, quota, limit, lend })
}

/// `submit [COUNT of] NAME to QUEUE needs GPUS [xMEMBERS] runs TIME …`.
fn job(words: &mut Words<'_>) -> Result<JobTemplate, String> {
    let first = words.word("a name")?;
    let (count, name) = match first.parse::<u32>() {
        Ok(count) if count <= COUNT_MAX => (Some(count), words.after("of")?.word("a name")?),
        Ok(_) => return Err(format!("the most is {COUNT_MAX}")),
        Err(_) => (None, first),
    };
    let queue = words.after("to")?.word("a queue")?;
    let gpus = words.after("needs")?.number("GPUs")?;
    let mut job = JobTemplate {
        count,
        name,
        queue,
        gpus,
        gpu_types: Vec::new(),
        members: 1,
        run_seconds: 0,
        priority: 0,
        checkpoint_seconds: None,
        deadline_seconds: None,
        terms: Terms::default(),
    };
    while let Some(word) = words.0.next() {
        if let Some(members) = word.strip_prefix('x') {
            job.members = number(members)?;
            continue;
        }
        match word {
            "runs" => job.run_seconds = words.seconds()?,
            "on" => job.gpu_types = words.word("GPU types")?.split('|').map(GpuType::from).collect(),
            "saves" => {
                job.checkpoint_seconds = Some(words.after("every")?.seconds()?);
                job.terms.eviction = EvictionTerms { checkpoints: true, ..job.terms.eviction };
            }
            "priority" => job.priority = words.number("a priority")?,
            "within" => job.terms.time_limit_seconds = Some(words.seconds()?),
            "by" => job.deadline_seconds = Some(i64::from(words.seconds()?)),
            "stays" => job.terms.eviction = EvictionTerms { never: true, ..job.terms.eviction },
            "together" => {
                let required = Some(Level(words.after("in")?.number("a level")?));
                job.terms.topology = TopologyTerms { required, ..job.terms.topology };
            }
            "segments" => {
                let members = words.after("of")?.number("members")?;
                let level = Level(words.after("in")?.number("a level")?);
                let segment = Some(Segment { members, level });
                job.terms.topology = TopologyTerms { segment, ..job.terms.topology };
            }
            "spot" => job.terms.takes_spot = true,
            other => return Err(format!("a job has no `{other}`")),
        }
    }
    if job.members == 0 {
        return Err("a job has at least one member".to_owned());
    }
    Ok(job)
}

/// What is left of a line.
struct Words<'a>(std::vec::IntoIter<&'a str>);

impl Words<'_> {
    fn word(&mut self, what: &str) -> Result<String, String> {
        self.0.next().map(str::to_owned).ok_or_else(|| format!("{what} is missing"))
    }

    fn number<N: std::str::FromStr>(&mut self, what: &str) -> Result<N, String> {
        let word = self.word(what)?;
        number(&word)
    }

    fn count(&mut self) -> Result<u32, String> {
        let count: u32 = self.number("a count")?;
        if (1..=COUNT_MAX).contains(&count) {
            Ok(count)
        } else {
            Err(format!("must be from 1 to {COUNT_MAX}"))
        }
    }

    fn after(&mut self, word: &str) -> Result<&mut Self, String> {
        match self.0.next() {
            Some(found) if found == word => Ok(self),
            found => Err(format!("`{word}` is expected, not `{}`", found.unwrap_or("the end"))),
        }
    }

    /// Such as `90s`, `5m`, `1h30m`, `2d`.
    fn seconds(&mut self) -> Result<u32, String> {
        let word = self.word("a time")?;
        seconds(&word).ok_or_else(|| format!("`{word}` is not a time, such as 90s, 5m, 1h30m or 2d"))
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("`{text}` is not such a number"))
}

fn seconds(text: &str) -> Option<u32> {
    let mut seconds: u32 = 0;
    let mut digits = String::new();
    for letter in text.chars() {
        let unit = match letter {
            '0'..='9' => {
                digits.push(letter);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return None,
        };
        seconds = seconds.checked_add(digits.parse::<u32>().ok()?.checked_mul(unit)?)?;
        digits.clear();
    }
    digits.is_empty().then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::{Command, parse, seconds};

    #[test]
    fn times_are_read() {
        for (text, expect) in
            [("90s", Some(90)), ("1h30m", Some(5_400)), ("2d", Some(172_800)), ("5", None), ("x", None)]
        {
            assert_eq!(seconds(text), expect, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, expect) in [
            ("fly", "there is no command `fly`"),
            ("at noon", "`noon` is not a time, such as 90s, 5m, 1h30m or 2d"),
            ("submit a to q", "`needs` is expected, not `the end`"),
            ("submit a to q needs 1 dances", "a job has no `dances`"),
            ("quiet please", "`please` is too much"),
        ] {
            assert_eq!(parse(line).unwrap_err(), expect);
        }
        assert_eq!(parse("  # nothing").unwrap(), None);
        assert_eq!(parse("at 1m # later").unwrap(), Some(Command::At(60)));
    }
}
