//! Renders a run's place in the line, and the board. Pure: the time is an argument.

use api_types::outlook::{Outlook, StartForecast};
use api_types::rest::{Board, BoardQueue, BoardRun};
use jiff::Timestamp;

use crate::render::{aligned_table, clean, counted, none, period, queue_gpus, since, topic};

/// The width of bars; one sign is 10 %.
const BAR_WIDTH: u32 = 10;
/// A forecast older than this is shown with its age.
const YOUNG_SECONDS: i64 = 15;

/// The lines that `warpyard why` adds for a waiting run.
pub fn outlook(outlook: &Outlook, now: Timestamp) -> String {
    let mut lines: Vec<_> = place(outlook).map(|place| ("place", place)).into_iter().collect();
    match &outlook.forecast {
        None => lines.push(("start", "not ready yet; ask again in a moment".to_owned())),
        Some(forecast) => {
            lines.push(("start", start(forecast) + &age(forecast, now)));
            let offers: Vec<String> =
                forecast.would_start_now.iter().map(|offer| clean(&offer.message)).collect();
            if !offers.is_empty() {
                lines.push(("now", format!("would start: {}", offers.join("; "))));
            }
        }
    }
    let lines: Vec<String> = lines.iter().map(|(what, text)| format!(" → {what:<9} {text}\n")).collect();
    lines.concat()
}

/// `warpyard queue`.
pub fn board(board: &Board, now: Timestamp) -> String {
    let mut text = String::new();
    if !board.queues.is_empty() {
        let header = ["QUEUE", "GPUS", "RUNNING", "WAITING", "USED", "DUE"].map(str::to_owned).into();
        text.push_str(&aligned_table(header, board.queues.iter().map(queue_row), &[2, 3]));
    }
    if !board.runs.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        let header =
            ["#", "RUN", "QUEUE", "GPUS", "WAITS", "AHEAD", "STARTS", "WHY"].map(str::to_owned).into();
        text.push_str(&aligned_table(header, board.runs.iter().map(|run| run_row(run, now)), &[0, 3]));
    }
    text
}

/// The note below the board, for which up to `limit` runs were asked for. It says that nothing waits only if
/// that is certain: jobs that are not shown may include some of the caller's, such as pods without a run.
pub fn note(board: &Board, limit: u16) -> String {
    if board.planned_at.is_none() {
        return "The scheduler does not answer: runs are sorted by age, without forecasts.\n".to_owned();
    }
    let shown = board.runs.len() as u64;
    let hidden = u64::from(board.jobs_waiting).saturating_sub(shown);
    let wait = |number: u64| if number == 1 { "waits" } else { "wait" };
    match (shown, hidden) {
        (0, 0) => "Nothing waits.\n".to_owned(),
        (_, 0) => format!("{} {}.\n", counted(shown, "job"), wait(shown)),
        _ if shown >= u64::from(limit) => {
            format!("{hidden} more {}; --limit shows more of those that you may see.\n", wait(hidden))
        }
        _ => format!(
            "{hidden} more {} in queues that you may not see, or as pods without a run.\n",
            wait(hidden)
        ),
    }
}

fn queue_row(row: &BoardQueue) -> Vec<String> {
    let indent = "  ".repeat(row.depth as usize);
    let bar = |percent: Option<f64>| percent.map_or_else(none, bar);
    vec![
        format!("{indent}{}", row.queue.name),
        queue_gpus(&row.queue),
        row.queue.gangs_running.to_string(),
        row.queue.gangs_waiting.to_string(),
        bar(row.share.as_ref().map(|share| share.used_percent)),
        bar(row.share.as_ref().map(|share| share.fair_percent)),
    ]
}

fn run_row(run: &BoardRun, now: Timestamp) -> Vec<String> {
    let outlook = run.outlook.as_ref();
    let placed = outlook.filter(|outlook| !is_stuck(outlook));
    let forecast = outlook.and_then(|outlook| outlook.forecast.as_ref());
    vec![
        placed.map_or_else(none, |outlook| (u64::from(outlook.jobs_ahead) + 1).to_string()),
        format!("{}/{}", run.namespace, run.name),
        run.queue.clone().unwrap_or_else(none),
        run.gpus.to_string(),
        since(&run.created_at, now),
        placed.map_or_else(none, |outlook| counted(outlook.gpus_ahead, "GPU")),
        forecast.map_or_else(none, start),
        run.reason.as_ref().map_or_else(none, |code| topic(run.topic.as_ref(), code)),
    ]
}

/// The place of a run; one that cannot start as it is has none.
fn place(outlook: &Outlook) -> Option<String> {
    if is_stuck(outlook) {
        return None;
    }
    let place = ordinal(u64::from(outlook.jobs_ahead) + 1);
    let (jobs, gpus) = (counted(outlook.jobs_waiting.into(), "job"), counted(outlook.gpus_ahead, "GPU"));
    Some(format!("{place} of {jobs}, {gpus} ahead"))
}

/// Whether waiting is known not to help: something else must change.
fn is_stuck(outlook: &Outlook) -> bool {
    let is_never = |it: &StartForecast| it.p50_seconds.is_none() && it.not_within_seconds.is_none();
    outlook.forecast.as_ref().is_some_and(is_never)
}

/// The forecast from p50 to p90; or that no start is foreseen.
fn start(forecast: &StartForecast) -> String {
    let (Some(p50_seconds), Some(p90_seconds)) = (forecast.p50_seconds, forecast.p90_seconds) else {
        let within =
            forecast.not_within_seconds.map(|seconds| format!("not within {}", period(seconds.into())));
        return within.unwrap_or_else(|| "not as it is".to_owned());
    };
    let (early, late) = (period(p50_seconds.into()), period(p90_seconds.into()));
    match p50_seconds {
        0..60 => format!("within {late}"),
        _ if early == late => format!("in {late}"),
        _ => format!("in {early}–{late}"),
    }
}

fn age(forecast: &StartForecast, now: Timestamp) -> String {
    let made: Option<Timestamp> = forecast.made_at.parse().ok();
    let seconds = made.map_or(0, |made| now.as_second() - made.as_second());
    if seconds > YOUNG_SECONDS { format!(" (as of {} ago)", period(seconds)) } else { String::new() }
}

fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

fn bar(percent: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the bar")]
    let full = ((percent / 10.0).round().clamp(0.0, f64::from(BAR_WIDTH))) as usize;
    let empty = BAR_WIDTH as usize - full;
    format!("{}{} {percent:>5.1} %", "█".repeat(full), "░".repeat(empty))
}

#[cfg(test)]
#[path = "render_board_tests.rs"]
mod tests;
