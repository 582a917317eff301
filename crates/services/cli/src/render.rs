//! Renders data for people. Pure: the time is an argument.

use api_types::RunPhase;
use api_types::price_sheet::Spend;
use api_types::rest::{QueueView, RunSummary, Why};
use api_types::run::{Reason, WaitNature};
use comfy_table::{CellAlignment, Table, presets};
use jiff::Timestamp;

pub use crate::text::{clean, clean_lines};
use crate::{money, render_board};

/// `warpyard ls`; with namespaces if the list has several.
pub fn runs(runs: &[RunSummary], with_namespace: bool, now: Timestamp) -> String {
    let mut header = vec!["NAME", "QUEUE", "STATE", "GPUS", "AGE", "WHY"];
    if with_namespace {
        header.insert(0, "NAMESPACE");
    }
    let rows = runs.iter().map(|run| {
        let mut row = vec![
            run.name.clone(),
            run.queue.clone().unwrap_or_else(none),
            state(run),
            gpus(run.members, run.gpus_per_member, run.gpu_type.as_deref()),
            since(&run.created_at, now),
            why_short(run),
        ];
        if with_namespace {
            row.insert(0, run.namespace.clone());
        }
        row
    });
    table(header, rows)
}

/// `warpyard queues`.
pub fn queues(queues: &[QueueView]) -> String {
    let with_spend = queues.iter().any(|queue| queue.spend.is_some());
    let mut header = vec!["NAME", "PARENT", "GPUS", "RUNNING", "WAITING", "NAMESPACES"];
    if with_spend {
        header.insert(5, "SPEND");
    }
    let rows = queues.iter().map(|queue| {
        let mut row = vec![
            queue.name.clone(),
            queue.parent.clone().unwrap_or_else(none),
            queue_gpus(queue),
            queue.gangs_running.to_string(),
            queue.gangs_waiting.to_string(),
            if queue.namespaces.is_empty() { none() } else { queue.namespaces.join(",") },
        ];
        if with_spend {
            row.insert(5, queue.spend.as_ref().map_or_else(none, spend));
        }
        row
    });
    table(header, rows)
}

/// `warpyard why`.
pub fn why(why: &Why, now: Timestamp) -> String {
    let queue = why.queue.as_ref().map_or(String::new(), |queue| format!(" · queue {}", clean(queue)));
    let finished = why.finished_at.as_ref();
    let age = match (why.phase, &why.started_at) {
        (RunPhase::Running, Some(started)) => since(started, now),
        (phase, started) if phase.is_final() => {
            let took = finished
                .zip(started.as_ref())
                .map(|(finished, started)| format!("after {}, ", between(started, finished)))
                .unwrap_or_default();
            format!("{took}{} ago", since(finished.unwrap_or(&why.created_at), now))
        }
        _ => since(&why.created_at, now),
    };
    let mut text = format!("{} {age}{queue}\n", format!("{:?}", why.phase).to_uppercase());
    for reason in &why.reasons {
        text.push_str(&reason_line(reason));
    }
    if why.reasons.is_empty() {
        text.push_str(&how_it_fares(why));
    }
    text.extend(why.outlook.as_ref().map(|outlook| render_board::outlook(outlook, now)));
    text
}

/// GPUs as members × GPUs of each, with the type.
pub fn gpus(members: u32, each: u32, gpu_type: Option<&str>) -> String {
    let count = match (members, each) {
        (_, 0) => format!("{members}×0"),
        (1, each) => each.to_string(),
        (members, each) => format!("{members}×{each}"),
    };
    gpu_type.map_or(count.clone(), |gpu_type| format!("{count} {gpu_type}"))
}

/// `1 GPU`, `2 GPUs`.
pub(crate) fn counted(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

pub(crate) fn labelled(label: &str, value: &str) -> String {
    format!("{label:<11} {value}\n")
}

fn how_it_fares(why: &Why) -> String {
    let counts = why.member_counts;
    let all = counts.waiting + counts.starting + counts.running + counts.succeeded + counts.failed;
    let message = why.message.as_ref().map(|message| clean(message));
    match why.phase {
        RunPhase::Pending => {
            format!(" … {}\n", message.unwrap_or_else(|| "the scheduler has not looked at it yet".to_owned()))
        }
        RunPhase::Starting => format!(" ✓ every member has a node; {} of {all} run\n", counts.running),
        RunPhase::Running => format!(" ✓ {} of {all} members run\n", counts.running + counts.succeeded),
        RunPhase::Succeeded => " ✓ every member succeeded\n".to_owned(),
        RunPhase::Failed => format!(
            " ✗ {}\n",
            message.unwrap_or_else(|| format!("{} of {all} members failed", counts.failed))
        ),
        RunPhase::Stopped => format!(" ✗ {}\n", message.unwrap_or_else(|| "somebody stopped it".to_owned())),
        RunPhase::Paused => " … paused: `warpyard resume` continues it\n".to_owned(),
    }
}

pub(crate) fn reason_line(reason: &Reason) -> String {
    let never = if reason.never { " (waiting will not help)" } else { "" };
    // Room is on its way, so this is no obstacle.
    let mark = match reason.nature {
        Some(WaitNature::Time | WaitNature::Coming) => "→",
        _ => "✗",
    };
    format!(" {mark} {:<9} {}{never}\n", topic(reason.topic.as_ref(), &reason.code), clean(&reason.message))
}

/// The topic of a reason; one without a topic is shown by its code.
pub(crate) fn topic(topic: Option<&String>, code: &str) -> String {
    clean(topic.map_or(code, String::as_str))
}

fn why_short(run: &RunSummary) -> String {
    match run.phase {
        RunPhase::Running | RunPhase::Succeeded => String::new(),
        _ => run.message.clone().or_else(|| run.reason.clone()).unwrap_or_default(),
    }
}

/// The state of the run, or the one that was requested for it.
pub(crate) fn state(run: &RunSummary) -> String {
    match (run.phase, run.stop, run.pause) {
        (phase, _, _) if phase.is_final() => format!("{phase:?}"),
        (_, true, _) => "Stopping".to_owned(),
        (RunPhase::Paused, _, false) => "Resuming".to_owned(),
        (RunPhase::Paused, _, true) => "Paused".to_owned(),
        (_, _, true) => "Pausing".to_owned(),
        (phase, _, _) => format!("{phase:?}"),
    }
}

pub(crate) fn queue_gpus(queue: &QueueView) -> String {
    let empty = std::collections::BTreeMap::new();
    let quota = queue.quota_gpus.as_ref();
    let types: std::collections::BTreeSet<&String> =
        queue.used_gpus.keys().chain(quota.unwrap_or(&empty).keys()).collect();
    let parts: Vec<String> = types
        .into_iter()
        .map(|gpu_type| {
            let used = queue.used_gpus.get(gpu_type).copied().unwrap_or_default();
            match quota {
                Some(quota) => {
                    format!("{used}/{} {gpu_type}", quota.get(gpu_type).copied().unwrap_or_default())
                }
                None => format!("{used} {gpu_type}"),
            }
        })
        .collect();
    if parts.is_empty() { none() } else { parts.join(", ") }
}

/// Rows of cleaned text, with three blanks between columns.
pub(crate) fn table(header: Vec<&str>, rows: impl Iterator<Item = Vec<String>>) -> String {
    let header = header.into_iter().map(str::to_owned).collect();
    aligned_table(header, rows, &[])
}

/// The same; columns in `right` are right-aligned.
pub(crate) fn aligned_table(
    header: Vec<String>,
    rows: impl Iterator<Item = Vec<String>>,
    right: &[usize],
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table.add_rows(rows.map(|row| row.iter().map(|cell| clean(cell)).collect::<Vec<_>>()));
    let last = table.column_count().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { 3 }));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

pub(crate) fn since(time: &str, now: Timestamp) -> String {
    between(time, &now.to_string())
}

pub(crate) fn between(from: &str, to: &str) -> String {
    match (from.parse::<Timestamp>(), to.parse::<Timestamp>()) {
        (Ok(from), Ok(to)) => period(to.as_second().saturating_sub(from.as_second())),
        _ => none(),
    }
}

/// A duration in its largest unit, or in two units if the number is small, like kubectl's ages.
pub(crate) fn period(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let two = |large: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{rest}{small}") }
    };
    match () {
        () if minutes < 2 => format!("{seconds}s"),
        () if hours < 2 => format!("{minutes}m"),
        () if days < 2 => two(hours, "h", minutes % 60, "m"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () => format!("{days}d"),
    }
}

fn spend(spend: &Spend) -> String {
    format!("{} {}", money::rounded(&spend.amount), spend.currency)
}

pub(crate) fn none() -> String {
    "-".to_owned()
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
