//! Random clusters and what happens to them: each case is a cluster, its queues and gangs, a policy, and a few rounds of
//! planning, carrying out and things that happen, all from one seed. The judge looks at every plan and every state.
//!
//! ```text
//!   seed ──► nodes, queues, gangs, policy ──► round: plan ──► judge ──► commit ──► things happen ─┐
//!                                               ▲                                                 │
//!                                               └─────────────────────────────────────────────────┘
//! ```

pub mod attacks;
mod cluster;
mod gangs;
mod happen;
mod neighbours;
mod picky;
mod plain;
mod policies;
mod print;
mod random;
mod start;

use std::fmt;
use std::sync::Arc;

use cluster_model::plan::{Eviction, EvictionRule, Plan};
use cluster_model::{ClusterChange, ClusterState, EvictionTerms, QueueName};
use jiff::Timestamp;
use placement::testing::tidy;
use placement::{Policy, plan};
use plan_check::{Course, check_plan, check_state, neighbours_admit};

use attacks::{LEVELS, attacked_levels};
pub use random::Random;

/// When every case begins: late enough that things can have been before.
const BEGINNING_SECONDS: i64 = 1_000_000;

/// A cluster in the middle of its life.
pub struct Case {
    seed: u64,
    random: Random,
    pub state: ClusterState,
    pub policy: Policy,
    queues: Vec<QueueName>,
    now: Timestamp,
    gangs_so_far: u32,
    course: Course,
    /// Whether gangs ask for nothing but resources and nodes are counted, to look at some rules alone.
    plain: bool,
    /// Whether pods ask more of their nodes than room.
    picky: bool,
    /// Whether every gang saves its state: then others give way and are moved more often.
    saves: bool,
    /// What the cluster was told, for the printout.
    told: Vec<String>,
}

/// What a case did, so that one can see that cases are not empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Did {
    pub plans: u64,
    pub placements: u64,
    pub waiting: u64,
    pub evictions: u64,
    pub moves: u64,
    pub outrun: u64,
    pub tidied: u64,
    pub holds: u64,
    pub landed: u64,
    pub reservations: u64,
    /// Nodes that other pods refused to a pod that waits.
    pub near_refusals: u64,
    /// Cases in which priority was raised against quota, and at which levels of the tree.
    pub attacked: u64,
    pub attacked_at: [u64; LEVELS],
}

/// The judge disagrees with the planner, or with the state.
#[derive(Debug)]
pub struct Disagreement {
    pub seed: u64,
    pub round: u32,
    pub found: Vec<String>,
    pub printout: String,
}

impl Case {
    /// The case of a seed, before its first round.
    pub fn random(seed: u64) -> Self {
        Self::new(seed, false)
    }

    /// The same without what gangs may ask beyond resources, on Counted nodes.
    pub fn plain(seed: u64) -> Self {
        Self::new(seed, true)
    }

    fn new(seed: u64, plain: bool) -> Self {
        let mut random = Random::new(seed);
        let now = Timestamp::from_second(BEGINNING_SECONDS).expect("in range");
        let policy = policies::policy(&mut random);
        let saves = random.chance(25);
        let mut case = Self {
            seed,
            random,
            state: ClusterState::default(),
            policy,
            queues: Vec::new(),
            now,
            gangs_so_far: 0,
            course: Course::default(),
            plain,
            picky: seed % 8 >= 5,
            saves,
            told: Vec::new(),
        };
        case.state.advance(now);
        case.start();
        case
    }

    /// All rounds of the case.
    pub fn run(mut self) -> Result<Did, Box<Disagreement>> {
        let mut did = Did::default();
        let mut attacked = [false; LEVELS];
        for round in 0..self.random.count(3, 6) {
            for (ever, now) in attacked.iter_mut().zip(attacked_levels(&self.state)) {
                *ever |= now;
            }
            self.round(round, &mut did)?;
        }
        did.attacked = u64::from(attacked.contains(&true));
        did.attacked_at = attacked.map(u64::from);
        Ok(did)
    }

    fn round(&mut self, round: u32, did: &mut Did) -> Result<(), Box<Disagreement>> {
        // Now and then it is time to tidy up instead. That explains nothing to waiting gangs.
        let tidies = self.random.chance(20);
        if tidies && self.random.chance(80) {
            self.a_quiet_hour();
        }
        let (before, generation) = (self.state.dump(), self.state.generation());
        let make = if tidies { tidy } else { plan };
        let plan = make(&mut self.state, &self.policy, self.now);
        let again = make(&mut written_and_read(&self.state), &self.policy, self.now);
        let policy = Policy { explain: self.policy.explain && !tidies, ..self.policy.clone() };
        let mut found: Vec<String> = Vec::new();
        if again != plan {
            found.push(format!(
                "the state, saved and restored, is planned otherwise:\n{}",
                print::plan(&again)
            ));
        }
        if self.state.dump() != before || self.state.generation() != generation {
            found.push("planning changed the state".to_owned());
        }
        found.extend(check_plan(&self.state, &plan, &policy).iter().map(ToString::to_string));
        found.extend(check_state(&self.state).iter().map(ToString::to_string));
        found.extend(neighbours_agree(&self.state, did));
        found.extend(self.course.planned(&self.state, &plan).iter().map(ToString::to_string));
        self.agreed(round, &plan, found)?;
        count(did, &self.state, &plan);
        let mut found = Vec::new();
        if let Err(error) = self.state.commit(&plan).whole() {
            found.push(format!("the plan cannot be carried out: {error}"));
        }
        found.extend(check_state(&self.state).iter().map(|it| format!("once committed: {it}")));
        self.agreed(round, &plan, found)?;
        self.told.push(format!("-- round {round} at {}\n{}", self.now.as_second(), print::plan(&plan)));
        self.happen(&plan);
        let found = check_state(&self.state).iter().map(|it| format!("afterwards: {it}")).collect();
        self.agreed(round, &plan, found)
    }

    fn agreed(&self, round: u32, plan: &Plan, found: Vec<String>) -> Result<(), Box<Disagreement>> {
        if found.is_empty() {
            return Ok(());
        }
        let printout = format!(
            "policy {:?}\n{}\nplan at {}\n{}",
            self.policy,
            self.told.join("\n"),
            plan.made_at.as_second(),
            print::plan(plan)
        );
        Err(Box::new(Disagreement { seed: self.seed, round, found, printout }))
    }

    /// Tells the state, and remembers it for the printout.
    fn tell(&mut self, mut change: ClusterChange) {
        if self.plain {
            plain::make(&mut change);
        }
        if self.picky {
            picky::make(&mut change, self.seed);
        }
        if let ClusterChange::Pod(pod) = &mut change
            && self.saves
        {
            Arc::make_mut(&mut pod.terms).eviction = EvictionTerms { never: false, checkpoints: true };
        }
        self.told.push(print::change(&change));
        self.state.apply(change);
    }
}

/// Whether the state and the judge say the same of every pod that waits and every node, as far as other pods decide it.
/// Held places are counted by some rules only, so that is not compared.
fn neighbours_agree(state: &ClusterState, did: &mut Did) -> Vec<String> {
    if state.held_gangs().len() > 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (id, pod) in state.pods().filter(|(id, _)| state.is_pending(*id)) {
        for (node, known) in state.nodes().filter(|(_, node)| node.object().is_some()) {
            let refusal = state.near_refusal(id, node);
            let (key, name) = (&pod.pod().key, known.name());
            if refusal.is_none() != neighbours_admit(state, key, name) {
                found.push(format!("neighbours of {key} on {name}: {refusal:?}"));
            }
            did.near_refusals += u64::from(refusal.is_some());
        }
    }
    found
}

fn written_and_read(state: &ClusterState) -> ClusterState {
    let text = serde_json::to_string(&state.save()).expect("it can be written down");
    ClusterState::restore(serde_json::from_str(&text).expect("it can be read"))
}

fn count(did: &mut Did, state: &ClusterState, plan: &Plan) {
    let number = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
    did.plans += 1;
    did.placements += number(plan.placements.len());
    did.waiting += number(plan.waiting.len());
    did.evictions += number(plan.evictions.len());
    did.moves += number(plan.evictions.iter().filter(|it| it.moves).count());
    let by_work = |it: &&Eviction| it.why == EvictionRule::ExpectedWork;
    did.outrun += number(plan.evictions.iter().filter(by_work).count());
    did.tidied += number(plan.evictions.iter().filter(|it| it.gang == it.claimant).count());
    did.holds += number(plan.holds.len());
    did.reservations += number(plan.reservations.len());
    let held = |gang| state.held_gangs().any(|(held, _)| held == gang);
    did.landed += number(plan.placements.iter().filter(|it| held(&it.gang)).count());
}

impl Did {
    pub fn add(&mut self, other: &Self) {
        self.plans += other.plans;
        self.placements += other.placements;
        self.waiting += other.waiting;
        self.evictions += other.evictions;
        self.moves += other.moves;
        self.outrun += other.outrun;
        self.tidied += other.tidied;
        self.holds += other.holds;
        self.landed += other.landed;
        self.reservations += other.reservations;
        self.near_refusals += other.near_refusals;
        self.attacked += other.attacked;
        for (all, more) in self.attacked_at.iter_mut().zip(other.attacked_at) {
            *all += more;
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, round {}:", self.seed, self.round)?;
        for found in &self.found {
            writeln!(f, "  {found}")?;
        }
        write!(f, "{}", self.printout)
    }
}
