//! Metrics of machines that are bought.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use api_types::machine_type::CapacityType;
use capacity::caps::Buying;
use capacity::claim::Claim;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::table::register;

/// An amount of money, in the currency.
type Money = Gauge<f64, AtomicU64>;

/// What was bought, what it costs, and how launches went; clones share the numbers.
#[derive(Clone, Debug, Default)]
pub struct MachineMetrics {
    count: Family<MachineLabel, Gauge>,
    most: Gauge,
    per_hour: Family<MachineLabel, Money>,
    per_hour_most: Money,
    launches: Family<LaunchLabel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MachineLabel {
    machine_type: String,
    capacity_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaunchLabel {
    outcome: &'static str,
}

/// How a launch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchOutcome {
    /// It is to be ordered.
    Decided,
    /// The cloud had no such machine, or the buyer did not take up the order.
    Failed,
    /// It was paid for, and not used.
    InVain,
    /// It would be beyond a cap.
    Refused,
}

impl MachineMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        register(registry, "machines", self.count.clone());
        register(registry, "machines_most", self.most.clone());
        register(registry, "machines_per_hour", self.per_hour.clone());
        register(registry, "machines_per_hour_most", self.per_hour_most.clone());
        register(registry, "launches", self.launches.clone());
    }

    /// Counts launches.
    pub fn count_launches(&self, outcome: LaunchOutcome, launches: usize) {
        let outcome = match outcome {
            LaunchOutcome::Decided => "decided",
            LaunchOutcome::Failed => "failed",
            LaunchOutcome::InVain => "in-vain",
            LaunchOutcome::Refused => "refused",
        };
        let launches = u64::try_from(launches).unwrap_or(u64::MAX);
        self.launches.get_or_create(&LaunchLabel { outcome }).inc_by(launches);
    }

    /// Shows what was bought, and how much may be.
    pub fn show(&self, claims: &[Claim], buying: &Buying) {
        let mut sums: BTreeMap<(&Arc<str>, CapacityType), (i64, i64)> = BTreeMap::new();
        for claim in claims {
            let sum = sums.entry((&claim.offer.machine, claim.offer.place.capacity_type)).or_default();
            *sum = (sum.0 + 1, sum.1.saturating_add(claim.price_micros));
        }
        self.count.clear();
        self.per_hour.clear();
        for ((machine_type, capacity_type), (count, micros)) in sums {
            let machine_type = machine_type.to_string();
            let label = MachineLabel { machine_type, capacity_type: capacity_type.as_str() };
            self.count.get_or_create(&label).set(count);
            self.per_hour.get_or_create(&label).set(units(micros));
        }
        self.most.set(buying.cap.machines.map_or(0, i64::from));
        self.per_hour_most.set(units(buying.cap.per_hour_micros.unwrap_or(0)));
    }
}

#[allow(clippy::cast_precision_loss, reason = "money, for a graph")]
fn units(micros: i64) -> f64 {
    micros as f64 / 1e6
}
