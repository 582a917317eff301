//! A caller's request to change an existing run, and its patch. Pure.
//!
//! ```text
//!              goes on                   paused               failed               succeeded   stopped
//!   pause      saves, gives GPUs back    stays                409                  409         409
//!   resume     409: is not paused        goes on              409: retry           409         409
//!    … from    saves, begins from there  begins from there    begins from there    409         409
//!   retry      409, or does not wait     409: resume          begins again         409         409
//! ```
//!
//! `stop` is not here: any run may be stopped. A repeated request succeeds without a write. A run whose time
//! limit is used up is not begun again. A patch that increments `restarts` names the version of the run that it
//! was decided from: of two that are sent at once, one is a conflict.

use api_types::run::Progress;
use api_types::{Run, RunPhase};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::problem::ApiError;

/// The largest step, which is the largest whole number that every JSON reader keeps.
const STEP_MAX: i64 = 9_007_199_254_740_991;

/// The request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Save, and give the GPUs back for now.
    Pause,
    /// Go on; or begin again from a step.
    Resume {
        /// The step; 0 is the beginning.
        from: Option<Step>,
    },
    /// Try a failed run again.
    Retry,
}

/// A step of a run.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(try_from = "i64")]
pub struct Step(i64);

impl TryFrom<i64> for Step {
    type Error = String;

    fn try_from(step: i64) -> Result<Self, String> {
        let known = 0..=STEP_MAX;
        if known.contains(&step) { Ok(Self(step)) } else { Err(format!("a step is 0 to {STEP_MAX}")) }
    }
}

/// The situation of a run, as far as requests depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunSituation {
    GoesOn,
    Paused,
    Failed,
    Succeeded,
    Stopped,
}

impl Intent {
    /// The patch; `None` if there is nothing to write, because the same was requested before.
    pub fn patch(self, run: &Run) -> Result<Option<Value>, ApiError> {
        let standing = RunSituation::of(run);
        match (self, standing) {
            (_, RunSituation::Stopped) => Err(refused("RunStopped", "a stopped run stays stopped", SUBMIT)),
            (Self::Retry, RunSituation::Succeeded) => {
                Err(refused("RunSucceeded", "the run succeeded: there is nothing to try again", SUBMIT))
            }
            (_, RunSituation::Succeeded) => {
                Err(refused("RunSucceeded", "the run is over: it succeeded", SUBMIT))
            }
            (Self::Pause, RunSituation::Failed) => {
                Err(refused("RunFailed", "the run is over: it failed", retry_hint(run)))
            }
            (Self::Pause, _) => Ok(Some(json!({ "spec": { "pause": true } }))),
            (Self::Resume { from: None }, RunSituation::Failed) => {
                Err(refused("RunFailed", "the run is not paused: it failed", retry_hint(run)))
            }
            (Self::Resume { from: None }, RunSituation::GoesOn) => {
                Err(refused("NotPaused", "the run is not paused", goes_on_hint(run)))
            }
            (Self::Resume { from: None }, RunSituation::Paused) => {
                Ok(Some(json!({ "spec": { "pause": false } })))
            }
            (Self::Resume { from: Some(step) }, _) => resume_from(run, step),
            (Self::Retry, RunSituation::Failed) => restart(run, None).map(Some),
            (Self::Retry, RunSituation::Paused) => Err(refused(
                "NotFailed",
                "the run did not fail: it is paused",
                "let it go on: `warpyard resume`",
            )),
            (Self::Retry, RunSituation::GoesOn) if is_asked_for(run) => Ok(None),
            // It has failed, and waits before it tries again by itself.
            (Self::Retry, RunSituation::GoesOn) if is_waiting_to_retry(run) => restart(run, None).map(Some),
            (Self::Retry, RunSituation::GoesOn) => {
                Err(refused("NotFailed", "the run did not fail: it goes on", goes_on_hint(run)))
            }
        }
    }
}

const SUBMIT: &str = "submit it again, under another name";

fn retry_hint(run: &Run) -> &'static str {
    if run.spec.checkpoint.is_none() {
        return "try it again: `warpyard retry`";
    }
    "try it again: `warpyard retry`; or from a step: `warpyard resume --from STEP`"
}

fn goes_on_hint(run: &Run) -> &'static str {
    let has_started = run.status.iter().flat_map(|status| &status.attempts).any(|it| it.started_at.is_some());
    if run.spec.checkpoint.is_none() || !has_started {
        return "see what it does: `warpyard show`, or `warpyard why`";
    }
    "to save and begin again from a step: `warpyard resume --from STEP`"
}

fn is_waiting_to_retry(run: &Run) -> bool {
    run.status.as_ref().is_some_and(|status| status.next_attempt_at.is_some())
}

impl RunSituation {
    fn of(run: &Run) -> Self {
        let phase = run.status.as_ref().map(|status| status.phase).unwrap_or_default();
        match phase {
            RunPhase::Succeeded => Self::Succeeded,
            RunPhase::Stopped => Self::Stopped,
            _ if run.spec.stop => Self::Stopped,
            RunPhase::Failed if !is_asked_for(run) => Self::Failed,
            RunPhase::Paused => Self::Paused,
            _ if run.spec.pause => Self::Paused,
            _ => Self::GoesOn,
        }
    }
}

/// Whether another attempt was requested and the controllers have not begun it yet.
fn is_asked_for(run: &Run) -> bool {
    run.spec.restarts > run.status.as_ref().map_or(0, |status| status.restarts)
}

fn resume_from(run: &Run, step: Step) -> Result<Option<Value>, ApiError> {
    if run.spec.checkpoint.is_none() {
        let hint = "name a volume in the job file as `checkpoints`, and submit it as another run";
        return Err(refused(
            "NoCheckpoints",
            "the run keeps no checkpoints: there is no step to begin from",
            hint,
        ));
    }
    // A run that has not reached the step has no checkpoint of it. Without reports this is unknown.
    let progress = run.status.as_ref().and_then(|status| status.progress.as_ref());
    let is_before = |reached: &u64| i64::try_from(*reached).is_ok_and(|reached| reached < step.0);
    if let Some(reached) = progress.map(furthest).filter(is_before) {
        let detail = format!("there is no checkpoint of step {}: the run has come to step {reached}", step.0);
        let hint = "`warpyard show` names the newest checkpoint; the last two are kept";
        return Err(refused("NoSuchStep", &detail, hint));
    }
    if is_asked_for(run) && !run.spec.pause && run.spec.resume_step == Some(step.0) {
        return Ok(None);
    }
    restart(run, Some(step)).map(Some)
}

/// The furthest known step of any attempt.
fn furthest(progress: &Progress) -> u64 {
    progress.ranges.iter().map(|range| range.to).chain([progress.step]).max().unwrap_or(0)
}

/// One more attempt, for this version of the run alone.
fn restart(run: &Run, from: Option<Step>) -> Result<Value, ApiError> {
    let version =
        run.metadata.resource_version.as_deref().ok_or_else(|| {
            ApiError::unavailable("NotReady", "the server does not know the run's version yet")
        })?;
    let used_seconds = run.status.as_ref().map_or(0, |status| status.used_seconds);
    if run.spec.time_limit_seconds.is_some_and(|limit| limit <= used_seconds) {
        let hint = "submit it under another name, with a longer `time`: it begins from the beginning, unless you copy \
                    the checkpoints";
        return Err(refused("TimeLimitExceeded", "the run's time limit is used up", hint));
    }
    let restarts = run
        .spec
        .restarts
        .checked_add(1)
        .ok_or_else(|| refused("TooManyRestarts", "the run was started again too often", SUBMIT))?;
    // A `null` removes the step of a former attempt.
    let step = from.map(|Step(step)| step);
    Ok(json!({
        "metadata": { "resourceVersion": version },
        "spec": { "pause": false, "restarts": restarts, "resumeStep": step },
    }))
}

fn refused(code: &str, detail: &str, hint: &str) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, code, detail).hint(hint)
}

#[cfg(test)]
mod tests {
    use api_types::run::{CheckpointVolume, Progress};
    use api_types::{Run, RunPhase, RunSpec, RunStatus};
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    use super::{Intent, Step};

    const PAUSE: Intent = Intent::Pause;
    const RESUME: Intent = Intent::Resume { from: None };
    const FROM: Intent = Intent::Resume { from: Some(Step(120)) };
    const RETRY: Intent = Intent::Retry;

    fn run(phase: RunPhase) -> Run {
        let checkpoint = Some(CheckpointVolume { claim: "ckpt".to_owned() });
        let mut run = Run::new("a", RunSpec { members: 1, restarts: 4, checkpoint, ..RunSpec::default() });
        run.metadata.resource_version = Some("77".to_owned());
        run.status = Some(RunStatus { phase, restarts: 4, ..RunStatus::default() });
        run
    }

    /// The patch, or the status and code of the refusal.
    type Answer = Result<Option<Value>, (u16, String)>;

    fn answer(intent: Intent, run: &Run) -> Answer {
        intent.patch(run).map_err(|error| (error.0.status, error.0.code))
    }

    fn refused(code: &str) -> Answer {
        Err((409, code.to_owned()))
    }

    fn restart(step: Option<i64>) -> Value {
        let spec = json!({ "pause": false, "restarts": 5, "resumeStep": step });
        json!({ "metadata": { "resourceVersion": "77" }, "spec": spec })
    }

    #[test]
    fn what_may_be_asked_depends_on_where_the_run_is() {
        let pause = || Ok(Some(json!({ "spec": { "pause": true } })));
        let goes_on = || Ok(Some(json!({ "spec": { "pause": false } })));
        for (phase, expect) in [
            (
                RunPhase::Pending,
                [pause(), refused("NotPaused"), Ok(Some(restart(Some(120)))), refused("NotFailed")],
            ),
            (
                RunPhase::Starting,
                [pause(), refused("NotPaused"), Ok(Some(restart(Some(120)))), refused("NotFailed")],
            ),
            (
                RunPhase::Running,
                [pause(), refused("NotPaused"), Ok(Some(restart(Some(120)))), refused("NotFailed")],
            ),
            (RunPhase::Paused, [pause(), goes_on(), Ok(Some(restart(Some(120)))), refused("NotFailed")]),
            (
                RunPhase::Failed,
                [
                    refused("RunFailed"),
                    refused("RunFailed"),
                    Ok(Some(restart(Some(120)))),
                    Ok(Some(restart(None))),
                ],
            ),
            (RunPhase::Succeeded, [(); 4].map(|()| refused("RunSucceeded"))),
            (RunPhase::Stopped, [(); 4].map(|()| refused("RunStopped"))),
        ] {
            let run = run(phase);
            let got = [PAUSE, RESUME, FROM, RETRY].map(|intent| answer(intent, &run));
            assert_eq!(got, expect, "{phase:?}");
        }
    }

    #[test]
    fn a_step_that_the_run_has_not_come_to_is_refused() {
        let mut run = run(RunPhase::Running);
        let mut progress = Progress {
            step: 119,
            reported_at: Time(Timestamp::UNIX_EPOCH),
            checkpoint: None,
            ranges: vec![],
            loads: vec![],
        };
        run.status.as_mut().unwrap().progress = Some(progress.clone());
        assert_eq!(answer(FROM, &run), refused("NoSuchStep"));
        progress.step = 120;
        run.status.as_mut().unwrap().progress = Some(progress);
        assert_eq!(answer(FROM, &run), Ok(Some(restart(Some(120)))));
    }

    #[test]
    fn who_waits_after_a_failure_need_not_wait() {
        let mut run = run(RunPhase::Pending);
        assert_eq!(answer(RETRY, &run), refused("NotFailed"));
        run.status.as_mut().unwrap().next_attempt_at = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(answer(RETRY, &run), Ok(Some(restart(None))));
    }

    #[test]
    fn a_run_without_time_left_is_not_begun_again() {
        let mut run = run(RunPhase::Failed);
        run.spec.time_limit_seconds = Some(60);
        run.status.as_mut().unwrap().used_seconds = 60;
        assert_eq!([FROM, RETRY].map(|it| answer(it, &run)), [(); 2].map(|()| refused("TimeLimitExceeded")));
        run.status.as_mut().unwrap().used_seconds = 59;
        assert_eq!(answer(RETRY, &run), Ok(Some(restart(None))));
    }

    #[test]
    fn stop_holds_against_all_else() {
        for phase in [RunPhase::Pending, RunPhase::Running, RunPhase::Paused, RunPhase::Failed] {
            let mut run = run(phase);
            run.spec.stop = true;
            for intent in [PAUSE, RESUME, FROM, RETRY] {
                assert_eq!(answer(intent, &run), refused("RunStopped"), "{phase:?} {intent:?}");
            }
        }
    }

    #[test]
    fn a_run_that_is_told_to_pause_goes_on_before_it_is_paused() {
        let mut run = run(RunPhase::Running);
        run.spec.pause = true;
        assert_eq!(answer(RESUME, &run), Ok(Some(json!({ "spec": { "pause": false } }))));
    }

    #[test]
    fn what_was_asked_already_is_not_counted_twice() {
        let mut failed = run(RunPhase::Failed);
        failed.spec.restarts = 5;
        assert_eq!(answer(RETRY, &failed), Ok(None));
        assert_eq!(answer(RESUME, &failed), refused("NotPaused"));
        let mut running = run(RunPhase::Running);
        (running.spec.restarts, running.spec.resume_step) = (5, Some(120));
        assert_eq!(answer(FROM, &running), Ok(None));
        let other = Intent::Resume { from: Some(Step(100)) };
        let patch = answer(other, &running).expect("allowed").expect("another step is another attempt");
        assert_eq!(patch["spec"], json!({ "pause": false, "restarts": 6, "resumeStep": 100 }));
    }

    #[test]
    fn without_checkpoints_there_is_no_step_to_begin_from() {
        let mut run = run(RunPhase::Running);
        run.spec.checkpoint = None;
        assert_eq!(answer(FROM, &run), refused("NoCheckpoints"));
    }

    #[test]
    fn a_restart_without_a_version_to_bind_it_to_is_not_sent() {
        let mut run = run(RunPhase::Failed);
        run.metadata.resource_version = None;
        assert_eq!(answer(RETRY, &run), Err((503, "NotReady".to_owned())));
    }

    #[test]
    fn steps_are_whole_numbers_that_every_reader_keeps() {
        for (step, is_one) in
            [(-1, false), (0, true), (9_007_199_254_740_991, true), (9_007_199_254_740_992, false)]
        {
            assert_eq!(Step::try_from(step).is_ok(), is_one, "{step}");
        }
    }
}
