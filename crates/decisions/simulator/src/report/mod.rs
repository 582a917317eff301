//! The report: one page that needs nothing else, for people who were not there.
//!
//! No script, no font, no picture from elsewhere; it can be mailed, and opened without a network.

mod plots;
mod svg;
mod tables;
mod words;

use std::fmt::Write;

use crate::outcome::{Outcome, Summary};
use svg::escape;

pub use words::{duration, duration_mean, moment, thousands};

/// What the page says in addition to the outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Title {
    /// The headline.
    pub headline: String,
    /// What was simulated: the trace, the cluster.
    pub workload: String,
    /// The policy.
    pub policy: String,
    /// The seed, if randomness was drawn.
    pub seed: Option<u64>,
}

/// The page.
pub fn html(title: &Title, outcome: &Outcome) -> String {
    let mut page = String::with_capacity(256 * 1024);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<main>\n",
        escape(&title.headline),
        include_str!("style.css"),
    );
    header(&mut page, title);
    tiles(&mut page, &outcome.summary);
    page.push_str("<section class=\"grid\">\n");
    for card in plots::cards(outcome) {
        page.push_str(&card);
    }
    page.push_str("</section>\n<section class=\"grid\">\n");
    page.push_str(&tables::queues(outcome));
    page.push_str(&tables::longest_waits(outcome));
    page.push_str("</section>\n");
    footer(&mut page, outcome);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn header(page: &mut String, title: &Title) {
    let seed = title.seed.map_or(String::new(), |seed| format!(" · seed {seed}"));
    let _ = write!(
        page,
        "<header>\n<h1>{}</h1>\n<p class=\"quiet\">{} · policy {}{seed}</p>\n</header>\n",
        escape(&title.headline),
        escape(&title.workload),
        escape(&title.policy),
    );
}

fn tiles(page: &mut String, summary: &Summary) {
    let ended = if summary.jobs_ended == summary.jobs {
        "all of them ended".to_owned()
    } else {
        format!("{} ended", thousands(summary.jobs_ended))
    };
    let interruptions = summary.preemptions + summary.failures;
    let tiles = [
        (
            "Utilisation",
            format!("{:.1} %", summary.utilisation_percent),
            "of GPU time while jobs arrived".to_owned(),
        ),
        (
            "Mean wait",
            duration_mean(summary.wait.mean_seconds),
            match summary.wait.p50_seconds {
                0 => "half start at once".to_owned(),
                p50 => format!("half below {}", duration(u64::from(p50))),
            },
        ),
        (
            "99 of 100 wait below",
            duration(u64::from(summary.wait.p99_seconds)),
            format!("longest {}", duration(u64::from(summary.wait.max_seconds))),
        ),
        ("Jobs", thousands(summary.jobs), ended),
        (
            "Lost GPU time",
            format!("{:.2} %", summary.lost_percent),
            format!("{} interruptions", thousands(interruptions)),
        ),
        ("Makespan", duration(summary.makespan_seconds), "first arrival to last end".to_owned()),
    ];
    page.push_str("<section class=\"tiles\">\n");
    for (label, value, beside) in tiles {
        let _ = writeln!(
            page,
            "<div class=\"card tile\"><p class=\"label\">{label}</p><p class=\"value\">{}</p><p class=\"beside\">{}</p></div>",
            escape(&value),
            escape(&beside),
        );
    }
    page.push_str("</section>\n");
}

fn footer(page: &mut String, outcome: &Outcome) {
    let summary = &outcome.summary;
    let step = duration(outcome.series.step_seconds.unsigned_abs());
    let _ = write!(
        page,
        "<footer>\n<dl>\
         <dt>Wait</dt><dd>from submission to the first start.</dd>\
         <dt>Utilisation</dt><dd>GPU time in use over GPU time present, from the first to the last arrival.</dd>\
         <dt>Lost GPU time</dt><dd>what jobs spent and had to do again after a preemption or a failed node, \
         over all that was spent; {:.2} % by preemption.</dd>\
         <dt>Stopped</dt><dd>how often a job had to give way or lost a node.</dd>\
         <dt>Fragmented</dt><dd>free GPUs on nodes of which some are in use: a member that needs a whole node cannot have them.</dd>\
         </dl>\n<p>Simulated by Warpyard with the planner that runs in production: {} moments, {} plans. Times are UTC; \
         each point of a plot is the mean over {step}.</p>\n</footer>\n",
        summary.preempted_percent,
        thousands(summary.moments),
        thousands(summary.plans),
    );
}
