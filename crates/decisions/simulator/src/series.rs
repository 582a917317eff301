//! Values over time in a bounded number of points.
//!
//! Each point is the mean over its stretch of time, not a sample, so that nothing that happened between two points is
//! lost. When time outgrows the points, neighbours are merged and each stands for twice as long.

use serde::Serialize;

/// A value over time, as means over stretches of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SeriesLine {
    /// What it is.
    pub name: String,
    /// The means, from the start on.
    pub means: Vec<f64>,
}

/// All values over the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// When it starts, in seconds of the Unix epoch.
    pub start: i64,
    /// How long each point stands for.
    pub step_seconds: i64,
    /// GPUs that are there and take pods or have some.
    pub gpus: SeriesLine,
    /// GPUs in use.
    pub gpus_busy: SeriesLine,
    /// Jobs that wait.
    pub jobs_waiting: SeriesLine,
    /// GPUs that they ask for.
    pub gpus_waiting: SeriesLine,
    /// Free GPUs on nodes of which some are in use: a member that needs a whole node cannot have them.
    pub gpus_fragmented: SeriesLine,
    /// Nodes with pods on them.
    pub nodes_powered: SeriesLine,
    /// The power draw of the nodes, if it is known.
    pub watts: SeriesLine,
    /// GPUs in use by queue, in the order of the queues' names.
    pub queues: Vec<SeriesLine>,
}

/// The time that gauges share.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    start: i64,
    step_seconds: i64,
    points_max: usize,
}

/// One value, and its sums over each stretch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge {
    value: u64,
    since: i64,
    /// Value × seconds. A million GPUs in thousandths over a century are 3 × 10¹⁸, which fits.
    sums: Vec<u64>,
    total: u64,
}

impl Timeline {
    pub fn new(start: i64, points_max: usize) -> Self {
        Self { start, step_seconds: 1, points_max: points_max.max(2) }
    }

    /// Whether the points do not reach that far; then gauges must be merged first.
    pub fn is_outgrown_at(&self, at: i64) -> bool {
        self.index(at) >= self.points_max
    }

    /// Each point stands for twice as long from now on.
    pub fn merge<'a>(&mut self, gauges: impl Iterator<Item = &'a mut Gauge>) {
        self.step_seconds *= 2;
        for gauge in gauges {
            gauge.sums = gauge.sums.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }

    pub fn start(&self) -> i64 {
        self.start
    }

    pub fn step_seconds(&self) -> i64 {
        self.step_seconds
    }

    /// The means of a gauge up to a moment; `scale` turns its unit into that of people.
    #[expect(clippy::cast_precision_loss, reason = "a plot shows three digits")]
    pub fn line(&self, name: &str, gauge: &Gauge, until: i64, scale: f64) -> SeriesLine {
        let points = (self.index(until.max(self.start + 1) - 1) + 1).min(self.points_max);
        let means = (0..points)
            .map(|index| {
                let from = self.start + self.step_seconds * i64::try_from(index).unwrap_or(i64::MAX);
                let seconds = (until - from).clamp(1, self.step_seconds);
                gauge.sums.get(index).copied().unwrap_or(0) as f64 / seconds as f64 * scale
            })
            .collect();
        SeriesLine { name: name.to_owned(), means }
    }

    fn index(&self, at: i64) -> usize {
        usize::try_from((at - self.start) / self.step_seconds).unwrap_or(0)
    }
}

impl Gauge {
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Value × seconds since the start, up to the last time it was set or settled.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn set(&mut self, timeline: &Timeline, at: i64, value: u64) {
        self.settle(timeline, at);
        self.value = value;
    }

    /// Sums up to a moment.
    pub fn settle(&mut self, timeline: &Timeline, at: i64) {
        let mut from = self.since.max(timeline.start);
        self.since = at;
        if self.value == 0 {
            return;
        }
        // At most as many rounds as there are points.
        while from < at {
            let index = timeline.index(from);
            let end = timeline.start + timeline.step_seconds * (i64::try_from(index).unwrap_or(i64::MAX) + 1);
            let until = end.min(at);
            if self.sums.len() <= index {
                self.sums.resize(index + 1, 0);
            }
            let sum = self.value * (until - from).unsigned_abs();
            self.sums[index] += sum;
            self.total += sum;
            from = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Gauge, Timeline};

    #[test]
    fn means_survive_the_merging_of_points() {
        let mut timeline = Timeline::new(100, 4);
        let mut gauge = Gauge::default();
        gauge.set(&timeline, 100, 8);
        for at in [102, 104, 109] {
            while timeline.is_outgrown_at(at) {
                gauge.settle(&timeline, 104.min(at));
                timeline.merge(std::iter::once(&mut gauge));
            }
            gauge.set(&timeline, at, if at == 102 { 0 } else { 4 });
        }
        // 8 for two seconds, 0 for two, 4 for five.
        assert_eq!(gauge.total(), 36);
        assert_eq!(timeline.step_seconds(), 4);
        assert_eq!(timeline.line("x", &gauge, 109, 1.0).means, [4.0, 4.0, 4.0]);
    }
}
