//! A case: a random cluster and a few rounds, each with a plan, its effects and other events, all from one
//! seed.

use std::collections::BTreeMap;
use std::fmt;

use api_types::Queue;
use cluster_apply::{EffectWriter, Fenced, Reports, StatusWriter, WriterSettings};
use cluster_convert::{node_change, queue_change};
use cluster_model::ClusterState;
use cluster_model::plan::Effect;
use jiff::{Timestamp, ToSpan};
use placement::Policy;
use seeded_random::Random;
use slim_objects::SlimNode;
use tokio::sync::mpsc;

use crate::objects::{self, GPUS_PER_NODE, Gang};
use crate::server::Server;
use crate::tampering::Tampering;
use crate::view::Asked;

const BINDS_IN_FLIGHT_MAX: usize = 16;

/// The amount of work in a case, to show that cases are not empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Plans that were carried out.
    pub plans: u64,
    /// Gangs bound.
    pub binds: u64,
    /// Holds written.
    pub holds_written: u64,
    /// Holds deleted.
    pub holds_deleted: u64,
    /// Gangs evicted for others.
    pub evictions: u64,
    /// Gangs told to move.
    pub moves: u64,
    /// Wrong effects that the check found.
    pub caught: u64,
}

impl Tally {
    /// Counts another case.
    pub fn add(&mut self, other: &Self) {
        let Self { plans, binds, holds_written, holds_deleted, evictions, moves, caught } = other;
        self.plans += plans;
        self.binds += binds;
        self.holds_written += holds_written;
        self.holds_deleted += holds_deleted;
        self.evictions += evictions;
        self.moves += moves;
        self.caught += caught;
    }
}

/// The cluster differs from the state.
#[derive(Clone, Debug)]
pub struct Disagreement {
    /// The seed of the case.
    pub seed: u64,
    /// The round.
    pub round: u64,
    /// The differences.
    pub found: Vec<String>,
    /// The effects of each round so far.
    pub log: Vec<String>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} round {}: {}", self.seed, self.round, self.found.join("; "))
    }
}

/// A cluster between two rounds.
pub struct Case {
    pub(crate) seed: u64,
    pub(crate) random: Random,
    pub(crate) server: Server,
    pub(crate) tampering: Tampering,
    pub(crate) policy: Policy,
    pub(crate) now: Timestamp,
    pub(crate) state: ClusterState,
    pub(crate) nodes: Vec<SlimNode>,
    pub(crate) queues: Vec<Queue>,
    /// Gangs by name, so that a pod can come back.
    pub(crate) gangs: BTreeMap<String, Gang>,
    /// Requests that are not over.
    pub(crate) asked: Asked,
    /// The effects of all earlier plans.
    pub(crate) before: Vec<Effect>,
    /// The effects sent in each round, for people.
    pub(crate) log: Vec<String>,
    pub(crate) tally: Tally,
    pub(crate) out: EffectWriter,
    pub(crate) binds: mpsc::UnboundedReceiver<cluster_apply::BindReport>,
    pub(crate) evictions: mpsc::UnboundedReceiver<cluster_apply::EvictReport>,
}

impl Case {
    /// Runs the case of a seed. `Err` within `Ok` means that the cluster differs from the state.
    pub async fn run(
        seed: u64,
        server: Server,
        tampering: Tampering,
    ) -> anyhow::Result<Result<Tally, Disagreement>> {
        let mut case = Self::new(seed, server, tampering);
        case.begin().await?;
        let judged = case.rounds().await;
        case.out.stop().await;
        let tally = case.tally;
        Ok(judged?.map(|()| tally))
    }

    async fn rounds(&mut self) -> anyhow::Result<Result<(), Disagreement>> {
        for round in 0..2 + self.random.below(3) {
            let Judged { found, wrong } = self.round().await?;
            match wrong {
                None if found.is_empty() => {}
                None => return Ok(Err(self.disagreement(round, found))),
                Some(wrong) if found.is_empty() => {
                    let found = vec![format!("the check did not notice: {wrong}")];
                    return Ok(Err(self.disagreement(round, found)));
                }
                Some(_) => {
                    // From here on the state and the cluster differ for good.
                    self.tally.caught += 1;
                    return Ok(Ok(()));
                }
            }
            self.happen().await?;
        }
        Ok(Ok(()))
    }

    fn disagreement(&mut self, round: u64, found: Vec<String>) -> Disagreement {
        Disagreement { seed: self.seed, round, found, log: std::mem::take(&mut self.log) }
    }

    fn new(seed: u64, server: Server, tampering: Tampering) -> Self {
        let mut random = Random::new(seed);
        let count = 2 + random.below(4);
        let nodes = objects::nodes(count);
        let queues = objects::queues(&server.namespace, count * GPUS_PER_NODE, &mut random);
        let policy = policy(&mut random);
        let (binds_sender, binds) = mpsc::unbounded_channel();
        let (evictions_sender, evictions) = mpsc::unbounded_channel();
        let fenced = Fenced::default();
        let status = StatusWriter::start(server.writes.clone(), fenced.clone());
        let (epoch, instance) = (server.epoch, "effects-check".to_owned());
        let leader = WriterSettings { epoch, instance, binds_in_flight_max: BINDS_IN_FLIGHT_MAX };
        let reports = Reports { binds: binds_sender, evictions: evictions_sender };
        let out = EffectWriter::start(&server.writes, leader, status, &fenced, reports);
        // Clocks do not stand at full seconds.
        let nanoseconds = i64::try_from(random.below(1_000_000_000)).unwrap_or(0);
        let now = server.now + nanoseconds.nanoseconds();
        let mut case = Self {
            seed,
            random,
            server,
            tampering,
            policy,
            now,
            state: ClusterState::default(),
            nodes,
            queues,
            gangs: BTreeMap::new(),
            asked: Asked::default(),
            before: Vec::new(),
            log: Vec::new(),
            tally: Tally::default(),
            out,
            binds,
            evictions,
        };
        case.state = case.empty_state();
        case
    }

    /// A state that knows the nodes and queues, and no pod.
    pub(crate) fn empty_state(&self) -> ClusterState {
        let mut state = ClusterState::default();
        state.advance(self.now);
        self.nodes.iter().for_each(|node| state.apply(node_change(node)));
        self.queues.iter().for_each(|queue| state.apply(queue_change(queue)));
        state
    }

    /// Some gangs run, as much as there is room for, and some wait.
    async fn begin(&mut self) -> anyhow::Result<()> {
        let mut free = vec![GPUS_PER_NODE; self.nodes.len()];
        for index in 0..3 + self.random.below(4) {
            let gang = self.new_gang(index);
            self.create(&gang).await?;
            self.bind(&gang, gang.take_nodes(&mut free).unwrap_or_default()).await?;
        }
        for index in 10..12 + self.random.below(3) {
            let gang = self.new_gang(index);
            self.create(&gang).await?;
        }
        self.watch().await
    }

    pub(crate) fn new_gang(&mut self, index: u64) -> Gang {
        let count = u64::try_from(self.nodes.len()).unwrap_or(1);
        let gang = Gang::random(format!("case-{}-gang-{index}", self.seed), count, &mut self.random);
        self.gangs.insert(gang.name.clone(), gang.clone());
        gang
    }

    pub(crate) async fn create(&self, gang: &Gang) -> anyhow::Result<()> {
        for pod in gang.pods() {
            self.server.create_pod(&pod).await?;
        }
        Ok(())
    }

    /// Gives the members of a gang their nodes, on which they have run for a while.
    async fn bind(&mut self, gang: &Gang, nodes: Vec<String>) -> anyhow::Result<()> {
        let ran = i64::try_from(self.random.below(5_000)).unwrap_or(0);
        for (pod, node) in gang.pods().zip(nodes) {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            self.server.bind_pod(name, &node, self.now - ran.seconds()).await?;
        }
        Ok(())
    }
}

/// The installed policy, changed so that each rule can act within the few rounds of a case.
fn policy(random: &mut Random) -> Policy {
    let mut policy = Policy { explain: false, ..Policy::installed() };
    policy.eviction.by_priority = random.below(4) > 0;
    policy.eviction.reclaim = random.below(4) > 0;
    policy.eviction.hold_seconds = if random.below(2) == 0 { 60 } else { 600 };
    policy.consolidation.after_seconds = 0;
    policy.consolidation.moves_max = if random.below(2) == 0 { 0 } else { 3 };
    policy
}

/// The result of a round.
pub(crate) struct Judged {
    /// The differences.
    pub found: Vec<String>,
    /// The wrong effect that was sent on purpose.
    pub wrong: Option<String>,
}
