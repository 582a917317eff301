//! Waits for a run's end by polling.

use std::time::Duration;

use api_client::{Client, Error};
use api_types::RunPhase;
use api_types::rest::RunView;
use tokio::time::Instant;

use crate::args::Wait;
use crate::exit::{Exit, Failure};
use crate::render::clean;

/// Polled every second in the first minute, in which short runs end; then every five seconds.
const EAGER_INTERVAL: Duration = Duration::from_secs(1);
const EAGER_TIME: Duration = Duration::from_mins(1);
const PATIENT_INTERVAL: Duration = Duration::from_secs(5);
/// Failures in a row that are tolerated: a server that restarts is back within 12 × 5 s.
const FAILURES_MAX: u32 = 12;

/// What the run's state means for the wait.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    GoOn,
    Done,
    Failed(Failure),
}

/// Waits until the run is over, can never start, the time is up, or somebody presses Ctrl-C.
pub async fn for_end(client: &Client, namespace: &str, name: &str, wait: Wait) -> Result<RunView, Failure> {
    let started = Instant::now();
    let look = watch(client, namespace, name, started);
    let time_is_up = async {
        match wait {
            Wait::Forever => std::future::pending().await,
            Wait::AtMost(bound) => tokio::time::sleep(bound).await,
        }
    };
    let run = format!("{namespace}/{name}");
    tokio::select! {
        result = look => result,
        () = time_is_up => Err(Failure::new(Exit::TimedOut, format!("`{run}` is not over yet, and the time is up"))
            .hint(format!("it goes on: warpyard why {run}"))),
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "stopped waiting")
            .hint(format!("the run goes on: warpyard why {run}, or warpyard stop {run}"))),
    }
}

async fn watch(client: &Client, namespace: &str, name: &str, started: Instant) -> Result<RunView, Failure> {
    let mut failures = 0;
    let mut said = String::new();
    loop {
        match client.get_run(namespace, name).await {
            Ok(run) => {
                failures = 0;
                let news = news(&run);
                if news != said {
                    eprintln!("{news}");
                    said = news;
                }
                match verdict(&run) {
                    Verdict::GoOn => {}
                    Verdict::Done => return Ok(run),
                    Verdict::Failed(failure) => return Err(failure),
                }
            }
            Err(error) if is_passing(&error) && failures < FAILURES_MAX => failures += 1,
            Err(error) => return Err(error.into()),
        }
        let eager = started.elapsed() < EAGER_TIME;
        tokio::time::sleep(if eager { EAGER_INTERVAL } else { PATIENT_INTERVAL }).await;
    }
}

fn verdict(run: &RunView) -> Verdict {
    let name = format!("{}/{}", run.summary.namespace, run.summary.name);
    let why =
        |message: &Option<String>| message.as_ref().map_or(String::new(), |message| format!(": {message}"));
    match run.summary.phase {
        RunPhase::Succeeded => Verdict::Done,
        RunPhase::Failed => Verdict::Failed(
            Failure::new(Exit::Failed, format!("`{name}` failed{}", why(&run.summary.message)))
                .hint(format!("warpyard show {name}")),
        ),
        RunPhase::Stopped => Verdict::Failed(Failure::new(Exit::Failed, format!("`{name}` was stopped"))),
        RunPhase::Pending | RunPhase::Starting | RunPhase::Running | RunPhase::Paused => {
            match run.reasons.iter().find(|reason| reason.never) {
                Some(reason) => Verdict::Failed(
                    Failure::new(
                        Exit::Never,
                        format!("`{name}` can never start as it is: {}", reason.message),
                    )
                    .hint(format!(
                        "change the job file and submit it again; stop this one: warpyard stop {name}"
                    )),
                ),
                None => Verdict::GoOn,
            }
        }
    }
}

fn news(run: &RunView) -> String {
    let summary = &run.summary;
    let attempt = run.attempts.last().filter(|attempt| attempt.number > 1);
    let attempt = attempt.map_or(String::new(), |attempt| format!(" · attempt {}", attempt.number));
    let why = match (summary.phase, run.reasons.first()) {
        (RunPhase::Paused, _) => {
            let name = clean(&format!("{}/{}", summary.namespace, summary.name));
            format!(" · it continues when resumed: warpyard resume {name}")
        }
        (_, Some(reason)) => format!(" · {}", clean(&reason.message)),
        (_, None) => String::new(),
    };
    format!("{}{attempt}{why}", format!("{:?}", summary.phase).to_uppercase())
}

/// Whether it is worth asking again: there was no answer, or the server was busy.
pub fn is_passing(error: &Error) -> bool {
    match error {
        Error::Transport { .. } => true,
        Error::Problem(problem) => problem.status == 503,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use api_types::rest::{RunSummary, RunView};
    use api_types::run::{Attempt, MemberCounts, Reason};
    use api_types::{PriorityTier, RunPhase};

    use super::{Verdict, news, verdict};
    use crate::exit::Exit;

    fn run(phase: RunPhase, never: Option<bool>) -> RunView {
        RunView {
            summary: RunSummary {
                namespace: "a".to_owned(),
                name: "b".to_owned(),
                queue: None,
                priority: PriorityTier::Research,
                phase,
                reason: None,
                message: None,
                stop: false,
                pause: false,
                members: 1,
                gpus_per_member: 1,
                gpu_type: None,
                member_counts: MemberCounts::default(),
                created_at: String::new(),
                started_at: None,
                finished_at: None,
                submitted_by: None,
                archived: false,
            },
            time_limit_seconds: None,
            checkpoint: None,
            spot: None,
            max_price: None,
            deadline: None,
            grace_seconds: None,
            retries: 0,
            failures: 0,
            used_seconds: 0,
            fail_on: vec![],
            min_members: None,
            restarts: 0,
            image: String::new(),
            command: vec![],
            attempts: vec![],
            next_attempt_at: None,
            progress: None,
            reasons: never.map(|never| Reason { never, ..Reason::default() }).into_iter().collect(),
        }
    }

    #[test]
    fn a_wait_ends_with_the_run_or_when_it_can_never_start() {
        let exit = |run| match verdict(&run) {
            Verdict::GoOn => None,
            Verdict::Done => Some(Exit::Ok),
            Verdict::Failed(failure) => Some(failure.exit),
        };
        for (run, expect) in [
            (run(RunPhase::Pending, None), None),
            (run(RunPhase::Pending, Some(false)), None),
            (run(RunPhase::Pending, Some(true)), Some(Exit::Never)),
            (run(RunPhase::Running, None), None),
            (run(RunPhase::Paused, None), None),
            (run(RunPhase::Succeeded, None), Some(Exit::Ok)),
            (run(RunPhase::Failed, None), Some(Exit::Failed)),
            (run(RunPhase::Stopped, None), Some(Exit::Failed)),
        ] {
            assert_eq!(exit(run.clone()), expect, "{run:?}");
        }
    }
    #[test]
    fn whoever_waits_is_told_how_a_paused_run_goes_on_and_which_attempt_it_is() {
        let attempt = |number| Attempt { number, ..Attempt::default() };
        let paused = RunView { attempts: vec![attempt(1)], ..run(RunPhase::Paused, None) };
        assert_eq!(news(&paused), "PAUSED · it continues when resumed: warpyard resume a/b");
        let again = RunView { attempts: vec![attempt(1), attempt(2)], ..run(RunPhase::Running, None) };
        assert_eq!(news(&again), "RUNNING · attempt 2");
    }
}
