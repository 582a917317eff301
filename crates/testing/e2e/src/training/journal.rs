//! Reads the members' records while they grow.

use std::fs;
use std::path::Path;

use serde::Deserialize;

/// Everything that all members of a training wrote, over all attempts.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// In the order of each member.
    pub events: Vec<Event>,
    /// In the order of each member.
    pub steps: Vec<Step>,
}

/// Something that happened to a member.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Event {
    /// `began`, `imported`, `told`, `left`, `loaded`, `committed`, `stalled` or `finished`.
    pub what: String,
    /// In which attempt.
    pub attempt: u32,
    /// To whom.
    pub rank: u32,
    /// When, in seconds since 1970.
    pub at: f64,
    /// `loaded`: what it began from; `committed`: what is safe.
    #[serde(default)]
    pub step: u64,
    /// `committed`: what was safe before.
    #[serde(default)]
    pub since: u64,
    /// `imported`, `stalled`: for how long.
    #[serde(default)]
    pub seconds: f64,
    /// `finished`: the parameters' hash.
    #[serde(default)]
    pub fingerprint: Option<String>,
}

/// A step of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// In which attempt.
    pub attempt: u32,
    /// By whom.
    pub rank: u32,
    /// Which step, from 1.
    pub step: u64,
    /// How many ranks took it.
    pub world_size: u32,
    /// The loss, bit by bit.
    pub loss: u64,
    /// When it was done, in seconds since 1970.
    pub at: f64,
}

impl Journal {
    /// Reads the present records.
    pub fn read(folder: &Path, members: u32) -> anyhow::Result<Self> {
        let mut journal = Self::default();
        for rank in 0..members {
            for line in lines(&folder.join(format!("events-{rank}")))? {
                journal.events.push(serde_json::from_str(&line)?);
            }
            for line in lines(&folder.join(format!("steps-{rank}")))? {
                journal.steps.push(step(rank, &line)?);
            }
        }
        Ok(journal)
    }

    /// Events of an attempt.
    pub fn events_of<'a>(&'a self, attempt: u32, what: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |event| event.attempt == attempt && event.what == what)
    }

    /// Steps of an attempt.
    pub fn steps_of(&self, attempt: u32) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(move |step| step.attempt == attempt)
    }

    /// The last step that any member has done in an attempt.
    pub fn reached(&self, attempt: u32) -> Option<u64> {
        self.steps_of(attempt).map(|step| step.step).max()
    }

    /// The step that an attempt began from.
    pub fn loaded(&self, attempt: u32) -> Option<u64> {
        self.events_of(attempt, "loaded").map(|event| event.step).next()
    }

    /// How many steps any member has done in an attempt.
    pub fn steps_done(&self, attempt: u32) -> u64 {
        let done = self.reached(attempt).zip(self.loaded(attempt));
        done.map_or(0, |(reached, loaded)| reached.saturating_sub(loaded))
    }

    /// The last attempt of which anything is known.
    pub fn last_attempt(&self) -> u32 {
        self.events.iter().map(|event| event.attempt).max().unwrap_or(0)
    }

    /// The hash of the final parameters.
    pub fn fingerprint(&self) -> Option<&str> {
        self.events.iter().find_map(|event| event.fingerprint.as_deref())
    }
}

/// Whole lines; none of a file that is not there yet.
fn lines(path: &Path) -> anyhow::Result<Vec<String>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    Ok(whole.lines().map(str::to_owned).collect())
}

fn step(rank: u32, line: &str) -> anyhow::Result<Step> {
    let words: Vec<&str> = line.split(' ').collect();
    let [attempt, step, world_size, loss, at] = words[..] else { anyhow::bail!("no step: {line:?}") };
    Ok(Step {
        attempt: attempt.parse()?,
        rank,
        step: step.parse()?,
        world_size: world_size.parse()?,
        loss: u64::from_str_radix(loss, 16)?,
        at: at.parse()?,
    })
}
