//! One job on its way: how much it has done, what it would lose.
//!
//! ```text
//!              placed                 all work done
//!   waiting ────────────► running ─────────────────────► ended
//!      ▲                     │ evicted
//!      │      after grace    ▼
//!      └────────────────── leaving      (holds its nodes until it is gone)
//!      ▲                     │
//!      └─────────────────────┴── a node of it is lost: gone at once
//! ```

use trace_format::Job;

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    Running,
    Leaving,
}

/// A job that has been submitted and has not ended. Work is counted in member-seconds: a job of 4 members that runs for
/// 10 s has done 40.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub phase: Phase,
    /// Which attempt it is, from 1.
    pub number: u32,
    /// Grows with every change of phase or speed; agenda entries for an older version are void.
    pub version: u32,
    /// Since when it waits, while it waits.
    pub waiting_since: i64,
    /// The nodes of its members, by member; those without are `None`.
    pub nodes: Vec<Option<u32>>,
    /// When this attempt started to do work: after its start-up.
    working_since: i64,
    /// The time up to which `done` is computed.
    reckoned_at: i64,
    /// Done in this attempt.
    done: u64,
    /// Saved by earlier attempts.
    saved: u64,
    /// The last checkpoint of this attempt, or when it started.
    pub saved_at: i64,
    /// GPU time of this attempt in thousandths of a GPU × seconds.
    pub spent: u64,
}

impl Attempt {
    pub fn new(job: &Job, now: i64) -> Self {
        Self {
            phase: Phase::Waiting,
            number: 1,
            version: 0,
            waiting_since: now,
            nodes: vec![None; job.members as usize],
            working_since: now,
            reckoned_at: now,
            done: 0,
            saved: 0,
            saved_at: now,
            spent: 0,
        }
    }

    pub fn placed(&self) -> u32 {
        u32::try_from(self.nodes.iter().flatten().count()).unwrap_or(u32::MAX)
    }

    /// Members got nodes. Returns when its work will be done.
    pub fn start(&mut self, job: &Job, now: i64, start_up_seconds: u32, before: u32) -> i64 {
        if self.phase == Phase::Waiting {
            self.phase = Phase::Running;
            self.working_since = now + i64::from(start_up_seconds);
            self.reckoned_at = now;
            self.saved_at = now;
            (self.done, self.spent) = (0, 0);
        } else {
            self.reckon(job, now, before);
        }
        self.version += 1;
        let left = work(job).saturating_sub(self.saved + self.done);
        let speed = u64::from(self.placed().max(1));
        let seconds = i64::try_from(left.div_ceil(speed)).unwrap_or(i64::MAX);
        self.working_since.max(now).saturating_add(seconds)
    }

    /// What it did since it was last computed, with this many members.
    fn reckon(&mut self, job: &Job, now: i64, members: u32) {
        let worked = (now - self.working_since.max(self.reckoned_at)).max(0).unsigned_abs();
        self.done += worked * u64::from(members);
        let each = job.gpu_millis() / u64::from(job.members.max(1));
        self.spent += (now - self.reckoned_at).max(0).unsigned_abs() * u64::from(members) * each;
        self.reckoned_at = now;
    }

    /// It stops here and goes back to the queue. Returns what is lost, in thousandths of a GPU × seconds: what was
    /// spent and not saved.
    pub fn interrupt(&mut self, job: &Job, now: i64) -> u64 {
        let members = self.placed();
        self.reckon(job, now, members);
        let each = job.gpu_millis() / u64::from(job.members.max(1));
        let kept = match job.checkpoint_seconds.filter(|every| *every > 0) {
            Some(every) => {
                let worked = (now - self.working_since).max(0).unsigned_abs();
                // With a change of speed since the last checkpoint this is what the present speed would have lost.
                self.done.saturating_sub(worked % u64::from(every) * u64::from(members))
            }
            None => 0,
        };
        self.saved += kept;
        let lost = self.spent.saturating_sub(kept * each);
        self.phase = Phase::Waiting;
        self.number += 1;
        self.version += 1;
        self.waiting_since = now;
        self.nodes.fill(None);
        (self.done, self.spent) = (0, 0);
        lost
    }

    /// It ended: what it spent in this attempt, in thousandths of a GPU × seconds.
    pub fn finish(&mut self, job: &Job, now: i64) -> u64 {
        self.reckon(job, now, self.placed());
        self.version += 1;
        self.spent
    }
}

/// All the work of a job.
fn work(job: &Job) -> u64 {
    u64::from(job.run_seconds_within_limit()) * u64::from(job.members)
}

#[cfg(test)]
mod tests {
    use super::{Attempt, Phase};
    use cluster_model::Resources;
    use jiff::Timestamp;
    use trace_format::Job;

    fn job(checkpoint_seconds: Option<u32>) -> Job {
        Job {
            run_seconds: 1000,
            members: 2,
            members_min: 2,
            requests: Resources { gpus: 4, pods: 1, ..Resources::default() },
            checkpoint_seconds,
            ..Job::new("a", "q", Timestamp::UNIX_EPOCH)
        }
    }

    fn placed(attempt: &mut Attempt) {
        attempt.nodes.fill(Some(0));
    }

    #[test]
    fn an_interruption_loses_what_was_done_since_the_last_checkpoint() {
        for (checkpoint, lost_seconds, ends_again_at) in
            [(Some(300), 50, 2_400), (None, 650, 3_000), (Some(5_000), 650, 3_000)]
        {
            let job = job(checkpoint);
            let mut attempt = Attempt::new(&job, 0);
            placed(&mut attempt);
            assert_eq!(attempt.start(&job, 100, 0, 0), 1_100);
            // 650 s later: two checkpoints of 300 s are saved.
            let lost = attempt.interrupt(&job, 750);
            assert_eq!(lost, lost_seconds * 8_000, "checkpoint {checkpoint:?}");
            assert_eq!(attempt.phase, Phase::Waiting);
            placed(&mut attempt);
            assert_eq!(attempt.start(&job, 2_000, 0, 0), ends_again_at);
        }
    }

    #[test]
    fn start_up_is_spent_and_lost_but_no_work() {
        let job = job(Some(100));
        let mut attempt = Attempt::new(&job, 0);
        placed(&mut attempt);
        assert_eq!(attempt.start(&job, 0, 60, 0), 1_060);
        assert_eq!(attempt.interrupt(&job, 260), 60 * 8_000);
        placed(&mut attempt);
        assert_eq!(attempt.start(&job, 300, 60, 0), 300 + 60 + 800);
    }

    #[test]
    fn more_members_finish_sooner() {
        let job = Job { members_min: 1, ..job(None) };
        let mut attempt = Attempt::new(&job, 0);
        attempt.nodes[0] = Some(3);
        assert_eq!(attempt.start(&job, 0, 0, 0), 2_000);
        attempt.nodes[1] = Some(3);
        // 1,000 of 2,000 member-seconds are done by then.
        assert_eq!(attempt.start(&job, 1_000, 0, 1), 1_500);
    }
}
