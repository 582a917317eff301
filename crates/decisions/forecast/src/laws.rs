//! How long gangs will run: drawn from the run times of gangs like them, given how long they have run so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_model::{ClusterState, RUN_TIME_STEPS as STEPS, RunTimes};
use jiff::Timestamp;

use crate::random::Random;

/// How many gangs of its own a class needs to count as much as those of its size, and a size as much as all.
const ABOVE_WEIGHT: f64 = 4.0;
/// The chance that a gang ends within a step about which nothing is known: low within the first quarter of an hour,
/// then one in five with each step. Half of them run for half an hour, one in ten for five hours.
const UNKNOWN_EARLY: f64 = 0.02;
const UNKNOWN_LATER: f64 = 0.2;
/// The step of 17 minutes.
const LATER: usize = 20;

/// The chance that a gang ends within each step that it reaches.
type Law = [f64; STEPS];

/// The laws as known at one moment; those that were asked for are kept.
pub(crate) struct Laws<'a> {
    state: &'a ClusterState,
    passed: Running,
    known: BTreeMap<(Arc<str>, i64), Law>,
}

/// Running gangs that have passed a step without ending in it, by class, by size, and all.
type Running = (BTreeMap<(Arc<str>, i64), Passed>, BTreeMap<i64, Passed>, Passed);

type Passed = [u32; STEPS];

impl<'a> Laws<'a> {
    pub fn new(state: &'a ClusterState, now: Timestamp) -> Self {
        let mut this =
            Self { state, passed: (BTreeMap::new(), BTreeMap::new(), [0; STEPS]), known: BTreeMap::new() };
        for gang in state.running_gangs().filter_map(|key| state.gang(key)) {
            let Some(started) = gang.started() else { continue };
            let step = RunTimes::step_of(now.as_second() - started.as_second());
            let (classes, sizes, all) = &mut this.passed;
            let class = (gang.key().namespace.clone(), gang.gpus_placed());
            let size = sizes.entry(class.1).or_insert([0; STEPS]);
            for passed in [classes.entry(class).or_insert([0; STEPS]), size, all] {
                passed[..step].iter_mut().for_each(|count| *count += 1);
            }
        }
        this
    }

    /// A run time in seconds, longer than `so_far`.
    pub fn draw(&mut self, namespace: &Arc<str>, gpus: i64, so_far: i64, random: &mut Random) -> i64 {
        let class = (namespace.clone(), gpus);
        if !self.known.contains_key(&class) {
            let law = self.law(&class);
            self.known.insert(class.clone(), law);
        }
        draw(&self.known[&class], so_far, random)
    }

    fn law(&self, class: &(Arc<str>, i64)) -> Law {
        let [own, size, all] = self.state.history().run_times(&class.0, class.1);
        let (classes, sizes, everybody) = &self.passed;
        let unknown = std::array::from_fn(|step| if step < LATER { UNKNOWN_EARLY } else { UNKNOWN_LATER });
        let law = refine(&unknown, all, Some(everybody));
        let law = refine(&law, size, sizes.get(&class.1));
        refine(&law, own, classes.get(class))
    }
}

/// What is known about some gangs, on top of what is known about more.
fn refine(above: &Law, ended: Option<&RunTimes>, passed: Option<&Passed>) -> Law {
    std::array::from_fn(|step| {
        let ends = ended.map_or(0.0, |it| it.ended(step));
        let reached = ended.map_or(0.0, |it| it.reached(step)) + passed.map_or(0.0, |it| f64::from(it[step]));
        (ends + ABOVE_WEIGHT * above[step]) / (reached + ABOVE_WEIGHT)
    })
}

/// Goes from step to step until the gang ends in one; within a step every moment is equally likely.
fn draw(law: &Law, so_far: i64, random: &mut Random) -> i64 {
    let so_far = so_far.max(1);
    let from = as_float(so_far);
    for (step, chance) in law.iter().enumerate().skip(RunTimes::step_of(so_far)) {
        let (begin, end) = (begin_of(step).max(from), begin_of(step + 1));
        let left = ((end - begin) / (end - begin_of(step))).clamp(0.0, 1.0);
        if random.share() < chance * left {
            return whole(begin + (end - begin) * random.share()).max(so_far + 1);
        }
    }
    whole(begin_of(STEPS)).max(so_far + 1)
}

/// 2^(step ÷ 2), by multiplications only: the same on every machine.
fn begin_of(step: usize) -> f64 {
    let octave = (0..step / 2).fold(1.0, |length, _| length * 2.0);
    if step.is_multiple_of(2) { octave } else { octave * std::f64::consts::SQRT_2 }
}

fn as_float(seconds: i64) -> f64 {
    f64::from(i32::try_from(seconds).unwrap_or(i32::MAX))
}

#[allow(clippy::cast_possible_truncation, reason = "at most 2²⁴ seconds")]
fn whole(seconds: f64) -> i64 {
    seconds as i64
}

#[cfg(test)]
mod tests {
    use cluster_model::{ClusterChange, GangKey, Node, Pod, PodKey};

    use super::*;

    const NOW: i64 = 1_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    /// A cluster in which gangs of `team` ran for these numbers of seconds, and others still run.
    fn seen(team: &str, ended: &[i64], running: &[i64]) -> ClusterState {
        let mut state = ClusterState::default();
        state.apply(ClusterChange::Node(Node::new("node")));
        let pod = |number: usize, ran: i64| Pod {
            node: Some("node".into()),
            started: Some(at(NOW - ran)),
            created: at(NOW - ran),
            ..Pod::new(PodKey::new(team, number.to_string(), "1"), GangKey::new(team, number.to_string()))
        };
        state.advance(at(NOW));
        for (number, ran) in ended.iter().chain(running).enumerate() {
            state.apply(ClusterChange::Pod(pod(number, *ran)));
            if number < ended.len() {
                state.apply(ClusterChange::PodGone(pod(number, *ran).key));
            }
        }
        state
    }

    /// The tenth, the middle and the ninth tenth of a thousand run times.
    fn drawn(state: &ClusterState, team: &str, so_far: i64) -> [i64; 3] {
        let (mut laws, mut random) = (Laws::new(state, at(NOW)), Random::new(1));
        let mut times: Vec<i64> =
            (0..1_000).map(|_| laws.draw(&team.into(), 0, so_far, &mut random)).collect();
        times.sort_unstable();
        assert!(times[0] > so_far, "{times:?}");
        [times[100], times[500], times[900]]
    }

    #[test]
    fn of_what_is_unknown_half_runs_for_half_an_hour_and_a_tenth_for_hours() {
        let [_, half, tenth] = drawn(&ClusterState::default(), "team", 0);
        assert!((1_200..2_400).contains(&half), "{half}");
        assert!((14_400..28_800).contains(&tenth), "{tenth}");
    }

    #[test]
    fn what_is_known_is_drawn_again_of_its_own_team_first() {
        let state = seen("team", &[100; 200], &[]);
        let [early, half, late] = drawn(&state, "team", 0);
        assert!(early >= 90 && half <= 128 && late <= 128, "{early} {half} {late}");
        let state = seen("others", &[100; 200], &[]);
        let [_, half, _] = drawn(&state, "team", 0);
        assert!(half <= 128, "what others do is the next best guess: {half}");
    }

    #[test]
    fn who_still_runs_has_not_ended() {
        let ended = [100; 50];
        let [_, half, _] = drawn(&seen("team", &ended, &[50_000; 200]), "team", 0);
        assert!(half > 50_000, "four in five still run: {half}");
        let [_, half, _] = drawn(&seen("team", &ended, &[]), "team", 20_000);
        assert!(half > 20_000, "who ran for longer than all others is not about to end at once: {half}");
    }
}
