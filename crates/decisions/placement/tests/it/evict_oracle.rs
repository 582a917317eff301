//! How far from the best: victims and moves against an exhaustive search on small clusters.

use cluster_model::plan::EvictionRule;
use cluster_model::{Amounts, ClusterChange, ClusterState, EvictionTerms, Queue, Reclaim, Terms};
use placement::{ConsolidationPolicy, Plan, Policy};

use crate::build::{add, cluster, gang, node, queue};
use crate::cases::Random;
use crate::evict::{at, in_queue, planned_at, policy, running, with_priority, with_terms};

const NOW: i64 = 10_000;

/// A gang that runs: its members' nodes, and GPUs of each.
#[derive(Clone)]
struct Runs {
    at: Vec<usize>,
    gpus: i64,
    lost: u64,
    checkpoints: bool,
    never: bool,
    /// For victims: by priority within one queue, or in a queue of its own.
    priority: i32,
    queue: usize,
}

struct Case {
    sizes: Vec<i64>,
    runs: Vec<Runs>,
    members: usize,
    gpus: i64,
}

impl Case {
    /// Up to six nodes and eight gangs on them, and a claimant of one to three members.
    fn random(random: &mut Random, full: bool) -> Self {
        let nodes = usize::try_from(2 + random.below(5)).expect("small numbers");
        let sizes: Vec<i64> = (0..nodes).map(|_| random.pick(&[2, 4, 4, 8])).collect();
        let mut free = sizes.clone();
        let mut runs = Vec::new();
        for _ in 0..(if full { 8 } else { 1 + random.below(8) }) {
            let (members, gpus) = (1 + random.below(3), random.pick(&[1_i64, 1, 2, 2, 3, 4]));
            let mut at = Vec::new();
            for _ in 0..members {
                let start = usize::try_from(random.below(nodes as u64)).expect("small numbers");
                if let Some(node) =
                    (start..start + nodes).map(|node| node % nodes).find(|node| free[*node] >= gpus)
                {
                    free[node] -= gpus;
                    at.push(node);
                }
            }
            if at.is_empty() {
                continue;
            }
            let since = i64::try_from(random.below(1000)).expect("small numbers");
            let lost = u64::try_from(i64::try_from(at.len()).expect("small numbers") * gpus * since)
                .expect("small numbers");
            runs.push(Runs {
                at,
                gpus,
                lost,
                checkpoints: random.chance(80),
                never: random.chance(10),
                priority: i32::try_from(random.below(3)).expect("small numbers"),
                queue: usize::try_from(random.below(2)).expect("small numbers"),
            });
        }
        let members = usize::try_from(1 + random.below(3)).expect("small numbers");
        Self { sizes, runs, members, gpus: random.pick(&[1, 2, 3, 4, 4, 8]) }
    }

    fn free(&self) -> Vec<i64> {
        let mut free = self.sizes.clone();
        for runs in &self.runs {
            runs.at.iter().for_each(|node| free[*node] -= runs.gpus);
        }
        free
    }

    /// The state; `queue_of` and `claimant_queue` say which queues are charged.
    fn state(&self, queues: &[&str], claimant_queue: &str, claimant_priority: i32) -> ClusterState {
        let nodes = self.sizes.iter().enumerate();
        let mut state = cluster(nodes.map(|(index, gpus)| node(&format!("n{index}"), "H100", *gpus)));
        for name in queues.iter().chain([&claimant_queue]) {
            state.apply(ClusterChange::Queue(queue(name, None, &[])));
        }
        for (index, runs) in self.runs.iter().enumerate() {
            let each = i64::try_from(runs.at.len()).expect("small numbers") * runs.gpus;
            let since = NOW - i64::try_from(runs.lost).expect("small numbers") / each;
            let eviction = EvictionTerms { never: runs.never, checkpoints: runs.checkpoints };
            let names: Vec<String> = runs.at.iter().map(|node| format!("n{node}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let pods =
                gang(&format!("runs-{index}"), u32::try_from(names.len()).expect("small numbers"), runs.gpus);
            let pods = with_terms(pods, &Terms { eviction, ..Terms::default() });
            let pods = in_queue(with_priority(pods, runs.priority), queues[runs.queue % queues.len()]);
            add(&mut state, running(pods, &names, since));
        }
        let claimant = gang("claims", u32::try_from(self.members).expect("small numbers"), self.gpus);
        add(&mut state, with_priority(in_queue(claimant, claimant_queue), claimant_priority));
        state.advance(at(NOW));
        state
    }

    fn all_but(&self, set: u32) -> Vec<i64> {
        let mut free = self.free();
        for (index, runs) in self.runs.iter().enumerate().filter(|(index, _)| set & (1 << index) != 0) {
            debug_assert!(index < 32);
            runs.at.iter().for_each(|node| free[*node] += runs.gpus);
        }
        free
    }

    fn claim(&self) -> Vec<i64> {
        vec![self.gpus; self.members]
    }
}

/// Whether items fit into what is free: tries every place for each.
fn packs(free: &mut Vec<i64>, items: &[i64]) -> bool {
    let Some((first, rest)) = items.split_first() else { return true };
    let mut tried = Vec::new();
    for node in 0..free.len() {
        if free[node] < *first || tried.contains(&free[node]) {
            continue;
        }
        tried.push(free[node]);
        free[node] -= first;
        let fits = packs(free, rest);
        free[node] += first;
        if fits {
            return true;
        }
    }
    false
}

fn sets(gangs: usize) -> impl Iterator<Item = u32> {
    0..1u32 << gangs
}

/// Nothing is where it cannot be once every gang has left and gone where it is held.
fn holds_fit(case: &Case, plan: &Plan, seed: u64) {
    let gone = |name: &str| plan.evictions.iter().any(|it| &*it.gang.name == name);
    let mut free = case.sizes.clone();
    for (index, runs) in case.runs.iter().enumerate() {
        if !gone(&format!("runs-{index}")) {
            runs.at.iter().for_each(|node| free[*node] -= runs.gpus);
        }
    }
    for hold in &plan.holds {
        let index =
            hold.gang.name.strip_prefix("runs-").map(|index| index.parse::<usize>().expect("small numbers"));
        let gpus = index.map_or(case.gpus, |index| case.runs[index].gpus);
        for member in &hold.members {
            free[member.node.as_str()[1..].parse::<usize>().expect("small numbers")] -= gpus;
        }
    }
    assert!(free.iter().all(|free| *free >= 0), "seed {seed}: {free:?} {plan:?}");
}

#[test]
fn consolidation_starts_nearly_all_that_moving_three_could_start() {
    let (mut possible, mut started) = (0u32, 0u32);
    let consolidation = ConsolidationPolicy { moves_max: 3, after_seconds: 0 };
    let policy = Policy { consolidation, ..Policy::default() };
    let mut seed = 0;
    while possible < 200 {
        seed += 1;
        assert!(seed < 100_000, "only {possible} cases");
        let case = Case::random(&mut Random::new(seed), false);
        if packs(&mut case.free(), &case.claim()) {
            continue;
        }
        let may_move = |set: &u32| {
            let movers = || case.runs.iter().enumerate().filter(|(index, _)| set & (1 << index) != 0);
            (1..=3).contains(&set.count_ones()) && movers().all(|(_, runs)| runs.checkpoints && !runs.never)
        };
        let is_possible = sets(case.runs.len()).filter(may_move).any(|set| {
            let movers = case.runs.iter().enumerate().filter(|(index, _)| set & (1 << index) != 0);
            let mut items = case.claim();
            items.extend(movers.flat_map(|(_, runs)| runs.at.iter().map(|_| runs.gpus)));
            items.sort_unstable_by_key(|gpus| -gpus);
            packs(&mut case.all_but(set), &items)
        });
        let mut state = case.state(&["nlp"], "nlp", 0);
        let plan = planned_at(&mut state, &policy, NOW);
        holds_fit(&case, &plan, seed);
        assert!(plan.evictions.iter().all(|it| it.moves && it.why == EvictionRule::Consolidation));
        assert_eq!(
            plan.holds.len(),
            plan.evictions.len() + usize::from(!plan.holds.is_empty()),
            "seed {seed}"
        );
        let starts = plan.holds.iter().any(|hold| &*hold.gang.name == "claims");
        assert!(is_possible || !starts, "seed {seed} starts what cannot be: {plan:?}");
        possible += u32::from(is_possible);
        started += u32::from(starts);
    }
    let percent = f64::from(started) * 100.0 / f64::from(possible);
    println!(
        "figure consolidation.started_percent {percent:.1} %  ({started} of {possible} by exhaustive search)"
    );
    assert!(percent >= 90.0, "{percent}");
}

/// Compares what is lost with the least that could be, and counts claimants that found no victims though they could.
fn compare(
    name: &str,
    cases: u32,
    full: bool,
    best: impl Fn(&Case) -> Option<u64>,
    plan: impl Fn(&Case) -> Plan,
) {
    let (mut lost_sum, mut best_sum, mut missed, mut exact, mut worst) = (0u64, 0u64, 0u32, 0u32, 1.0f64);
    let (mut seed, mut found) = (0u64, 0u32);
    while found + missed < cases {
        seed += 1;
        assert!(seed < 1_000_000, "only {found} cases");
        let case = Case::random(&mut Random::new(seed), full);
        if packs(&mut case.free(), &case.claim()) {
            continue;
        }
        let (best, plan) = (best(&case), plan(&case));
        holds_fit(&case, &plan, seed);
        let Some(best) = best else {
            assert_eq!(plan.evictions, [], "seed {seed} evicts for what cannot be");
            continue;
        };
        if plan.holds.is_empty() {
            missed += 1;
            continue;
        }
        let lost: u64 = plan.evictions.iter().map(|it| it.lost_gpu_seconds).sum();
        assert!(lost >= best, "seed {seed}: {lost} is less than the least, {best}");
        found += 1;
        exact += u32::from(lost == best);
        (lost_sum, best_sum) = (lost_sum + lost, best_sum + best);
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let over = lost as f64 / best.max(1) as f64;
        worst = worst.max(over);
    }
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let over = lost_sum as f64 / best_sum as f64;
    println!(
        "figure evict.{name}.lost_over_best {over:.4} ratio  ({exact} of {found} exact, worst {worst:.2}, {missed} missed)"
    );
    assert!(missed * 100 <= cases, "{missed} of {cases} missed");
    assert!(over <= 1.05, "{over}");
}

#[test]
fn victims_by_priority_lose_little_more_than_the_least() {
    let best = |case: &Case| {
        let may = |set: &u32| {
            let victims = || case.runs.iter().enumerate().filter(|(index, _)| set & (1 << index) != 0);
            victims().all(|(_, runs)| !runs.never && runs.priority < 2)
        };
        let lost = |set: u32| -> u64 {
            let victims = case.runs.iter().enumerate().filter(|(index, _)| set & (1 << index) != 0);
            victims.map(|(_, runs)| lost_of(runs)).sum()
        };
        let sets = sets(case.runs.len()).filter(may);
        sets.filter(|set| packs(&mut case.all_but(*set), &case.claim())).map(lost).min()
    };
    compare("priority", 400, true, best, |case| {
        planned_at(&mut case.state(&["nlp"], "nlp", 2), &policy(), NOW)
    });
}

#[test]
fn victims_by_reclaim_lose_little_more_than_the_least_and_no_queue_falls_below_its_quota() {
    const QUOTA: i64 = 6;
    let held = |case: &Case, queue: usize, set: u32| -> i64 {
        let stays = case.runs.iter().enumerate().filter(|(index, _)| set & (1 << index) == 0);
        let of_queue = stays.filter(|(_, runs)| runs.queue == queue);
        of_queue.map(|(_, runs)| runs.gpus * i64::try_from(runs.at.len()).expect("small numbers")).sum()
    };
    let best = |case: &Case| {
        let may = |set: &u32| {
            let victims = || case.runs.iter().enumerate().filter(|(index, _)| set & (1 << index) != 0);
            let keeps = |queue: usize| {
                held(case, queue, *set) >= QUOTA || held(case, queue, *set) == held(case, queue, 0)
            };
            victims().all(|(_, runs)| !runs.never) && keeps(0) && keeps(1)
        };
        let lost = |set: u32| -> u64 {
            let victims = case.runs.iter().enumerate().filter(|(index, _)| set & (1 << index) != 0);
            victims.map(|(_, runs)| lost_of(runs)).sum()
        };
        let sets = sets(case.runs.len()).filter(may);
        sets.filter(|set| packs(&mut case.all_but(*set), &case.claim())).map(lost).min()
    };
    let plan = |case: &Case| {
        let mut state = case.state(&["b", "c"], "a", 0);
        for (name, quota) in [("a", 64), ("b", QUOTA), ("c", QUOTA)] {
            let limit = Amounts { gpus: [("H100".into(), 64)].into(), ..Amounts::default() };
            state.apply(ClusterChange::Queue(Queue {
                limit: Some(limit),
                reclaim: Reclaim { grace_seconds: 0, min_run_seconds: 0 },
                ..queue(name, Some("org"), &[("H100", quota)])
            }));
        }
        state.apply(ClusterChange::Queue(queue("org", None, &[])));
        let mut policy = policy();
        policy.eviction.by_priority = false;
        planned_at(&mut state, &policy, NOW)
    };
    compare("reclaim", 400, true, best, plan);
}

/// As the plan counts it: whole seconds.
fn lost_of(runs: &Runs) -> u64 {
    let gpus = runs.gpus * i64::try_from(runs.at.len()).expect("small numbers");
    u64::try_from(i64::try_from(runs.lost).expect("small numbers") / gpus * gpus).expect("small numbers")
}
