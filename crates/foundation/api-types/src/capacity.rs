//! What is being bought, for which gang and why, and what was bought. The scheduler's leader answers the API server
//! with it, and the API server shows callers what they may see.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Machines: those being bought, those refused, and those that exist.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CapacityView {
    /// Whether machines can be bought at all.
    pub enabled: bool,
    /// Why not, or what is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When this was decided, RFC 3339; absent if nothing was yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
    /// Launches under way that the caller may see, by gang; spares after them.
    pub buying: Vec<LaunchView>,
    /// How many launches are under way in all.
    pub buying_in_all: u32,
    /// Gangs that wait for nodes and get none, if the caller may see them, by name.
    pub refused: Vec<RefusedView>,
    /// How many gangs get none in all.
    pub refused_in_all: u32,
    /// How many gangs of one wait for a pool of Karpenter's to buy a node.
    pub from_pools: u32,
    /// Machines that were bought, by type and capacity type; absent if the caller may not list nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<Vec<BoughtMachines>>,
    /// What all machines cost, and what they may; absent without a `BuyingPolicy`, or if the caller may not list nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spending: Option<SpendingView>,
}

/// What all bought machines cost, and what they may.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SpendingView {
    /// Machines that were ordered and are not gone.
    pub machines: u32,
    /// How many there may be.
    pub most_machines: u32,
    /// What they cost in an hour, as a decimal, in the currency of the price sheets.
    pub per_hour: String,
    /// What they may cost in an hour.
    pub most_per_hour: String,
}

/// Machines that were ordered together: a gang gets all of them, or all are given back.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LaunchView {
    /// The gang that they are for; absent for spares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangName>,
    /// What was ordered.
    pub machines: Vec<OrderedMachines>,
    /// How many of them are ready.
    pub ready: u32,
    /// How many there are.
    pub of: u32,
    /// When they were ordered, RFC 3339.
    pub since: String,
    /// When all should be ready, RFC 3339.
    pub ready_by: String,
    /// What all of them cost in an hour, as a decimal, in the currency of the price sheets.
    pub per_hour: String,
    /// Why these.
    pub why: String,
}

/// A gang.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
pub struct GangName {
    /// The tenant.
    pub namespace: String,
    /// The run's attempt, or the pod.
    pub name: String,
    /// The run; absent for pods without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// Machines of one offer.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OrderedMachines {
    /// How many.
    pub count: u32,
    /// The `MachineType`.
    pub machine_type: String,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: String,
    /// The zone.
    pub zone: String,
    /// The block of racks within the zone, if one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// The rack within the block, if one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
}

/// A gang that waits for nodes, and for which nothing is bought.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
pub struct RefusedView {
    /// The gang.
    pub gang: GangName,
    /// Why not.
    pub why: String,
}

/// Machines of one type that were bought in one way.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BoughtMachines {
    /// The `MachineType`.
    pub machine_type: String,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: String,
    /// How many there are.
    pub count: u32,
    /// How many of them belong to launches under way.
    pub starting: u32,
    /// How many of them have no pods.
    pub idle: u32,
    /// How many of them are being given back.
    pub leaving: u32,
    /// What all of them cost in an hour, as a decimal, in the currency of the price sheets.
    pub per_hour: String,
}

impl CapacityView {
    /// An answer without any machines, and a note on why.
    pub fn nothing(enabled: bool, note: &str) -> Self {
        Self { enabled, note: Some(note.to_owned()), ..Self::default() }
    }

    /// What a caller may see: gangs that `may_see` admits, at most `limit` launches and refusals. Spares are shown
    /// with the machines.
    #[must_use]
    pub fn seen_by(&self, may_see: impl Fn(&str) -> bool, with_machines: bool, limit: usize) -> Self {
        let is_seen = |gang: &GangName| may_see(&gang.namespace);
        let buying = self.buying.iter();
        let buying = buying.filter(|launch| launch.gang.as_ref().map_or(with_machines, is_seen));
        let refused = self.refused.iter().filter(|refused| is_seen(&refused.gang));
        Self {
            enabled: self.enabled,
            note: self.note.clone(),
            decided_at: self.decided_at.clone(),
            buying: buying.take(limit).cloned().collect(),
            buying_in_all: self.buying_in_all,
            refused: refused.take(limit).cloned().collect(),
            refused_in_all: self.refused_in_all,
            from_pools: self.from_pools,
            machines: self.machines.as_ref().filter(|_| with_machines).cloned(),
            spending: self.spending.as_ref().filter(|_| with_machines).cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CapacityView, GangName, LaunchView, RefusedView};

    fn gang(namespace: &str) -> GangName {
        GangName { namespace: namespace.to_owned(), name: "gang".to_owned(), run: None }
    }

    fn launch(gang: Option<GangName>) -> LaunchView {
        let (since, ready_by) = (String::new(), String::new());
        let (per_hour, why) = ("1.00".to_owned(), String::new());
        LaunchView { gang, machines: Vec::new(), ready: 0, of: 2, since, ready_by, per_hour, why }
    }

    #[test]
    fn what_is_of_others_is_left_out_and_counted() {
        let refused = |namespace| RefusedView { gang: gang(namespace), why: "dear".to_owned() };
        let all = CapacityView {
            buying: vec![launch(Some(gang("theirs"))), launch(Some(gang("ours"))), launch(None)],
            buying_in_all: 3,
            refused: vec![refused("theirs"), refused("ours"), refused("ours")],
            refused_in_all: 3,
            machines: Some(Vec::new()),
            ..CapacityView::nothing(true, "note")
        };
        let seen = all.seen_by(|namespace| namespace == "ours", false, 1);
        assert_eq!(seen.buying, [launch(Some(gang("ours")))], "spares are not for those who see no machines");
        assert_eq!(seen.refused, [refused("ours")], "no more than asked for");
        assert_eq!((seen.buying_in_all, seen.refused_in_all, seen.machines), (3, 3, None));
        assert_eq!(all.seen_by(|_| true, true, 10), all);
    }
}
