//! Renders a run: the request, each attempt, the progress, and what comes next. Pure: the time is an argument.

use api_types::RunPhase;
use api_types::rest::{RunCostView, RunView};
use api_types::run::Progress;
use jiff::Timestamp;

use crate::render::{clean, clean_lines, gpus, labelled, none, period, reason_line, since, state};
use crate::{render_attempts, render_cost};

/// `warpyard show`; with the cost if there is a ledger.
pub fn run(view: &RunView, cost: Option<&RunCostView>, now: Timestamp) -> String {
    let mut text = String::new();
    for (label, value) in asked(view, cost, now) {
        // A command of several lines stays within its column.
        text.push_str(&labelled(label, &clean_lines(&value).replace('\n', "\n            ")));
    }
    text.extend(render_attempts::table(view, now).map(|table| format!("\n{table}\n")));
    for (label, value) in how_far(view, now) {
        text.push_str(&labelled(label, &clean(&value)));
    }
    for reason in &view.reasons {
        text.push_str(&reason_line(reason));
    }
    if view.reasons.is_empty() {
        text.extend(view.summary.message.as_ref().map(|message| labelled("Why", &clean(message))));
    }
    text
}

fn asked(view: &RunView, cost: Option<&RunCostView>, now: Timestamp) -> Vec<(&'static str, String)> {
    let run = &view.summary;
    let time = |at: &String| format!("{at} ({} ago)", since(at, now));
    let mut lines = vec![
        ("Run", format!("{}/{}", run.namespace, run.name)),
        ("State", state(run)),
        ("Queue", run.queue.clone().unwrap_or_else(none)),
        ("GPUs", all_gpus(view)),
        ("Members", members(view)),
        ("Priority", format!("{:?}", run.priority).to_lowercase()),
    ];
    lines.extend(view.time_limit_seconds.map(|limit| ("Time limit", time_limit(view, limit, now))));
    lines.extend(view.checkpoint.as_ref().map(|volume| {
        let grace =
            view.grace_seconds.map(|seconds| format!(", {} to save and leave", period(seconds.into())));
        ("Checkpoints", format!("volume {}{}", volume.claim, grace.unwrap_or_default()))
    }));
    lines
        .extend(view.spot.map(|is_bought| ("Spot", if is_bought { "bought" } else { "refused" }.to_owned())));
    lines.extend(view.max_price.as_ref().map(|price| ("Max price", format!("{price} an hour"))));
    lines.extend(view.deadline.as_ref().map(|at| ("Deadline", deadline(at, now))));
    lines.extend(retries(view).map(|retries| ("Retries", retries)));
    lines.push(("Image", view.image.clone()));
    lines.push(("Command", view.command.join(" ")));
    let by = run.submitted_by.as_ref().map_or(String::new(), |user| format!(" by {user}"));
    lines.push(("Submitted", format!("{}{by}", time(&run.created_at))));
    lines.extend(run.started_at.as_ref().map(|at| ("Started", time(at))));
    lines.extend(run.finished_at.as_ref().map(|at| ("Finished", time(at))));
    if run.archived {
        lines.push((
            "Archived",
            "its pods and logs are gone; its checkpoints are where it kept them".to_owned(),
        ));
    }
    lines.extend(cost.and_then(render_cost::so_far).map(|cost| ("Cost", cost)));
    lines
}

fn all_gpus(view: &RunView) -> String {
    let run = &view.summary;
    let all = gpus(run.members, run.gpus_per_member, run.gpu_type.as_deref());
    let least = view.min_members.filter(|least| *least < run.members);
    least.map_or(all.clone(), |least| {
        format!("{all}, or as few as {}", gpus(least, run.gpus_per_member, None))
    })
}

fn members(view: &RunView) -> String {
    let counts = view.summary.member_counts;
    let parts: Vec<String> = [
        (counts.waiting, "waiting"),
        (counts.starting, "starting"),
        (counts.running, "running"),
        (counts.succeeded, "succeeded"),
        (counts.failed, "failed"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    match (parts.is_empty(), view.summary.phase) {
        (true, RunPhase::Paused) => "none while it is paused".to_owned(),
        (true, _) => format!("{}, none created yet", view.summary.members),
        (false, _) => parts.join(", "),
    }
}

/// The used retries; `None` if the run asked for none.
fn retries(view: &RunView) -> Option<String> {
    let codes: Vec<String> = view.fail_on.iter().map(ToString::to_string).collect();
    let at_once = match codes.as_slice() {
        [] => None,
        [code] => Some(format!("exit code {code} ends it at once")),
        codes => Some(format!("exit codes {} end it at once", codes.join(", "))),
    };
    match (view.retries, at_once) {
        (0, at_once) => at_once,
        (retries, at_once) => {
            // The last failure finds none left.
            let used = view.failures.min(retries);
            let used = if used == 0 { String::new() } else { format!(", of which {used} {}", is_used(used)) };
            let at_once = at_once.map(|at_once| format!("; {at_once}")).unwrap_or_default();
            Some(format!("{retries}{used}{at_once}"))
        }
    }
}

fn is_used(count: u32) -> &'static str {
    if count == 1 { "is used" } else { "are used" }
}

/// The deadline; the limit covers all attempts together.
fn deadline(at: &str, now: Timestamp) -> String {
    let left = at.parse::<Timestamp>().map(|deadline| deadline.as_second() - now.as_second());
    match left {
        Ok(left) if left > 0 => format!("{at} (in {})", period(left)),
        Ok(_) => format!("{at} (over)"),
        Err(_) => at.to_owned(),
    }
}

fn time_limit(view: &RunView, limit: i64, now: Timestamp) -> String {
    let current = view.attempts.last().filter(|attempt| attempt.outcome.is_none());
    let current = current.and_then(|attempt| attempt.started_at.as_ref());
    let current = current.map_or(0, |start| now.as_second().saturating_sub(start.0.as_second()).max(0));
    let used = view.used_seconds.saturating_add(current);
    if used == 0 {
        period(limit)
    } else {
        format!("{}, of which {} are used", period(limit), period(used.min(limit)))
    }
}

fn how_far(view: &RunView, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(progress) = &view.progress {
        lines.push(("Progress", progress_line(progress, now)));
        lines.extend(checkpoint_line(progress, now).map(|line| ("Saved", line)));
    }
    lines.extend(ahead(view, now).map(|ahead| ("Next", ahead)));
    lines
}

fn progress_line(progress: &Progress, now: Timestamp) -> String {
    let last = progress.ranges.last().filter(|range| range.to > range.from);
    let speed = last.map(|range| format!(", {} each", seconds(range.milliseconds / (range.to - range.from))));
    let told = since(&progress.reported_at.0.to_string(), now);
    format!("step {}{} (told {told} ago)", progress.step, speed.unwrap_or_default())
}

fn checkpoint_line(progress: &Progress, now: Timestamp) -> Option<String> {
    let saved = progress.checkpoint.as_ref()?;
    let age = since(&saved.committed_at.0.to_string(), now);
    let took = format!("in {}", seconds(saved.milliseconds));
    Some(format!(
        "step {}, {age} ago, {took}; training waited {}",
        saved.step,
        seconds(saved.stall_milliseconds)
    ))
}

/// What comes next, if it is not obvious.
fn ahead(view: &RunView, now: Timestamp) -> Option<String> {
    let run = &view.summary;
    let name = format!("{}/{}", run.namespace, run.name);
    match run.phase {
        _ if run.stop => None,
        RunPhase::Paused if run.pause => Some(format!("continues when resumed: warpyard resume {name}")),
        RunPhase::Failed => Some(format!("stays failed, unless retried: warpyard retry {name}")),
        phase if phase.is_final() => None,
        _ => {
            let at = view.next_attempt_at.as_ref()?.parse::<Timestamp>().ok()?;
            let number = view.attempts.last().map_or(1, |attempt| attempt.number.saturating_add(1));
            let left = at.as_second().saturating_sub(now.as_second());
            let when = if left > 0 { format!("in {}", period(left)) } else { "any moment".to_owned() };
            Some(format!("attempt {number} begins {when}"))
        }
    }
}

/// A short time, to three digits.
fn seconds(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds}ms"),
        1_000..10_000 => format!("{}.{}s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        _ => period(i64::try_from(milliseconds / 1_000).unwrap_or(i64::MAX)),
    }
}

#[cfg(test)]
#[path = "render_run_tests.rs"]
mod tests;
