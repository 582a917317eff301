//! Compares a training with repeated strikes with the same training without any: the results must be equal bit
//! by bit.

use api_types::RunStatus;
use api_types::run::Attempt;
use toolbox::figures;

use super::journal::Journal;
use super::judge::{self, Resumed};
use super::script::Script;
use super::strikes::{Kind, Strike, Struck, seconds};
use super::trial::Trial;
use super::yard::Yard;
use crate::bounds;

/// Of a step of 35 ms, while a notice is on its way.
const STEPS_PER_SECOND: u64 = 30;
/// While we see that it is time.
const STEPS_PER_KILL: u64 = 10;

/// The findings of one or more trainings.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Interruptions with notice.
    pub notices: usize,
    /// Processes killed without.
    pub kills: usize,
    /// Steps lost by each notice.
    pub lost_by_notices: Vec<u64>,
    /// Steps lost by each kill.
    pub lost_by_kills: Vec<u64>,
    /// Seconds from each endpoint's first answer to the last member's SIGTERM.
    pub told_seconds: Vec<f64>,
    /// How attempts came back after notices.
    pub resumed: Vec<Resumed>,
    /// By how many seconds the status and the members differ about the work that an attempt lost.
    pub lost_mismatches: Vec<f64>,
    /// Trainings whose result equalled the uninterrupted one.
    pub identical: usize,
    /// Trainings.
    pub trainings: usize,
    /// All problems.
    pub problems: Vec<String>,
}

/// Epochs of `epoch_steps` that outlast all strikes.
pub fn epochs_for(strikes: &[Strike], epoch_steps: u64) -> u64 {
    let steps_per_notice = bounds::MEMBERS_TOLD.allowed().as_secs() * STEPS_PER_SECOND;
    let more = |kind| if kind == Kind::Notice { steps_per_notice } else { STEPS_PER_KILL };
    let steps: u64 = strikes.iter().map(|strike| strike.after_steps + more(strike.kind)).sum();
    steps.div_ceil(epoch_steps) + 1
}

/// Strikes a training, lets it end, and judges it by the one in peace.
pub async fn run(
    yard: &Yard,
    name: &str,
    script: &Script,
    strikes: &[Strike],
    reference: &Journal,
) -> anyhow::Result<Findings> {
    let retries = u32::try_from(strikes.iter().filter(|strike| strike.kind == Kind::Kill).count())?;
    let trial = Trial::start(yard, name, script.clone(), |spec| spec.retries = retries).await?;
    let mut struck = Vec::new();
    for (number, strike) in (1..).zip(strikes) {
        struck.push(strike.hit(yard, &trial, number).await?);
    }
    let status = trial.succeeded(yard).await?;
    Ok(judge(script, &struck, &status, &trial.journal()?, reference))
}

/// Judges the members' records together with the status.
fn judge(
    script: &Script,
    struck: &[Struck],
    status: &RunStatus,
    journal: &Journal,
    reference: &Journal,
) -> Findings {
    let members = usize::try_from(script.members).unwrap_or(usize::MAX);
    let mut found = Findings { trainings: 1, ..Findings::default() };
    let mut kills = 0;
    for Struck { strike, attempt, answered } in struck {
        let number = attempt.number;
        let lost = judge::lost(journal, number).unwrap_or(u64::MAX);
        let of_record = judge::lost_by_rank_0(journal, number);
        match lost_mismatch(journal, status, number) {
            Some((steps, seconds)) if Some(steps) == of_record => found.lost_mismatches.push(seconds),
            told => found
                .problems
                .push(format!("attempt {number} lost {of_record:?} steps, and the status says {told:?}")),
        }
        let bar = if strike.kind == Kind::Notice { 1 } else { script.every_steps.unwrap_or(u64::MAX) };
        if lost > bar {
            found.problems.push(format!("attempt {number} lost {lost} steps by {strike:?}"));
        }
        if strike.kind == Kind::Kill {
            kills += 1;
            found.lost_by_kills.push(lost);
            continue;
        }
        found.lost_by_notices.push(lost);
        let told = answered.and_then(|since| judge::told_after(journal, number, members, since));
        found.told_seconds.extend(told);
        if told.is_none() && strike.after_steps > 0 {
            found.problems.push(format!("not every member of attempt {number} was told"));
        }
        found.resumed.extend(resumed(journal, attempt, members));
    }
    (found.notices, found.kills) = (struck.len() - kills, kills);
    let identical = journal.fingerprint().is_some() && journal.fingerprint() == reference.fingerprint();
    found.identical = usize::from(identical);
    if !identical {
        found.problems.push("the final parameters differ".to_owned());
    }
    for (what, steps) in [
        ("the losses differ", judge::different_losses(reference, journal)),
        ("two commits have them", judge::committed_twice(journal)),
        ("no commit has them", judge::never_committed(journal)),
    ] {
        if !steps.is_empty() {
            found.problems.push(format!("{what}: steps {steps:?}"));
        }
    }
    // Notices cost no retry.
    if usize::try_from(status.failures) != Ok(kills) || status.attempts.len() != struck.len() + 1 {
        found.problems.push(format!("{kills} of {} attempts failed, and: {status:?}", struck.len()));
    }
    found
}

/// The steps that the status says an attempt lost, and by how much its seconds differ from those since the members'
/// commit. All times are whole seconds, as those of Kubernetes are: the attempt's end is that of its last container.
fn lost_mismatch(journal: &Journal, status: &RunStatus, number: u32) -> Option<(u64, f64)> {
    let attempt = status.attempts.iter().find(|attempt| attempt.number == number)?;
    let (started, ended) = (seconds(attempt.started_at.as_ref()?.0), seconds(attempt.ended_at.as_ref()?.0));
    let committed = judge::loaded_committed_at(journal, number).unwrap_or(started);
    let (lost, expected) = (attempt.lost?, ended - committed.floor().max(started));
    let told = f64::from(u32::try_from(lost.seconds).unwrap_or(u32::MAX));
    Some((lost.steps, (told - expected).abs()))
}

fn resumed(journal: &Journal, attempt: &Attempt, members: usize) -> Option<Resumed> {
    let ended = attempt.ended_at.as_ref()?.0;
    judge::resumed_after(journal, attempt.number + 1, members, seconds(ended))
}

impl Findings {
    /// Takes in what another training showed.
    pub fn add(&mut self, other: Self) {
        self.notices += other.notices;
        self.kills += other.kills;
        self.lost_by_notices.extend(other.lost_by_notices);
        self.lost_by_kills.extend(other.lost_by_kills);
        self.told_seconds.extend(other.told_seconds);
        self.resumed.extend(other.resumed);
        self.lost_mismatches.extend(other.lost_mismatches);
        self.identical += other.identical;
        self.trainings += other.trainings;
        self.problems.extend(other.problems);
    }

    /// Everything that is wrong, and every time that is longer than its bar allows.
    pub fn missed(&self) -> Vec<String> {
        let mut missed = self.problems.clone();
        let told = self.told_longest();
        if told > bounds::MEMBERS_TOLD.allowed_seconds() {
            missed.push(format!("the last member was told after {told} s"));
        }
        let resumed = self.resumed_longest();
        if resumed > bounds::WORK_RESUMED.allowed_seconds() {
            missed.push(format!("training went on after {resumed} s beside the import"));
        }
        let mismatch = self.lost_mismatch_largest();
        if mismatch > bounds::LOSS_DIFFERS.allowed_seconds() {
            missed.push(format!("the status and the members differ by {mismatch} s about what was lost"));
        }
        missed
    }

    /// The largest difference about lost seconds.
    pub fn lost_mismatch_largest(&self) -> f64 {
        self.lost_mismatches.iter().copied().fold(0.0, f64::max)
    }

    /// The longest way from an endpoint's answer to the last member.
    pub fn told_longest(&self) -> f64 {
        self.told_seconds.iter().copied().fold(0.0, f64::max)
    }

    /// The longest way back, without the import.
    pub fn resumed_longest(&self) -> f64 {
        self.resumed.iter().map(|it| it.seconds).fold(0.0, f64::max)
    }

    /// Prints the figures, under names that begin with `ids`; `about` says of what.
    pub fn print(&self, ids: &str, about: &str) {
        let lost = |all: &[u64]| all.iter().copied().max().unwrap_or(0);
        let about = format!("{} notices and {} kills; {about}", self.notices, self.kills);
        let print = |id: &str, value: f64, unit: &str, bar: &str| {
            figures::print(&format!("{ids}.{id}"), value, unit, &format!("{bar}; {about}"));
        };
        print("noticed_interruptions", figures::count(self.notices), "interruptions", "bar: 20");
        print("steps_lost_per_notice_max", count(lost(&self.lost_by_notices)), "steps", "bar: 1");
        print("steps_lost_per_kill_max", count(lost(&self.lost_by_kills)), "steps", "bar: one interval");
        let identical = f64::from(u8::from(self.identical == self.trainings));
        print("bit_identical", identical, "yes", &format!("{} trainings", self.trainings));
        let told =
            format!("the longest of {}; middle {:.2}; bar: 2", self.told_seconds.len(), self.told_middle());
        print("notice_to_told_seconds", self.told_longest(), "s", &told);
        let import = self.resumed.iter().map(|it| it.import_seconds).fold(0.0, f64::max);
        let resumed = format!(
            "from the end of an attempt to the next one's first step, without the import of up to {import:.1} s; the \
             longest of {}; middle {:.2}; bar: 10",
            self.resumed.len(),
            middle(self.resumed.iter().map(|it| it.seconds)),
        );
        print("resume_seconds", self.resumed_longest(), "s", &resumed);
        let mismatch = format!(
            "what the status says of {} attempts, beside their members' records; all steps agree; bar: 1",
            self.lost_mismatches.len()
        );
        print("lost_work_mismatch_seconds", self.lost_mismatch_largest(), "s", &mismatch);
    }

    fn told_middle(&self) -> f64 {
        middle(self.told_seconds.iter().copied())
    }
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn count(number: u64) -> f64 {
    figures::count(usize::try_from(number).unwrap_or(usize::MAX))
}
