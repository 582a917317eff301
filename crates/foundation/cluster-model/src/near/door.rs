//! What the state says about pods that are near others.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::OfPod;
use super::areas::NodeInArea;
use super::refused::{Apart, NearRefusal};
use super::tally::{TallyId, Who};
use crate::nodes::NodeId;
use crate::pods::PodId;
use crate::state::ClusterState;

impl ClusterState {
    /// Whether other pods may refuse a node to this one at present; else there is no need to ask.
    pub fn has_neighbours(&self, pod: PodId) -> bool {
        let is_there = |tally: &TallyId| !self.near.tallies.get(tally.0).is_empty();
        let asked = |of_pod: &OfPod| !of_pod.own.is_empty() || of_pod.avoided_by.iter().any(is_there);
        self.asks_too_much(pod) || self.near.of(pod).is_some_and(asked)
    }

    /// Whether its possible nodes depend on other pods at all, now or once others have come.
    pub fn depends_on_neighbours(&self, pod: PodId) -> bool {
        self.near.of(pod).is_some_and(|of_pod| !of_pod.own.is_empty() || !of_pod.avoided_by.is_empty())
    }

    /// Which pods a pod is kept apart from, whichever side asked for it.
    pub fn apart(&self, pod: PodId) -> Apart {
        let Some(of_pod) = self.near.of(pod) else { return Apart::default() };
        let is_avoided = |id: &&TallyId| matches!(self.near.tallies.get(id.0).what.who, Who::Avoided(_));
        let sorted = |ids: &mut dyn Iterator<Item = &TallyId>| {
            let mut ids: Vec<TallyId> = ids.copied().collect();
            ids.sort_unstable();
            ids
        };
        Apart {
            avoids: sorted(&mut of_pod.own.avoided.iter()),
            avoided_by: sorted(&mut of_pod.avoided_by.iter()),
            counted_in: sorted(&mut of_pod.counted_in.iter().filter(is_avoided)),
        }
    }

    /// Why other pods refuse a node to a pod that has none.
    pub fn near_refusal(&self, pod: PodId, node: NodeId) -> Option<NearRefusal> {
        self.near.refusal(pod, self.near.of(pod)?, node)
    }

    /// The label whose values are the places where pods that want each other near may begin, if this pod is one of
    /// them and none is anywhere. Of several labels, the one that has the most values.
    pub fn beginning_key(&self, pod: PodId) -> Option<&Arc<str>> {
        let wanted = &self.near.of(pod)?.own.wanted;
        if !self.near.is_first(pod, wanted) {
            return None;
        }
        let areas = wanted.iter().map(|tally| self.near.counted(*tally).1);
        Some(areas.max_by_key(|area| area.domains())?.key())
    }

    /// The label that defines nearness in a refusal.
    pub fn refusal_key(&self, refusal: NearRefusal) -> &Arc<str> {
        let (_, area) = self.near.counted(refusal.tally);
        area.key()
    }

    /// The pods that a refusal is about, by their labels: those that must or must not be near, or that spread.
    pub fn refusal_selector(&self, refusal: NearRefusal) -> String {
        let (tally, _) = self.near.counted(refusal.tally);
        let selectors = match &tally.what.who {
            Who::Wanted(scopes) => scopes.iter().map(|scope| scope.selector.as_ref()).collect(),
            Who::Avoided(scope) | Who::Avoiding(scope) => vec![scope.selector.as_ref()],
            Who::Alike(_, selector) => vec![selector.as_ref()],
        };
        let texts = selectors.into_iter().map(|it| it.map_or("no labels".to_owned(), ToString::to_string));
        texts.collect::<Vec<_>>().join(" and ")
    }

    /// The domains that can still take one more of a pod whose spread refused a node, by name.
    pub fn open_domains(&self, pod: PodId, refusal: NearRefusal) -> BTreeSet<Arc<str>> {
        let spread = self.near.of(pod).into_iter().flat_map(|of_pod| &of_pod.own.spread);
        let Some(spread) = spread.into_iter().find(|spread| spread.tally == refusal.tally) else {
            return BTreeSet::new();
        };
        let (_, area) = self.near.counted(spread.tally);
        let is_open = |value: u32| self.near.admits_more(spread, NodeInArea { value, counts: true });
        area.values().into_iter().filter(|(_, value)| is_open(*value)).map(|(text, _)| text.clone()).collect()
    }
}

impl ClusterState {
    /// Whether a waiting pod asks for more of other pods than is counted at a time: then it is not known where it may
    /// go.
    pub fn asks_too_much(&self, pod: PodId) -> bool {
        self.near.beyond.contains(&pod)
    }
}
