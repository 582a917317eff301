//! Gangs of one: Karpenter's own pools buy for them, as for pods of any scheduler. This module only decides for
//! which: for those that would start if there were nodes, and not for those that their queue would keep waiting all
//! the same.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::{ClusterChange, ClusterState, GangKey, Node, Pod, ShapeId};

use crate::buy::admits;
use crate::catalogue::{CatalogueMachine, OfferPlace};
use crate::view::View;

/// How many gangs are looked at at a time: with more, those that wait longest come first.
const SINGLES_MAX: usize = 4_000;

/// The gangs of one that would start with as many machines as they need. The state contains everything on its way to
/// others.
pub fn from_pools(state: &ClusterState, view: &View<'_>, singles: &[&GangKey]) -> BTreeSet<GangKey> {
    let singles = &singles[..singles.len().min(SINGLES_MAX)];
    let mut shapes: BTreeMap<ShapeId, (Pod, u64)> = BTreeMap::new();
    for gang in singles {
        let Some(pod) = state.gang(gang).and_then(|gang| gang.pending().next()) else { continue };
        let pod = state.pod(pod);
        shapes.entry(pod.shape()).or_insert_with(|| (pod.pod().clone(), 0)).1 += 1;
    }
    let mut tried = state.clone();
    let mut number = 0;
    for (pod, count) in shapes.values() {
        let Some((machine, place, each)) = cheapest(view, pod) else { continue };
        for _ in 0..count.div_ceil(each) {
            tried.apply(ClusterChange::Node(node_of_pool(machine, place, &format!("pool-{number}"))));
            number += 1;
        }
    }
    if number == 0 {
        return BTreeSet::new();
    }
    let plan = placement::plan(&mut tried, view.policy, view.now);
    let asked: BTreeSet<&GangKey> = singles.iter().copied().collect();
    let starts = plan.placements.into_iter().map(|placement| placement.gang);
    starts.filter(|gang| asked.contains(gang)).collect()
}

/// The machine that costs least for each such pod, where it is, and how many pods fit on it.
fn cheapest<'a>(view: &View<'a>, pod: &Pod) -> Option<(&'a CatalogueMachine, &'a OfferPlace, u64)> {
    let offers =
        view.catalogue.values().flat_map(|machine| machine.offers.iter().map(move |offer| (machine, offer)));
    let fitting = offers.filter_map(|(machine, offer)| {
        let node = node_of_pool(machine, &offer.place, "");
        let is_type = pod.requests.gpus == 0
            || pod.gpu_types.is_empty()
            || machine.gpu_type.as_ref().is_some_and(|its| pod.gpu_types.contains(its));
        let each = times(machine, pod);
        (is_type && each > 0 && admits(&node, pod) && (!node.spot || pod.terms.takes_spot))
            .then_some((machine, offer, each))
    });
    let price = |micros: i64, each: u64| u64::try_from(micros).unwrap_or(0) / each;
    let best = fitting.min_by_key(|(machine, offer, each)| {
        (price(offer.price_micros, *each), machine.name.clone(), offer.place.clone())
    });
    best.map(|(machine, offer, each)| (machine, &offer.place, each))
}

/// A pool has its own taints, and Karpenter decides whether pods tolerate them.
fn node_of_pool(machine: &CatalogueMachine, place: &OfferPlace, name: &str) -> Node {
    Node { taints: Vec::new(), ..machine.node(place, name, "") }
}

/// How many such pods fit on a machine.
fn times(machine: &CatalogueMachine, pod: &Pod) -> u64 {
    let (room, asked) = (&machine.room, &pod.requests);
    let by = |has: i64, asks: i64| if asks <= 0 { i64::MAX } else { has / asks };
    let fits = by(room.gpus, asked.gpus)
        .min(by(room.cpu_millis, asked.cpu_millis))
        .min(by(room.memory_bytes, asked.memory_bytes))
        .min(by(room.pods, asked.pods.max(1)));
    u64::try_from(fits).unwrap_or(0)
}
