//! The tables of the report.

use std::cmp::Reverse;
use std::fmt::Write;

use trace_format::Job;

use super::svg::escape;
use super::words::{duration, duration_mean, moment, thousands};
use crate::outcome::{JobRecord, Outcome, ratio};

const QUEUES_MAX: usize = 20;
const WAITS_MAX: usize = 12;

/// What each queue did and how long it waited, the largest first.
pub(super) fn queues(outcome: &Outcome) -> String {
    let queues = outcome.queues();
    let mut body = String::new();
    for queue in queues.iter().take(QUEUES_MAX) {
        let percent = queue.useful_percent;
        let _ = write!(
            body,
            "<tr><td>{}</td><td class=\"n\">{}</td>\
             <td class=\"n\"><span class=\"meter\"><i style=\"width:{percent:.1}%\"></i></span>{percent:.1} %</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            escape(&queue.name),
            thousands(queue.jobs),
            duration_mean(queue.wait.mean_seconds),
            duration(u64::from(queue.wait.p90_seconds)),
            thousands(queue.interruptions),
        );
    }
    let hidden = queues.len().saturating_sub(QUEUES_MAX);
    let more = if hidden > 0 { format!("; {hidden} smaller ones are left out") } else { String::new() };
    table(
        "Queues",
        &format!("Useful GPU time and waits of each{more}."),
        &["Queue", "Jobs", "GPU time", "Mean wait", "p90 wait", "Stopped"],
        &body,
    )
}

/// The jobs that waited longest: the first that people will ask about.
pub(super) fn longest_waits(outcome: &Outcome) -> String {
    let mut longest: Vec<(&Job, &JobRecord)> =
        outcome.jobs.iter().zip(&outcome.records).filter(|(_, record)| record.started.is_some()).collect();
    let order =
        |(job, record): &(&Job, &JobRecord)| (Reverse(record.started), job.queue.clone(), job.name.clone());
    if longest.len() > WAITS_MAX {
        longest.select_nth_unstable_by_key(WAITS_MAX, order);
        longest.truncate(WAITS_MAX);
    }
    longest.sort_by_key(order);
    let mut body = String::new();
    for (job, record) in longest {
        let _ = write!(
            body,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td></tr>",
            escape(&job.name),
            escape(job.queue.as_str()),
            gpus(job),
            moment(record.submitted, true),
            duration(u64::from(record.started.unwrap_or(0))),
        );
    }
    table(
        "Longest waits",
        "The jobs that people will ask about.",
        &["Job", "Queue", "GPUs", "Submitted", "Waited"],
        &body,
    )
}

fn gpus(job: &Job) -> String {
    let millis = job.gpu_millis();
    if millis.is_multiple_of(1000) { thousands(millis / 1000) } else { format!("{:.3}", ratio(millis, 1000)) }
}

fn table(title: &str, sentence: &str, columns: &[&str], body: &str) -> String {
    const NUMBERS: [&str; 8] =
        ["Jobs", "GPU time", "Mean wait", "p90 wait", "Stopped", "GPUs", "Waited", "Lost"];
    let mut head = String::new();
    for name in columns {
        let class = if NUMBERS.contains(name) { " class=\"n\"" } else { "" };
        let _ = write!(head, "<th{class}>{name}</th>");
    }
    format!(
        "<div class=\"card\"><h2>{title}</h2><p class=\"quiet\">{}</p><div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></div>\n",
        escape(sentence)
    )
}
