//! Strikes on a training: a notice of the cloud, a process that is killed.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::run::{Attempt, AttemptOutcome};
use seeded_random::Random;

use super::trial::Trial;
use super::yard::Yard;
use crate::observe::node_of;

/// What EC2 says two minutes before it takes a machine back.
const NOTICE: &str = r#"{"action": "terminate", "time": "2030-01-01T00:02:00Z"}"#;

/// One interruption of an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strike {
    /// The kind of strike.
    pub kind: Kind,
    /// The member that is killed, or whose node gets the notice.
    pub rank: u32,
    /// After how many steps of the attempt; 0 while it starts.
    pub after_steps: u64,
    /// And how much later, within a step.
    pub delay: Duration,
}

/// With or without notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The metadata endpoint of the member's node answers with an interruption.
    Notice,
    /// SIGKILL to the member's process.
    Kill,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Struck {
    /// The strike.
    pub strike: Strike,
    /// The attempt that it was done to, as the status tells of it.
    pub attempt: Attempt,
    /// When the endpoint first said it, in seconds since 1970.
    pub answered: Option<f64>,
}

/// So many notices and kills, at random moments of attempts.
pub fn draw(random: &mut Random, notices: usize, kills: usize, members: u32) -> Vec<Strike> {
    // At most this many steps into an attempt: later strikes test nothing new.
    const AFTER_STEPS_MAX: u64 = 20;
    let kinds = [vec![Kind::Notice; notices], vec![Kind::Kill; kills]].concat();
    let strike = |kind| Strike {
        kind,
        rank: u32::try_from(random.below(u64::from(members))).unwrap_or(0),
        after_steps: if random.below(10) == 0 { 0 } else { 1 + random.below(AFTER_STEPS_MAX) },
        delay: Duration::from_millis(random.below(50)),
    };
    kinds.into_iter().map(strike).collect()
}

impl Strike {
    /// Does it to an attempt, waits until that is over, and takes a notice back. The Run goes on by itself.
    pub async fn hit(self, yard: &Yard, trial: &Trial, number: u32) -> anyhow::Result<Struck> {
        if self.after_steps == 0 {
            trial.running(yard, number).await?;
        } else {
            trial.steps_done(yard, number, self.after_steps).await?;
        }
        // Nothing is waited for here: this is where in the step it happens.
        tokio::time::sleep(self.delay).await;
        let pods = trial.pods(yard, number).await?;
        let pod = pods.get(usize::try_from(self.rank)?).context("the attempt lacks a member")?;
        let node = yard.node(node_of(pod).context("the member has no node")?)?;
        if self.kind == Kind::Kill {
            kill(&node.machine.processes(), &trial.folder.display().to_string(), self.rank)?;
        } else {
            node.metadata.say(Some(NOTICE));
        }
        let attempt = trial.ended(yard, number).await?;
        let answered = node.metadata.answered_at().map(seconds);
        node.metadata.say(None);
        let (outcome, reason) = (attempt.outcome, attempt.reason.as_deref());
        let expected = match self.kind {
            Kind::Notice => (Some(AttemptOutcome::Interrupted), Some("SpotNotice")),
            Kind::Kill => (Some(AttemptOutcome::Failed), Some("MemberFailed")),
        };
        ensure!((outcome, reason) == expected, "{self:?} ended attempt {number} so: {attempt:?}");
        eprintln!("Attempt {number}: {self:?}: {}", attempt.message.as_deref().unwrap_or_default());
        Ok(Struck { strike: self, attempt, answered })
    }
}

/// Seconds since 1970, as members write them.
pub fn seconds(at: jiff::Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

/// SIGKILL to the process of a member, found among those of its node by its environment.
fn kill(processes: &[u32], folder: &str, rank: u32) -> anyhow::Result<()> {
    let wanted = [format!("TEST_OUT={folder}"), format!("RANK={rank}")];
    let is_it = |pid: &&u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let variables: Vec<_> = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        wanted.iter().all(|wanted| variables.iter().any(|it| it == wanted))
    };
    let member = processes.iter().find(is_it).context("the member has no process")?;
    let status = Command::new("kill").args(["-KILL", &member.to_string()]).status()?;
    ensure!(status.success(), "kill says {status}");
    Ok(())
}
