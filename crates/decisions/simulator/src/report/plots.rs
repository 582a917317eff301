//! The plots of the report, each in a card with a title, a sentence and a legend.

use std::cmp::Reverse;

use super::svg::{Plot, Tick, escape, to_f64};
use super::words::{moment, thousands};
use crate::outcome::{JobRecord, Outcome};
use crate::series::{Series, SeriesLine};

/// Queues that get a colour of their own; the rest is one.
const QUEUES_SHOWN: usize = 8;
const REST_COLOUR: usize = 8;

/// Up to how many seconds a bar counts, and what it is called.
const WAITS: [(u32, &str); 9] = [
    (0, "none"),
    (60, "1 min"),
    (300, "5 min"),
    (900, "15 min"),
    (3_600, "1 h"),
    (14_400, "4 h"),
    (43_200, "12 h"),
    (86_400, "1 day"),
    (u32::MAX, "more"),
];

/// All of them, in the order of the page.
pub(super) fn cards(outcome: &Outcome) -> Vec<String> {
    let series = &outcome.series;
    let mut cards = vec![
        utilisation(series),
        queue_shares(series),
        waiting(series),
        wait_bars(&outcome.records),
        wait_distribution(&outcome.records),
        fragmentation(series),
        powered(series),
    ];
    if series.watts.means.iter().any(|watts| *watts > 0.0) {
        cards.push(power(series));
    }
    cards
}

fn utilisation(series: &Series) -> String {
    let mut plot = Plot::new("GPUs in use over time", max([&series.gpus]), gpus, &time_ticks(series));
    plot.area(&[], &series.gpus_busy.means, 0, 0.28);
    plot.line(&series.gpus_busy.means, 0);
    plot.bound(&series.gpus.means);
    card(
        "GPUs in use",
        "How much of the cluster was at work.",
        plot,
        &legend(&[("in use", 0)], Some("present")),
    )
}

fn queue_shares(series: &Series) -> String {
    let mut by_use: Vec<&SeriesLine> = series.queues.iter().filter(|line| total(line) > 0.0).collect();
    by_use.sort_by_key(|line| (Reverse(ordered(total(line))), line.name.clone()));
    let points = series.gpus.means.len();
    let mut plot = Plot::new("GPUs in use by queue", max([&series.gpus]), gpus, &time_ticks(series));
    let mut lower = vec![0.0; points];
    let mut names: Vec<(String, usize)> = Vec::new();
    let (shown, rest) = by_use.split_at(by_use.len().min(QUEUES_SHOWN));
    for (colour, line) in shown.iter().enumerate() {
        let upper = sum(&lower, &line.means);
        plot.area(&lower, &upper, colour, 0.85);
        names.push((line.name.clone(), colour));
        lower = upper;
    }
    if !rest.is_empty() {
        let upper = rest.iter().fold(lower.clone(), |upper, line| sum(&upper, &line.means));
        plot.area(&lower, &upper, REST_COLOUR, 0.85);
        names.push((format!("{} others", rest.len()), REST_COLOUR));
    }
    plot.bound(&series.gpus.means);
    let names: Vec<(&str, usize)> = names.iter().map(|(name, colour)| (name.as_str(), *colour)).collect();
    card(
        "Who had the GPUs",
        "GPUs in use by queue, the largest first.",
        plot,
        &legend(&names, Some("present")),
    )
}

fn waiting(series: &Series) -> String {
    let mut plot = Plot::new("GPUs waited for", max([&series.gpus_waiting]), gpus, &time_ticks(series));
    plot.area(&[], &series.gpus_waiting.means, 1, 0.28);
    plot.line(&series.gpus_waiting.means, 1);
    let most = series.jobs_waiting.means.iter().copied().fold(0.0, f64::max);
    let sentence =
        format!("What jobs in the queue asked for; at most {} jobs waited at once.", gpus(most.ceil()));
    card("GPUs waited for", &sentence, plot, "")
}

fn wait_bars(records: &[JobRecord]) -> String {
    let mut counts = [0u64; WAITS.len()];
    for wait in records.iter().filter_map(JobRecord::wait_seconds) {
        let bar = WAITS.partition_point(|(up_to, _)| *up_to < wait);
        counts[bar] += 1;
    }
    let all: u64 = counts.iter().sum();
    let percent = |count: u64| 100.0 * crate::outcome::ratio(count, all);
    let most = counts.iter().map(|count| percent(*count)).fold(0.0, f64::max);
    let mut plot = Plot::new("Jobs by wait", most * 1.08, |value| format!("{value:.0} %"), &[]);
    for (index, (count, (_, label))) in counts.iter().zip(WAITS).enumerate() {
        let above = if *count == 0 { String::new() } else { format!("{:.1}", percent(*count)) };
        plot.bar(index, WAITS.len(), percent(*count), label, &above, 0);
    }
    card("How long jobs waited", "Percent of jobs; each bar counts waits up to its label.", plot, "")
}

fn wait_distribution(records: &[JobRecord]) -> String {
    let mut waits: Vec<u32> = records.iter().filter_map(JobRecord::wait_seconds).collect();
    waits.sort_unstable();
    // One second to a month on a logarithmic axis; shorter waits are at its start.
    let decades: [(u32, &str); 7] = [
        (1, "1 s"),
        (10, "10 s"),
        (60, "1 min"),
        (600, "10 min"),
        (3_600, "1 h"),
        (36_000, "10 h"),
        (345_600, "4 d"),
    ];
    let end = f64::from(waits.last().copied().unwrap_or(1).max(3_600)).ln();
    let place = |seconds: u32| (f64::from(seconds.max(1)).ln() / end).min(1.0);
    let ticks: Vec<Tick> = decades
        .iter()
        .filter(|(seconds, _)| f64::from(*seconds).ln() <= end)
        .map(|(seconds, label)| Tick { at: place(*seconds), label: (*label).to_owned() })
        .collect();
    let mut plot =
        Plot::new("Share of jobs that waited at most so long", 100.0, |it| format!("{it:.0} %"), &ticks);
    let points: Vec<(f64, f64)> = (0..=400)
        .map(|step| {
            let at = f64::from(step) / 400.0;
            let seconds = (at * end).exp();
            let below = waits.partition_point(|wait| f64::from(*wait) <= seconds);
            (at, 100.0 * to_f64(below) / to_f64(waits.len().max(1)))
        })
        .collect();
    plot.curve(&points, 0);
    card("Started within", "Percent of jobs that had started so long after their submission.", plot, "")
}

fn fragmentation(series: &Series) -> String {
    let free: Vec<f64> = series
        .gpus
        .means
        .iter()
        .zip(&series.gpus_busy.means)
        .map(|(all, busy)| (all - busy).max(0.0))
        .collect();
    let line = SeriesLine { name: String::new(), means: free.clone() };
    let mut plot = Plot::new("Free GPUs", max([&line]), gpus, &time_ticks(series));
    plot.area(&[], &free, 3, 0.25);
    plot.area(&[], &series.gpus_fragmented.means, 2, 0.6);
    card(
        "Free, and fragmented",
        "Free GPUs, and those of them on nodes that are partly in use.",
        plot,
        &legend(&[("free", 3), ("of them on partly used nodes", 2)], None),
    )
}

fn powered(series: &Series) -> String {
    let mut plot =
        Plot::new("Nodes in use over time", max([&series.nodes_powered]), gpus, &time_ticks(series));
    plot.area(&[], &series.nodes_powered.means, 4, 0.28);
    plot.line(&series.nodes_powered.means, 4);
    card("Nodes in use", "Nodes with at least one pod; the others could be switched off.", plot, "")
}

fn power(series: &Series) -> String {
    let kilowatts: Vec<f64> = series.watts.means.iter().map(|watts| watts / 1000.0).collect();
    let line = SeriesLine { name: String::new(), means: kilowatts };
    let mut plot =
        Plot::new("Power over time", max([&line]), |it| format!("{} kW", gpus(it)), &time_ticks(series));
    plot.area(&[], &line.means, 6, 0.28);
    plot.line(&line.means, 6);
    card("Power", "What nodes in use draw, by what is known of them.", plot, "")
}

fn card(title: &str, sentence: &str, plot: Plot, legend: &str) -> String {
    format!(
        "<div class=\"card\"><h2>{}</h2><p class=\"quiet\">{}</p>{}{legend}</div>\n",
        escape(title),
        escape(sentence),
        plot.finish()
    )
}

fn legend(names: &[(&str, usize)], bound: Option<&str>) -> String {
    let mut items: Vec<String> = names
        .iter()
        .map(|(name, colour)| {
            format!("<span><i style=\"background:var(--c{colour})\"></i>{}</span>", escape(name))
        })
        .collect();
    items.extend(bound.map(|name| format!("<span><i class=\"dash\"></i>{}</span>", escape(name))));
    format!("<div class=\"legend\">{}</div>", items.concat())
}

/// About six moments along the series.
fn time_ticks(series: &Series) -> Vec<Tick> {
    const DAY: i64 = 86_400;
    let points = i64::try_from(series.gpus.means.len()).unwrap_or(1);
    let span = (points * series.step_seconds).max(1);
    let steps =
        [300, 900, 3_600, 3 * 3_600, 6 * 3_600, 12 * 3_600, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY];
    let step = steps.into_iter().find(|step| span / step <= 7).unwrap_or(span / 6);
    let first = series.start.div_euclid(step) * step + step;
    (0..8)
        .map(|index| first + index * step)
        .take_while(|at| *at < series.start + span)
        .map(|at| Tick { at: share(at - series.start, span), label: moment(at, step < DAY) })
        .filter(|tick| (0.02..0.98).contains(&tick.at))
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "a place on an axis")]
fn share(part: i64, whole: i64) -> f64 {
    part as f64 / whole as f64
}

fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().enumerate().map(|(index, value)| value + b.get(index).copied().unwrap_or(0.0)).collect()
}

fn total(line: &SeriesLine) -> f64 {
    line.means.iter().sum()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an order, not a figure")]
fn ordered(value: f64) -> u64 {
    (value * 1000.0) as u64
}

fn max<const N: usize>(lines: [&SeriesLine; N]) -> f64 {
    lines.into_iter().flat_map(|line| &line.means).copied().fold(0.0, f64::max)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "labels of an axis")]
fn gpus(value: f64) -> String {
    if value.fract().abs() > 1e-6 && value < 10.0 {
        return format!("{value:.1}");
    }
    thousands(value.max(0.0).round() as u64)
}
