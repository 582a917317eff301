//! Compares forecasts of starts, made at submission, with the actual starts.
//!
//! ```text
//!   simulate once ──► jobs that wait over a minute ──► some of them, by seed
//!   simulate again ─► forecast each of these after the plan that did not start it ─► compare with its start
//! ```
//!
//! The forecast knows what a scheduler knows at that time: the state, the ends and arrivals so far, and the
//! accuracy of earlier forecasts. The naive forecast knows the waits of the team's last jobs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cluster_model::plan::Plan;
use cluster_model::{ClusterState, GangKey};
use forecast::{Arrivals, Calibration, Draws, Forecast, Known, Range, eta};
use jiff::Timestamp;
use placement::Policy;
use simulator::{Happening, Job, Options, Random, Simulation, Watch, Workload, simulate};

/// Shorter waits are not forecast.
const WAITED_SECONDS_MIN: u32 = 60;
/// Waits of its team that the naive forecast looks at.
const NAIVE_WAITS: usize = 50;
/// The naive forecast without waits.
const NAIVE_UNKNOWN_SECONDS: u32 = 600;

/// The accuracy of the forecasts.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Jobs that were forecast.
    pub forecasts: usize,
    /// Jobs that waited over a minute.
    pub eligible: usize,
    /// The share that started by the forecast p50, and by the p90.
    pub covered_percent: [f64; 2],
    /// Pinball loss of p50 and p90 together, mean in seconds.
    pub pinball_seconds: f64,
    /// The same of the naive forecast, from all waits of the team and from those over a minute.
    pub naive_pinball_seconds: [f64; 2],
}

/// Forecasts `jobs` of the workload's jobs, drawn by seed. `progress` is called for each.
pub fn measure(
    workload: &Workload,
    policy: &Policy,
    jobs: usize,
    seed: u64,
    progress: &mut dyn FnMut(usize),
) -> Figures {
    let truth = simulate(workload.clone(), policy.clone(), Options::default());
    let waited = |number: u32| truth.records[number as usize].started.unwrap_or(0);
    let all = 0..u32::try_from(truth.records.len()).expect("jobs are fewer than 2³²");
    let mut eligible: Vec<u32> = all.filter(|number| waited(*number) > WAITED_SECONDS_MIN).collect();
    let eligible_count = eligible.len();
    shuffle(&mut eligible, seed);
    eligible.truncate(jobs);
    let mut forecaster = Forecaster {
        policy: policy.clone(),
        wanted: eligible.into_iter().collect(),
        seed,
        arrivals: Arrivals::default(),
        calibration: Calibration::default(),
        submitted: Vec::new(),
        open: BTreeMap::new(),
        teams: BTreeMap::new(),
        made: Vec::new(),
        progress,
    };
    Simulation::new(workload.clone(), policy.clone(), Options::default()).run(&mut forecaster);
    figures(&forecaster.made, waited, eligible_count)
}

fn shuffle(numbers: &mut [u32], seed: u64) {
    let mut random = Random::new(seed);
    for end in (1..numbers.len()).rev() {
        let other = usize::try_from(random.below(end as u64 + 1)).unwrap_or(end);
        numbers.swap(end, other);
    }
}

fn figures(made: &[Made], waited: impl Fn(u32) -> u32, eligible: usize) -> Figures {
    let count = f64::from(u32::try_from(made.len().max(1)).unwrap_or(u32::MAX));
    let share = |covered: &dyn Fn(&Made) -> bool| {
        let covered = made.iter().filter(|it| covered(it)).count();
        100.0 * f64::from(u32::try_from(covered).unwrap_or(u32::MAX)) / count
    };
    let loss = |range: &dyn Fn(&Made) -> Range| {
        made.iter().map(|it| pinball_of(range(it), waited(it.number))).sum::<f64>() / count
    };
    Figures {
        forecasts: made.len(),
        eligible,
        covered_percent: [
            share(&|it| waited(it.number) <= it.range.p50_seconds),
            share(&|it| waited(it.number) <= it.range.p90_seconds),
        ],
        pinball_seconds: loss(&|it| it.range),
        naive_pinball_seconds: [loss(&|it| it.naive[0]), loss(&|it| it.naive[1])],
    }
}

fn pinball_of(range: Range, waited: u32) -> f64 {
    let pinball = |said: u32, quantile: f64| {
        let late = f64::from(waited) - f64::from(said);
        (quantile * late).max((quantile - 1.0) * late)
    };
    pinball(range.p50_seconds, 0.5) + pinball(range.p90_seconds, 0.9)
}

/// A forecast that was made.
struct Made {
    number: u32,
    range: Range,
    naive: [Range; 2],
}

struct Forecaster<'a> {
    policy: Policy,
    wanted: BTreeSet<u32>,
    seed: u64,
    arrivals: Arrivals,
    calibration: Calibration,
    /// Since the last plan.
    submitted: Vec<(u32, GangKey)>,
    /// Forecasts whose start has not come yet.
    open: BTreeMap<u32, Forecast>,
    teams: BTreeMap<Arc<str>, [VecDeque<u32>; 2]>,
    made: Vec<Made>,
    progress: &'a mut dyn FnMut(usize),
}

impl Watch for Forecaster<'_> {
    fn happened(&mut self, at: Timestamp, what: &Happening<'_>) {
        match what {
            Happening::Submitted { number, job } => {
                self.submitted.push((*number, GangKey::new(team(job), job.name.clone())));
            }
            Happening::Started { number, job, .. } => {
                let waited = at.as_second() - job.submitted.as_second();
                self.note_wait(&team(job), u32::try_from(waited).unwrap_or(0));
                if let Some(forecast) = self.open.remove(number) {
                    self.calibration.started(&forecast, at);
                }
            }
            _ => {}
        }
    }

    fn planned(&mut self, state: &mut ClusterState, plan: &Plan) {
        for (number, gang) in std::mem::take(&mut self.submitted) {
            self.arrivals.note(state, &gang, plan.made_at);
            if self.wanted.contains(&number) {
                self.forecast(state, plan.made_at, number, &gang);
            }
        }
    }
}

impl Forecaster<'_> {
    fn forecast(&mut self, state: &ClusterState, now: Timestamp, number: u32, gang: &GangKey) {
        let known = Known { arrivals: &self.arrivals, calibration: &self.calibration, coming: &[] };
        let draws = Draws { seed: self.seed ^ u64::from(number) << 20, ..Draws::default() };
        let Some((range, forecast)) = eta(state, &self.policy, now, gang, known, draws) else { return };
        self.open.insert(number, forecast);
        let naive = [0, 1].map(|which| {
            let waits = self.teams.get(&gang.namespace).map(|waits| &waits[which]);
            naive(waits.into_iter().flatten().copied().collect())
        });
        self.made.push(Made { number, range, naive });
        (self.progress)(self.made.len());
    }

    fn note_wait(&mut self, team: &Arc<str>, waited: u32) {
        let [all, long] = self.teams.entry(team.clone()).or_default();
        let both = [Some(all), Some(long).filter(|_| waited > WAITED_SECONDS_MIN)];
        for waits in both.into_iter().flatten() {
            waits.push_back(waited);
            if waits.len() > NAIVE_WAITS {
                waits.pop_front();
            }
        }
    }
}

fn team(job: &Job) -> Arc<str> {
    job.team.clone().unwrap_or_else(|| job.queue.as_str().into())
}

fn naive(mut waits: Vec<u32>) -> Range {
    waits.sort_unstable();
    let quantile = |percent: usize| {
        let Some(last) = waits.len().checked_sub(1) else { return NAIVE_UNKNOWN_SECONDS };
        let (index, rest) = (last * percent / 100, last * percent % 100);
        let (low, high) = (waits[index], waits[(index + 1).min(last)]);
        low + u32::try_from(u64::from(high - low) * rest as u64 / 100).unwrap_or(0)
    };
    Range { p50_seconds: quantile(50), p90_seconds: quantile(90) }
}
