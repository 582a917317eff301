//! A cluster that goes on by itself: gangs arrive, are planned with the real planner, run for as long as they run, and end.
//! Small and without the simulator, so that a rule can be seen at work over weeks within a test.

use std::collections::BTreeMap;

use cluster_model::{ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Queue, Resources, Terms};
use jiff::Timestamp;
use placement::{Plan, Policy, plan};
use seeded_random::Random;

/// Seconds.
pub const HOUR: i64 = 3600;
pub const DAY: i64 = 24 * HOUR;
pub const WEEK: i64 = 7 * DAY;

pub struct ClosedLoop {
    pub state: ClusterState,
    pub policy: Policy,
    pub now: i64,
    /// Gangs that run, by their end.
    ends: BTreeMap<(i64, GangKey), Vec<PodKey>>,
    /// How long gangs that wait will run, and of which kind they are.
    runs: BTreeMap<GangKey, (i64, Kind)>,
    waiting: BTreeMap<Kind, i64>,
    /// GPU seconds so far, by queue.
    pub used: BTreeMap<String, i64>,
    /// GPUs that each queue held after the last plan.
    held: BTreeMap<String, i64>,
    submitted: u64,
    random: Random,
}

/// Queue, members and GPUs of each.
type Kind = (String, u32, i64);

/// A gang to be submitted.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    pub queue: &'a str,
    pub members: u32,
    pub gpus_each: i64,
    pub seconds: i64,
    /// Whether its time limit says how long it runs.
    pub says_so: bool,
}

impl Work<'_> {
    fn kind(&self) -> Kind {
        (self.queue.to_owned(), self.members, self.gpus_each)
    }
}

impl ClosedLoop {
    pub fn new(nodes: impl IntoIterator<Item = Node>, queues: impl IntoIterator<Item = Queue>) -> Self {
        let mut state = ClusterState::default();
        nodes.into_iter().for_each(|node| state.apply(ClusterChange::Node(node)));
        queues.into_iter().for_each(|queue| state.apply(ClusterChange::Queue(queue)));
        Self {
            state,
            // Nobody reads the reasons here.
            policy: Policy { explain: false, ..Policy::default() },
            now: 0,
            ends: BTreeMap::new(),
            runs: BTreeMap::new(),
            waiting: BTreeMap::new(),
            used: BTreeMap::new(),
            held: BTreeMap::new(),
            submitted: 0,
            random: Random::new(42),
        }
    }

    /// Below `bound`, from a fixed seed.
    pub fn random(&mut self, bound: i64) -> i64 {
        let bound = u64::try_from(bound).expect("a bound is positive");
        i64::try_from(self.random.below(bound)).expect("it is below the bound")
    }

    pub fn submit(&mut self, work: Work<'_>) -> GangKey {
        self.submitted += 1;
        let gang = GangKey::new("team", format!("{}-{:06}", work.queue, self.submitted));
        let limit = u32::try_from(work.seconds).ok().filter(|_| work.says_so);
        let terms = std::sync::Arc::new(Terms { time_limit_seconds: limit, ..Terms::default() });
        for index in 0..work.members {
            let name = format!("{}-{index}", gang.name);
            self.state.apply(ClusterChange::Pod(Pod {
                gang_size: Some(work.members),
                queue: Some(work.queue.into()),
                requests: Resources { gpus: work.gpus_each, pods: 1, ..Resources::default() },
                created: at(self.now),
                member_index: Some(index),
                terms: terms.clone(),
                ..Pod::new(PodKey::new("team", name.clone(), name), gang.clone())
            }));
        }
        *self.waiting.entry(work.kind()).or_default() += 1;
        self.runs.insert(gang.clone(), (work.seconds, work.kind()));
        gang
    }

    /// How many gangs of this kind wait.
    pub fn waiting(&self, work: &Work<'_>) -> i64 {
        self.waiting.get(&work.kind()).copied().unwrap_or(0)
    }

    /// GPUs that a queue held from the last plan on.
    pub fn held(&self, queue: &str) -> i64 {
        self.held[queue]
    }

    /// Plans, starts what is planned, and advances the time by this much, or to the next end if that is earlier.
    pub fn step(&mut self, seconds: i64) -> Plan {
        self.state.advance(at(self.now));
        let plan = plan(&mut self.state, &self.policy, at(self.now));
        self.state.commit(&plan).whole().expect("what is planned can be done");
        for placement in &plan.placements {
            let (seconds, kind) = self.runs.remove(&placement.gang).expect("it was submitted");
            *self.waiting.get_mut(&kind).expect("it was submitted") -= 1;
            let end = self.now + seconds;
            let pods = placement.members.iter().map(|member| member.pod.clone()).collect();
            self.ends.insert((end, placement.gang.clone()), pods);
        }
        let next = self.ends.keys().next().map_or(i64::MAX, |(end, _)| *end).min(self.now + seconds);
        self.go_on_to(next);
        plan
    }

    fn go_on_to(&mut self, next: i64) {
        for (queue, usage) in self.state.queues() {
            let gpus: i64 = usage.gpus.values().sum();
            *self.used.entry(queue.name.to_string()).or_default() += gpus * (next - self.now);
            self.held.insert(queue.name.to_string(), gpus);
        }
        self.now = next;
        self.state.advance(at(next));
        while let Some(((end, _), _)) = self.ends.first_key_value()
            && *end <= next
        {
            let (_, pods) = self.ends.pop_first().expect("it was there a moment ago");
            for pod in pods {
                self.state.apply(ClusterChange::PodGone(pod));
            }
        }
    }
}

pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a test ends before the calendar does")
}
