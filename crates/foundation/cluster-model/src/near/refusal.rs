//! Whether other pods let a pod go to a node.

use super::areas::{Area, NodeInArea};
use super::refused::NearRefusal;
use super::rule::NearRule;
use super::tally::{Tally, TallyId};
use super::{Near, OfPod, Own, OwnSpread};
use crate::nodes::NodeId;
use crate::pods::PodId;

impl Near {
    pub(super) fn of(&self, pod: PodId) -> Option<&OfPod> {
        self.of_pod.get(pod.0 as usize)?.as_deref()
    }

    pub(super) fn counted(&self, id: TallyId) -> (&Tally, &Area) {
        let tally = self.tallies.get(id.0);
        (tally, self.areas.get(tally.area))
    }

    pub(super) fn refusal(&self, pod: PodId, of_pod: &OfPod, node: NodeId) -> Option<NearRefusal> {
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

    /// Whether a pod that is counted is in the node's domain.
    fn is_near(&self, id: TallyId, node: NodeId) -> bool {
        let (tally, area) = self.counted(id);
        !tally.is_empty() && area.spot(node).is_some_and(|spot| tally.pods_in(spot.value) > 0)
    }

    pub(super) fn admits_more(&self, spread: &OwnSpread, spot: NodeInArea) -> bool {
        let (tally, area) = self.counted(spread.tally);
        let domains = area.domains();
        let fewest = if domains < spread.domains_min as usize { 0 } else { tally.fewest(domains) };
        let would_have = tally.pods_in(spot.value).saturating_add(spread.itself);
        would_have.saturating_sub(fewest) <= spread.skew_max
    }

    /// The first of pods that all want each other near finds none of them, and may begin anywhere.
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

    pub(super) fn is_first(&self, pod: PodId, wanted: &[TallyId]) -> bool {
        wanted.iter().all(|tally| {
            let tally = self.tallies.get(tally.0);
            tally.is_empty() && tally.meant.contains(&pod)
        })
    }
}
