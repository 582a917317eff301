//! What one gang needs, what it may cost, and how much time it has.

use cluster_model::{ClusterState, GangKey, Level, Node, Pod, QueueName, Resources};

use super::wanting::members;
use crate::demand::{Demand, Together};
use crate::offering::{self, FreeRoom, Location};
use crate::reserve;

/// Work since the last save that is lost with a machine that goes without notice: saves are expected this often (as
/// in X6). With notice, a run saves.
const SAVED_EVERY_SECONDS: u32 = 600;

/// See the module.
pub(super) struct Need<'a> {
    pub gang: &'a GangKey,
    pub queue: Option<QueueName>,
    /// Members without a node; never empty.
    pub pods: Vec<&'a Pod>,
    /// Free room on existing machines.
    pub rooms: Vec<FreeRoom>,
    pub ceiling: Option<Ceiling>,
    /// The most work that is left: its time limit less the time of earlier attempts, or the usual time.
    pub work_seconds: u32,
}

/// What the machines of a gang may cost.
#[derive(Clone, Copy)]
pub(super) struct Ceiling {
    pub micros: i64,
    /// What sets it.
    pub of: &'static str,
}

impl<'a> Need<'a> {
    /// What a gang needs, unless none of its members wait.
    pub fn new(state: &'a ClusterState, gang: &'a GangKey, with_rooms: bool) -> Option<Self> {
        let pods = members(state, gang);
        let lead = *pods.first()?;
        let gpus = pods.iter().map(|pod| pod.requests.gpus).sum();
        let usual = || state.history().expected_seconds(&lead.key.namespace, gpus, state.now());
        let limit = lead.terms.time_limit_seconds.map(i64::from);
        Some(Self {
            gang,
            queue: state.queue_of(lead).ok().cloned(),
            rooms: if with_rooms { rooms(state, lead) } else { Vec::new() },
            ceiling: ceiling(state, lead),
            work_seconds: u32::try_from(limit.unwrap_or_else(usual).max(0)).unwrap_or(u32::MAX),
            pods,
        })
    }

    /// The member that speaks for all.
    pub fn lead(&self) -> &'a Pod {
        self.pods[0]
    }

    /// The level at which its members must be together.
    pub fn level(&self) -> Option<Level> {
        self.lead().terms.topology.required
    }

    /// The most work that is lost with its machines: all of it, if it saves nothing.
    pub fn lost_seconds_max(&self) -> u32 {
        let lead = self.lead();
        if !lead.terms.eviction.checkpoints {
            return self.work_seconds;
        }
        SAVED_EVERY_SECONDS.saturating_add(lead.grace_seconds).min(self.work_seconds)
    }

    /// What is lost on average: half of it.
    pub fn lost_seconds_expected(&self) -> u32 {
        self.lost_seconds_max() / 2
    }

    /// The demand of the mix. If members differ, all get what the largest needs: dearer than necessary, and never too
    /// little.
    pub fn demand(&self) -> Demand {
        let most =
            |read: fn(&Resources) -> i64| self.pods.iter().map(|pod| read(&pod.requests)).max().unwrap_or(0);
        Demand {
            id: self.gang.to_string(),
            queue: String::new(),
            order: 0,
            members: u32::try_from(self.pods.len()).unwrap_or(u32::MAX),
            member: offering::MixResources {
                gpus: amount(most(|it| it.gpus)),
                cpu_milli: amount(most(|it| it.cpu_millis)),
                memory_bytes: amount(most(|it| it.memory_bytes)),
            },
            gpu_types: self.lead().gpu_types.iter().map(ToString::to_string).collect(),
            zones: Vec::new(),
            capacity_types: Vec::new(),
            together: match self.level() {
                None => Together::Anywhere,
                Some(Level(0)) => Together::OneZone,
                Some(_) => Together::OneDomain,
            },
            machine_ceiling: None,
            // Our ceiling is on whole machines, not on shares of them.
            gang_ceiling: None,
            boot_seconds_max: None,
        }
    }
}

/// The lower of the ceilings of the gang and of the queues above it.
fn ceiling(state: &ClusterState, lead: &Pod) -> Option<Ceiling> {
    let own = lead.terms.max_price_micros.map(|micros| Ceiling { micros, of: "its maxPrice" });
    let chain = state.queue_chain_of(lead).unwrap_or_default();
    let queues = chain.iter().filter_map(|(queue, _)| queue.max_price_micros);
    let queues = queues.map(|micros| Ceiling { micros, of: "the maxPrice of its queue" });
    own.into_iter().chain(queues).min_by_key(|ceiling| ceiling.micros)
}

fn rooms(state: &ClusterState, pod: &Pod) -> Vec<FreeRoom> {
    let fits = state.nodes().filter_map(|(_, node)| {
        let object = node.object()?;
        let is_open = reserve::reserved_for(object).is_none() && (!object.spot || pod.terms.takes_spot);
        let takes = is_open && admits(object, pod) && pod.requests.fits(&node.free());
        takes.then(|| FreeRoom {
            id: node.name().to_string(),
            location: location(object, pod.terms.topology.required),
            free: room(&node.free()),
            ready_in_seconds: 0,
        })
    });
    fits.collect()
}

/// Where a node is, for the mix.
pub(super) fn location(node: &Node, level: Option<Level>) -> Location {
    let depth = level.map_or(0, |level| usize::from(level.0) + 1);
    let path = node.topology.get(..depth).filter(|_| depth > 1);
    Location {
        zone: node.topology.first().map(ToString::to_string).unwrap_or_default(),
        domain: path.map(|path| path.join("/")),
        capacity_type: if node.spot {
            offering::MixCapacityType::Spot
        } else {
            offering::MixCapacityType::OnDemand
        },
        gpu_type: node.gpu_type.as_ref().map(ToString::to_string),
    }
}

/// What there is, for the mix.
pub(super) fn room(resources: &Resources) -> offering::MixResources {
    offering::MixResources {
        gpus: amount(resources.gpus),
        cpu_milli: amount(resources.cpu_millis),
        memory_bytes: amount(resources.memory_bytes),
    }
}

fn amount(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Whether a pod may be on a node, apart from room and the taint of gangs.
pub(crate) fn admits(node: &Node, pod: &Pod) -> bool {
    let is_ours = |key: &str| key == api_types::names::FOR_GANG_TAINT;
    node.schedulable
        && pod.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && pod.node_affinity.as_ref().is_none_or(|affinity| affinity.admits(node))
        && node.repelling().all(|taint| is_ours(&taint.key) || taint.tolerated_by(&pod.tolerations))
}
