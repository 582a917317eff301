//! May a pod go to a node, as far as other pods decide that?

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::areas::{Area, Spot};
use super::tally::{Tally, TallyId, Who};
use super::{Near, OfPod, Own, OwnSpread};
use crate::nodes::NodeId;
use crate::pods::PodId;
use crate::state::ClusterState;

/// The rule by which other pods refuse a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NearRule {
    /// The node lacks the label by which nearness is told.
    LacksLabel,
    /// No pod is near that must be.
    NobodyNear,
    /// A pod is near that must not be.
    StrangerNear,
    /// A pod is near that keeps this one away.
    KeptAway,
    /// The node's domain has too many already.
    Uneven,
}

/// A rule that refused, and by which count. Good until the next change is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NearRefusal {
    /// The rule.
    pub rule: NearRule,
    tally: TallyId,
}

/// Whom a pod is kept apart from: pods with the same are refused the same nodes, and keep others off the same, as far as
/// neither wants anybody near or is spread. Good until the next change is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Apart {
    avoids: Vec<TallyId>,
    avoided_by: Vec<TallyId>,
    /// Of tallies of pods that somebody avoids. Mostly those who avoid it are the same, but namespaces that are not known
    /// are looked at differently from either side.
    counted_in: Vec<TallyId>,
}

impl ClusterState {
    /// Whether other pods may refuse a node to this one at present; else there is no need to ask.
    pub fn has_neighbours(&self, pod: PodId) -> bool {
        let is_there = |tally: &TallyId| !self.near.tallies.get(tally.0).is_empty();
        let asked = |of_pod: &OfPod| !of_pod.own.is_empty() || of_pod.avoided_by.iter().any(is_there);
        self.asks_too_much(pod) || self.near.of(pod).is_some_and(asked)
    }

    /// Whether it depends on other pods at all where this one may go, now or once others have come.
    pub fn depends_on_neighbours(&self, pod: PodId) -> bool {
        self.near.of(pod).is_some_and(|of_pod| !of_pod.own.is_empty() || !of_pod.avoided_by.is_empty())
    }

    /// Whom a pod is kept apart from, whoever asked for it.
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

    /// The label by whose values pods that want each other near may begin here or there, if this one is one of them and
    /// none is anywhere. Of several labels the one that has the most values.
    pub fn beginning_key(&self, pod: PodId) -> Option<&Arc<str>> {
        let wanted = &self.near.of(pod)?.own.wanted;
        if !self.near.is_first(pod, wanted) {
            return None;
        }
        let areas = wanted.iter().map(|tally| self.near.counted(*tally).1);
        Some(areas.max_by_key(|area| area.domains())?.key())
    }

    /// The label by which a refusal tells nearness.
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

    /// The domains that still take one more of a pod whose spread refused a node, by name.
    pub fn open_domains(&self, pod: PodId, refusal: NearRefusal) -> BTreeSet<Arc<str>> {
        let spread = self.near.of(pod).into_iter().flat_map(|of_pod| &of_pod.own.spread);
        let Some(spread) = spread.into_iter().find(|spread| spread.tally == refusal.tally) else {
            return BTreeSet::new();
        };
        let (_, area) = self.near.counted(spread.tally);
        let is_open = |value: u32| self.near.admits_more(spread, Spot { value, counts: true });
        area.values().into_iter().filter(|(_, value)| is_open(*value)).map(|(text, _)| text.clone()).collect()
    }
}

impl Near {
    fn of(&self, pod: PodId) -> Option<&OfPod> {
        self.of_pod.get(pod.0 as usize)?.as_deref()
    }

    fn counted(&self, id: TallyId) -> (&Tally, &Area) {
        let tally = self.tallies.get(id.0);
        (tally, self.areas.get(tally.area))
    }

    fn refusal(&self, pod: PodId, of_pod: &OfPod, node: NodeId) -> Option<NearRefusal> {
        let refused = |rule: NearRule, tally: &TallyId| Some(NearRefusal { rule, tally: *tally });
        if let Some(tally) = of_pod.avoided_by.iter().find(|tally| self.is_near(**tally, node)) {
            return refused(NearRule::KeptAway, tally);
        }
        let own = &of_pod.own;
        if let Some(tally) = own.avoided.iter().find(|tally| self.is_near(**tally, node)) {
            return refused(NearRule::StrangerNear, tally);
        }
        for spread in &own.spread {
            match self.counted(spread.tally).1.spot(node) {
                None => return refused(NearRule::LacksLabel, &spread.tally),
                Some(spot) if !self.admits_more(spread, spot) => {
                    return refused(NearRule::Uneven, &spread.tally);
                }
                Some(_) => {}
            }
        }
        self.nobody_near(pod, own, node)
    }

    /// Whether one that is counted is in the node's domain.
    fn is_near(&self, id: TallyId, node: NodeId) -> bool {
        let (tally, area) = self.counted(id);
        !tally.is_empty() && area.spot(node).is_some_and(|spot| tally.pods_in(spot.value) > 0)
    }

    fn admits_more(&self, spread: &OwnSpread, spot: Spot) -> bool {
        let (tally, area) = self.counted(spread.tally);
        let domains = area.domains();
        let fewest = if domains < spread.domains_min as usize { 0 } else { tally.fewest(domains) };
        let would_have = tally.pods_in(spot.value).saturating_add(spread.itself);
        would_have.saturating_sub(fewest) <= spread.skew_max
    }

    /// The first of pods that all want each other near finds nobody, and may begin anywhere.
    fn nobody_near(&self, pod: PodId, own: &Own, node: NodeId) -> Option<NearRefusal> {
        let mut missing = None;
        for tally in &own.wanted {
            match self.counted(*tally).1.spot(node) {
                None => return Some(NearRefusal { rule: NearRule::LacksLabel, tally: *tally }),
                Some(spot) if self.tallies.get(tally.0).pods_in(spot.value) == 0 => {
                    missing.get_or_insert(*tally);
                }
                Some(_) => {}
            }
        }
        let tally = missing?;
        (!self.is_first(pod, &own.wanted)).then_some(NearRefusal { rule: NearRule::NobodyNear, tally })
    }

    fn is_first(&self, pod: PodId, wanted: &[TallyId]) -> bool {
        wanted.iter().all(|tally| {
            let tally = self.tallies.get(tally.0);
            tally.is_empty() && tally.meant.contains(&pod)
        })
    }
}
