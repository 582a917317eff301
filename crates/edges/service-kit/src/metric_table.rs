//! Tables of metrics. A process registers its metrics with the help texts of its table, the reference lists the same
//! table, and a test compares both with a scrape.

use std::collections::BTreeSet;
use std::fmt::Write;

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Grows; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Buckets, a sum and a count.
    Histogram,
}

impl MetricKind {
    /// The word of Prometheus.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricEntry {
    /// Without the table's prefix and, for counters, without `_total`.
    pub name: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
    /// Its labels, each with the origin of its values.
    pub labels: &'static [(&'static str, &'static str)],
    /// Its help text.
    pub help: &'static str,
}

/// Metrics with names that begin alike.
#[derive(Clone, Copy, Debug)]
pub struct MetricTable {
    /// The beginning of all names, without the `_` after it.
    pub prefix: &'static str,
    /// The metrics, in the order of the reference.
    pub entries: &'static [MetricEntry],
}

impl MetricEntry {
    /// A metric without labels.
    pub const fn new(name: &'static str, kind: MetricKind, help: &'static str) -> Self {
        Self { name, kind, labels: &[], help }
    }

    /// The same with labels.
    #[must_use]
    pub const fn labels(self, labels: &'static [(&'static str, &'static str)]) -> Self {
        Self { labels, ..self }
    }
}

impl MetricTable {
    /// The name of a metric as a scrape shows it.
    pub fn full_name(&self, entry: &MetricEntry) -> String {
        let ending = if entry.kind == MetricKind::Counter { "_total" } else { "" };
        format!("{}_{}{ending}", self.prefix, entry.name)
    }

    /// The help text of a metric; empty for an unknown name.
    pub fn help(&self, name: &str) -> &'static str {
        self.entries.iter().find(|entry| entry.name == name).map_or("", |entry| entry.help)
    }

    /// The table as Markdown, for the reference.
    pub fn to_markdown(&self) -> String {
        let mut text = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
        for entry in self.entries {
            let labels: Vec<String> =
                entry.labels.iter().map(|(name, values)| format!("`{name}`: {values}")).collect();
            let (name, kind) = (self.full_name(entry), entry.kind.as_str());
            writeln!(text, "| `{name}` | {kind} | {} | {} |", labels.join("; "), entry.help)
                .expect("writing to a string does not fail");
        }
        text
    }

    /// For tests: the differences between the table and a scrape in which each metric has a sample.
    pub fn differences(&self, scrape: &str) -> Vec<String> {
        let types = scrape.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let found: BTreeSet<String> =
            types.filter(|line| line.starts_with(self.prefix)).map(str::to_owned).collect();
        let named = |entry: &MetricEntry| format!("{}_{} {}", self.prefix, entry.name, entry.kind.as_str());
        let listed: BTreeSet<String> = self.entries.iter().map(named).collect();
        let mut differences: Vec<String> =
            found.symmetric_difference(&listed).map(|family| format!("only on one side: {family}")).collect();
        for entry in self.entries {
            let ending = if entry.kind == MetricKind::Histogram { "_count" } else { "" };
            let name = format!("{}{ending}", self.full_name(entry));
            let mut samples = scrape.lines().filter(|line| line.split(['{', ' ']).next() == Some(&*name));
            let has_labels = |line: &str| {
                entry.labels.iter().all(|(label, _)| line.contains(&format!("{label}=\"")))
                    && line.contains('{') != entry.labels.is_empty()
            };
            if entry.help.is_empty() || !samples.any(has_labels) {
                differences.push(format!("no help, or no sample with these labels: {name}"));
            }
        }
        differences
    }
}
