//! Checks forecasts of what would start a gang now: whether offered changes are right, and whether a change is
//! offered if one exists.
//!
//! It uses random small clusters in which gangs run and wait. For a waiting gang, every offered change is made,
//! and a plan must start the gang. Then every possible single change is tried, to find changes that were not
//! offered.

use std::sync::Arc;

use cluster_model::plan::Plan;
use cluster_model::{
    Amounts, ClusterChange, ClusterState, EvictionTerms, GangKey, Level, Node, Pod, PodKey, Queue, Resources,
    Segment, Terms, TopologyTerms,
};
use forecast::{RequestChange, Topology, changes};
use jiff::Timestamp;
use placement::{OrderPolicy, Policy, plan};
use simulator::Random;

const NOW_SECONDS: i64 = 1_700_000_000;
/// Plans until no gang starts any more; each plan starts one, and there are at most this many gangs.
const PLANS_MAX: u32 = 32;
/// The most seeds that are named.
const EXAMPLES_MAX: usize = 10;

/// The quality of the offers.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Waiting gangs that were checked.
    pub cases: u64,
    /// Changes that were offered.
    pub offered: u64,
    /// Offered changes that really start the gang, in a plan that the judge accepts.
    pub verified: u64,
    /// Offered changes that do not, with their seeds, at most ten.
    pub refuted: Vec<(u64, RequestChange)>,
    /// Gangs that a single change can start.
    pub could_start: u64,
    /// Gangs of these for which a change was offered.
    pub found: u64,
    /// The seeds of gangs for which none was, at most ten.
    pub missed_seeds: Vec<u64>,
}

/// Whether a plan for a state keeps all rules of a policy.
pub type Judge<'a> = dyn FnMut(&ClusterState, &Plan, &Policy) -> bool + 'a;

/// Checks `cases` waiting gangs, from seed `first_seed` on.
pub fn measure(first_seed: u64, cases: u64, judge: &mut Judge<'_>) -> Figures {
    let mut figures = Figures::default();
    // In nearly half of the clusters no gang waits.
    for seed in first_seed..first_seed + 20 * cases {
        if figures.cases == cases {
            break;
        }
        if let Some(case) = Case::draw(seed) {
            case.look(seed, &mut figures, judge);
        }
    }
    figures
}

struct Case {
    state: ClusterState,
    policy: Policy,
    gang: GangKey,
}

impl Case {
    /// A cluster in which all gangs that can start have started, and a gang that has not; `None` if all have.
    fn draw(seed: u64) -> Option<Self> {
        let mut random = Random::new(seed);
        let mut state = ClusterState::default();
        state.advance(now());
        for queue in queues(&mut random) {
            state.apply(ClusterChange::Queue(queue));
        }
        for node in nodes(&mut random) {
            state.apply(ClusterChange::Node(node));
        }
        let policy = policy(&mut random);
        for number in 0..3 + random.below(9) {
            for pod in gang(&mut random, number) {
                state.apply(ClusterChange::Pod(pod));
            }
        }
        for _ in 0..PLANS_MAX {
            let plan = plan(&mut state, &policy, now());
            state.commit(&plan).whole().ok()?;
            if plan.placements.is_empty() {
                break;
            }
        }
        let waiting: Vec<GangKey> = state.waiting_gangs().cloned().collect();
        let chosen = random.below(waiting.len() as u64);
        let gang = waiting.get(usize::try_from(chosen).ok()?)?.clone();
        Some(Self { state, policy, gang })
    }

    fn look(&self, seed: u64, figures: &mut Figures, judge: &mut Judge<'_>) {
        let offered = changes(&self.state, &self.policy, now(), &self.gang);
        figures.cases += 1;
        figures.offered += offered.len() as u64;
        for change in &offered {
            if self.starts(change, judge) {
                figures.verified += 1;
            } else if figures.refuted.len() < EXAMPLES_MAX {
                figures.refuted.push((seed, change.clone()));
            }
        }
        if self.all_changes().iter().any(|change| self.starts(change, &mut |_, _, _| true)) {
            figures.could_start += 1;
            if !offered.is_empty() {
                figures.found += 1;
            } else if figures.missed_seeds.len() < EXAMPLES_MAX {
                figures.missed_seeds.push(seed);
            }
        }
    }

    /// Makes the change for good, and plans.
    fn starts(&self, change: &RequestChange, judge: &mut Judge<'_>) -> bool {
        let mut state = self.state.clone();
        for step in change.steps(&self.state, &self.gang, now()) {
            state.apply(step);
        }
        let plan = plan(&mut state, &self.policy, now());
        plan.placements.iter().any(|it| it.gang == self.gang) && judge(&state, &plan, &self.policy)
    }

    /// Every possible single change.
    fn all_changes(&self) -> Vec<RequestChange> {
        let Some(gang) = self.state.gang(&self.gang) else { return Vec::new() };
        let lead = self.state.pod(gang.lead()).pod();
        let members = u32::try_from(gang.pending().len()).unwrap_or(0);
        let gpus = (1..lead.requests.gpus).map(|gpus| RequestChange::FewerGpus { gpus });
        let members = (1..members).map(|members| RequestChange::FewerMembers { members });
        let types = self.state.gpu_types().map(|it| RequestChange::GpuType { gpu_type: it.clone() });
        let queues = self.state.queues().map(|(it, _)| it).filter(|it| it.namespaces.contains("team"));
        let queues = queues.map(|it| RequestChange::Queue { queue: it.name.clone() });
        let levels = (0..2).map(|level| Topology::Domain(Level(level))).chain([Topology::Anywhere]);
        let topology = levels.map(|within| RequestChange::Topology { within });
        gpus.chain(members).chain(types).chain(queues).chain(topology).chain([RequestChange::Spot]).collect()
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(NOW_SECONDS).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn chance(random: &mut Random, percent: u64) -> bool {
    random.below(100) < percent
}

fn pick<T: Copy>(random: &mut Random, among: &[T]) -> T {
    among[usize::try_from(random.below(among.len() as u64)).unwrap_or(0)]
}

fn policy(random: &mut Random) -> Policy {
    let mut policy = Policy { explain: chance(random, 50), ..Policy::default() };
    policy.order = pick(random, &[OrderPolicy::Age, OrderPolicy::Age, OrderPolicy::ExpectedWork]);
    policy.backfill.reservations_max = pick(random, &[0, 1, 1, 3]);
    let eviction = &mut policy.eviction;
    (eviction.by_priority, eviction.reclaim) = (chance(random, 30), chance(random, 30));
    eviction.by_expected_work = chance(random, 30);
    policy.consolidation.moves_max = pick(random, &[0, 0, 3]);
    policy
}

fn nodes(random: &mut Random) -> Vec<Node> {
    let one = |number: u64, random: &mut Random| Node {
        gpu_type: Some(pick(random, &["A100", "A100", "H100"]).into()),
        allocatable: Resources {
            gpus: pick(random, &[2, 4, 8, 8]),
            cpu_millis: 64_000,
            memory_bytes: 512 << 30,
            pods: 110,
        },
        topology: vec![
            format!("zone-{}", random.below(2)).into(),
            format!("rack-{}", random.below(3)).into(),
        ],
        spot: chance(random, 15),
        ..Node::new(format!("n{number}"))
    };
    (0..2 + random.below(6)).map(|number| one(number, random)).collect()
}

/// Three queues below one, some of them with little room.
fn queues(random: &mut Random) -> Vec<Queue> {
    let amounts = |random: &mut Random, most: u64| Amounts {
        gpus: ["A100", "H100"].map(|it| (it.into(), i64::try_from(random.below(most)).unwrap_or(0))).into(),
        ..Amounts::default()
    };
    let root = Queue::new("all");
    let child = |name: &str, random: &mut Random| Queue {
        parent: Some(root.name.clone()),
        quota: chance(random, 60).then(|| amounts(random, 20)),
        limit: chance(random, 30).then(|| amounts(random, 40)),
        namespaces: chance(random, 75).then(|| "team".into()).into_iter().collect(),
        ..Queue::new(name)
    };
    let mut queues: Vec<Queue> = ["one", "two", "three"].map(|name| child(name, random)).into();
    queues[0].namespaces = ["team".into()].into();
    queues.push(root);
    queues
}

fn gang(random: &mut Random, number: u64) -> Vec<Pod> {
    let name: Arc<str> = format!("g{number}").into();
    let members = pick(random, &[1, 1, 2, 3, 4, 6]);
    let gpus = pick(random, &[1, 1, 2, 3, 4, 8]);
    let terms = Arc::new(terms(random));
    let gpu_types = pick(random, &[&[][..], &["A100"][..], &["H100"][..], &["A100", "H100"][..]]);
    let age = i64::try_from(random.below(10_000)).unwrap_or(0);
    let queue = pick(random, &["one", "one", "two", "three"]);
    let priority = pick(random, &[0, 0, 0, 10]);
    let member = |index: u32| Pod {
        gang_size: Some(members),
        queue: Some(queue.into()),
        requests: Resources { gpus, cpu_millis: 1_000, memory_bytes: 1 << 30, pods: 1 },
        gpu_types: gpu_types.iter().map(|it| (*it).into()).collect(),
        priority,
        created: Timestamp::from_second(NOW_SECONDS - age).unwrap_or(Timestamp::UNIX_EPOCH),
        member_index: Some(index),
        terms: terms.clone(),
        ..Pod::new(PodKey::new("team", format!("{name}-{index}"), "1"), GangKey::new("team", name.clone()))
    };
    (0..members).map(member).collect()
}

fn terms(random: &mut Random) -> Terms {
    let level = |random: &mut Random| Level(pick(random, &[0, 1]));
    let required = chance(random, 35).then(|| level(random));
    let segment =
        chance(random, 10).then(|| Segment { members: pick(random, &[2, 3]), level: level(random) });
    let topology = TopologyTerms { required, preferred: None, segment };
    let time_limit_seconds = chance(random, 30).then(|| pick(random, &[600, 3_600, 86_400]));
    let eviction = EvictionTerms { checkpoints: chance(random, 40), ..EvictionTerms::default() };
    Terms { topology, time_limit_seconds, takes_spot: chance(random, 40), eviction, ..Terms::default() }
}
