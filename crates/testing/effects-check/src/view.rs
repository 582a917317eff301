//! The two sides that are compared: the cluster as the state expects it, and as its objects show it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use api_types::conditions::pod::{MOVED, PREEMPTED};
use cluster_convert::pod_key;
use cluster_model::plan::{
    Departure, Effect, EvictCause, EvictRequest, Eviction, HoldRecord, Plan, VictimRecord,
};
use cluster_model::{ClusterState, GangKey, NodeName, Place, PodKey, QueueName, QueueUsage, Resources};
use jiff::Timestamp;
use slim_objects::SlimPod;

/// A member, the node that is held for it, and whether it still runs elsewhere.
type HeldMember = (PodKey, Option<NodeName>, bool);
/// Free and used.
type NodeAmounts = (Resources, Resources);

/// What the cluster must show and the state does not keep. It comes from plans, not from the effects that are
/// judged.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// The reason in each leaving pod's condition.
    reasons: BTreeMap<PodKey, &'static str>,
    /// The Holds that exist, or are about to.
    pub holds: BTreeMap<GangKey, HoldRecord>,
}

impl Asked {
    /// Notes a plan that is about to be committed on this state.
    pub fn note(&mut self, plan: &Plan, state: &ClusterState) {
        let expired = state.held_gangs().filter(|(_, until)| *until <= plan.made_at).map(|(gang, _)| gang);
        let starts: BTreeSet<&GangKey> = plan.placements.iter().map(|it| &it.gang).collect();
        // The Hold of a gang that starts is deleted once the gang is bound.
        for over in expired.chain(&plan.released).filter(|gang| !starts.contains(gang)) {
            self.holds.remove(over);
        }
        for hold in &plan.holds {
            let for_it: Vec<_> = plan.evictions.iter().filter(|it| it.claimant == hold.gang).collect();
            let victim = |eviction: &&Eviction| VictimRecord {
                gang: eviction.gang.clone(),
                pods: leaving(state, &eviction.gang).map(|pod| pod.uid).collect(),
            };
            let record = HoldRecord {
                gang: hold.gang.clone(),
                rule: for_it.first().map(|eviction| eviction.why),
                members: hold.members.iter().map(|it| (it.pod.uid.clone(), it.node.clone())).collect(),
                victims: for_it.iter().map(victim).collect(),
                expires: hold.expires,
            };
            self.holds.insert(hold.gang.clone(), record);
        }
        for eviction in &plan.evictions {
            self.reasons.extend(leaving(state, &eviction.gang).map(|pod| (pod, PREEMPTED)));
        }
    }

    /// Notes that a gang is about to be told to move.
    pub fn note_move(&mut self, gang: &GangKey, state: &ClusterState) {
        self.reasons.extend(leaving(state, gang).map(|pod| (pod, MOVED)));
    }
}

/// Pods of a gang that have to leave if it is told to.
fn leaving<'a>(state: &'a ClusterState, gang: &'a GangKey) -> impl Iterator<Item = PodKey> + 'a {
    let of_gang = state.pods().filter(|(id, pod)| pod.pod().gang == *gang && !state.is_stand_in(*id));
    let leave = of_gang.filter(|(_, pod)| {
        matches!(pod.place(), Some(Place::Bound | Place::Assumed)) && !pod.pod().terminating
    });
    leave.map(|(_, pod)| pod.pod().key.clone())
}

/// What is wrong with the waits of evictions: each names the Holds of its claimant, and of its own gang if it
/// only moves. Objects cannot show this, because all Holds are there in the end.
pub(crate) fn wrong_waits(plan: &Plan, effects: &[Effect]) -> Vec<String> {
    let until = |gang: &GangKey| Some((gang.clone(), plan.holds.iter().find(|it| it.gang == *gang)?.expires));
    let waits_for = |eviction: &Eviction| -> BTreeSet<(GangKey, Timestamp)> {
        let own = eviction.moves.then_some(&eviction.gang);
        [Some(&eviction.claimant), own].into_iter().flatten().filter_map(until).collect()
    };
    let expected: BTreeMap<&GangKey, _> = plan.evictions.iter().map(|it| (&it.gang, waits_for(it))).collect();
    let waits = effects.iter().filter_map(|effect| match effect {
        Effect::Evict(EvictRequest { gang, cause: EvictCause::Claim { after, .. }, .. }) => {
            Some((gang, after.iter().cloned().collect()))
        }
        _ => None,
    });
    let mut said = Vec::new();
    compare("eviction waits for", &expected, &waits.collect(), &mut said);
    said
}

/// Where a pod is, and whether it stays there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PodView {
    node: Option<NodeName>,
    is_leaving: bool,
    /// The reason of its condition; empty if it has none.
    told: String,
}

/// The part of a state that effects carry into the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    pods: BTreeMap<PodKey, PodView>,
    nodes: BTreeMap<NodeName, NodeAmounts>,
    /// What each queue and those below it hold.
    queues: BTreeMap<QueueName, QueueUsage>,
    /// The held members of each claimant, and until when.
    held: BTreeMap<GangKey, (Timestamp, BTreeSet<HeldMember>)>,
    /// Victims, with the claimant that has a hold. Once all pods of a victim are being deleted, the claimant
    /// does not matter.
    victims: BTreeMap<GangKey, GangKey>,
    /// Hold objects; `None` for one that was never asked for.
    holds: BTreeMap<GangKey, Option<HoldRecord>>,
}

impl View {
    /// The view of a committed state: its assumptions count as done.
    pub fn of_committed(state: &ClusterState, asked: &Asked) -> Self {
        let mut leaving: BTreeSet<PodKey> = state
            .pods()
            .filter(|(_, pod)| pod.pod().terminating)
            .map(|(_, pod)| pod.pod().key.clone())
            .collect();
        let mut victims = victims(state);
        for (key, _) in state.gangs().filter(|(_, gang)| gang.departure().is_some()) {
            let told = state.pods_to_leave(key);
            if told.is_empty() {
                victims.remove(key);
            }
            leaving.extend(told);
        }
        let reason = |pod: &PodKey| asked.reasons.get(pod).copied().unwrap_or_default().to_owned();
        let told = leaving.iter().map(|pod| (pod.clone(), reason(pod))).collect();
        let hold = |(gang, _): (&GangKey, Timestamp)| (gang.clone(), asked.holds.get(gang).map(in_order));
        Self { victims, holds: state.held_gangs().map(hold).collect(), ..Self::of(state, &leaving, &told) }
    }

    /// The view of a new leader that reads the objects. `state` is the state that it builds.
    pub fn of_objects(state: &ClusterState, pods: &[SlimPod], holds: &[HoldRecord]) -> Self {
        let leaving =
            pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).map(pod_key).collect();
        let told = pods.iter().map(|pod| (pod_key(pod), reason_of(pod).to_owned())).collect();
        let holds = holds.iter().map(|hold| (hold.gang.clone(), Some(in_order(hold)))).collect();
        Self { victims: victims(state), holds, ..Self::of(state, &leaving, &told) }
    }

    fn of(state: &ClusterState, leaving: &BTreeSet<PodKey>, told: &BTreeMap<PodKey, String>) -> Self {
        let name = |node| state.node(node).name().clone();
        let pods = state.pods().filter(|(id, _)| !state.is_stand_in(*id)).map(|(_, pod)| {
            let has_node = matches!(pod.place(), Some(Place::Bound | Place::Assumed));
            let node = pod.at().filter(|_| has_node).map(name);
            let key = &pod.pod().key;
            let told = told.get(key).cloned().unwrap_or_default();
            (key.clone(), PodView { node, is_leaving: leaving.contains(key), told })
        });
        let held = state.held_gangs().map(|(gang, until)| {
            let member = |id| {
                let pod = state.pod(id);
                (pod.pod().key.clone(), pod.at().map(name), state.is_stand_in(id))
            };
            (gang.clone(), (until, state.held_members(gang).map(member).collect()))
        });
        Self {
            pods: pods.collect(),
            nodes: state.nodes().map(|(_, node)| (node.name().clone(), (node.free(), node.used()))).collect(),
            queues: state.queues().map(|(queue, total)| (queue.name.clone(), total.clone())).collect(),
            held: held.collect(),
            ..Self::default()
        }
    }

    /// The differences, in words; empty if there are none.
    pub fn differences(&self, found: &Self) -> Vec<String> {
        let Self { pods, nodes, queues, held, victims, holds } = self;
        let mut said = Vec::new();
        compare("pod", pods, &found.pods, &mut said);
        compare("node (free, used)", nodes, &found.nodes, &mut said);
        compare("queue", queues, &found.queues, &mut said);
        compare("held for", held, &found.held, &mut said);
        // A new leader may still know the claimant of a victim whose pods are all being deleted.
        let mut told = found.victims.clone();
        told.retain(|gang, _| victims.contains_key(gang));
        compare("victim", victims, &told, &mut said);
        compare("Hold of", holds, &found.holds, &mut said);
        said
    }
}

/// A record with the pods of each victim in order: theirs has no meaning.
fn in_order(record: &HoldRecord) -> HoldRecord {
    let mut record = record.clone();
    record.victims.iter_mut().for_each(|victim| victim.pods.sort());
    record
}

/// Victims of claimants with a hold: without the hold, only the leader that evicted them knows the claimant.
fn victims(state: &ClusterState) -> BTreeMap<GangKey, GangKey> {
    let is_held = |claimant: &GangKey| state.held_members(claimant).next().is_some();
    let leaves_for = state.gangs().filter_map(|(gang, known)| match known.departure()? {
        Departure::For(claimant) if is_held(claimant) => Some((gang.clone(), claimant.clone())),
        Departure::For(_) | Departure::Move => None,
    });
    leaves_for.collect()
}

/// The reason in the condition of a leaving pod.
fn reason_of(pod: &SlimPod) -> &str {
    let mut conditions = pod.status.conditions.iter();
    let told = conditions.find(|it| it.kind == "DisruptionTarget" && it.status == "True");
    told.and_then(|it| it.reason.as_deref()).unwrap_or_default()
}

fn compare<K: Ord + Debug, V: PartialEq + Debug>(
    what: &str,
    committed: &BTreeMap<K, V>,
    found: &BTreeMap<K, V>,
    said: &mut Vec<String>,
) {
    let keys: BTreeSet<&K> = committed.keys().chain(found.keys()).collect();
    for key in keys {
        let (expected, found) = (committed.get(key), found.get(key));
        if expected != found {
            said.push(format!("{what} {key:?}: committed {expected:?}, found {found:?}"));
        }
    }
}
