//! Controls the cloud at Karpenter's edge: one JSON file, replaced as a whole. `engine/karpenter/controls.go`
//! reads it before each action.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::{Error, files};

/// For this long AWS' provider does not offer what it found out of stock.
const STOCK_OUT_MEMORY_SECONDS: u64 = 180;

/// A set of offerings; a `None` matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Offerings {
    /// The type, such as `p5.48xlarge`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// The zone, such as `zone-a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// `spot` or `on-demand`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<String>,
    /// The rack, such as `zone-a-rack-1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
}

impl Offerings {
    /// All offerings.
    pub fn all() -> Self {
        Self::default()
    }

    /// Offerings of a type.
    pub fn of_type(instance_type: &str) -> Self {
        Self { instance_type: Some(instance_type.to_owned()), ..Self::default() }
    }

    /// The ones in a zone.
    #[must_use]
    pub fn in_zone(self, zone: &str) -> Self {
        Self { zone: Some(zone.to_owned()), ..self }
    }

    /// The ones bought as `spot` or `on-demand`.
    #[must_use]
    pub fn bought_as(self, capacity_type: &str) -> Self {
        Self { capacity_type: Some(capacity_type.to_owned()), ..self }
    }

    /// The ones in a rack.
    #[must_use]
    pub fn in_rack(self, rack: &str) -> Self {
        Self { rack: Some(rack.to_owned()), ..self }
    }
}

/// The fate of a claim's launch. A claim has one fate, however often its launch is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It boots in the usual time and stays.
    Well,
    /// It finds no stock, and Karpenter deletes the claim.
    StockOut,
    /// It fails this many times. Karpenter tries again each time, with growing waits, for five minutes at most.
    Error {
        /// How many times.
        times: u32,
    },
    /// It takes this long to boot.
    Slow(Duration),
    /// It is paid for, and its Node never appears.
    NeverRegisters,
    /// It vanishes this long after its launch, without a notice.
    Disappears(Duration),
}

impl Serialize for Fate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Default, Serialize)]
        struct Written {
            kind: &'static str,
            milliseconds: u64,
            times: u32,
        }
        let of = |kind| Written { kind, ..Written::default() };
        let written = match self {
            Self::Well => of("well"),
            Self::StockOut => of("stock_out"),
            Self::Error { times } => Written { times: *times, ..of("error") },
            Self::Slow(time) => Written { milliseconds: milliseconds(*time), ..of("slow") },
            Self::NeverRegisters => of("never_registers"),
            Self::Disappears(time) => Written { milliseconds: milliseconds(*time), ..of("disappears") },
        };
        written.serialize(serializer)
    }
}

/// Faults for a share of all launches. The same seed strikes the same groups, in any order.
#[derive(Clone, Debug, Serialize)]
pub struct Odds {
    /// The seed of the draws.
    pub seed: u64,
    /// How many of a hundred groups get a fault.
    pub percent: u32,
    /// Claims with equal values of these labels are one group. The first claim of a group to be launched gets
    /// the fault. Without labels, each claim is a group.
    pub group_labels: Vec<String>,
    /// How the tries of a gang are identified, so that they have the same fates for every buyer.
    #[serde(flatten)]
    pub tries: Tries,
    /// The faults, one of which is drawn.
    pub fates: Vec<Fate>,
}

/// The annotations of claims by which the cloud identifies the tries of a gang. If empty, each group is a gang
/// with one try.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tries {
    /// Names the gang: the nth group of a gang is its nth try, whose fate is drawn from the gang's name and n.
    #[serde(rename = "tries_of")]
    pub of: String,
    /// How many claims make the gang whole. Each claim of the same group beyond these replaces one, and is a try of its own.
    #[serde(rename = "size_of")]
    pub size: String,
}

/// All controls of the cloud.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Controls {
    pub boot_milliseconds: u64,
    pub stock_out_memory_seconds: u64,
    pub stock: Vec<Stock>,
    pub prices: Vec<Price>,
    pub launches: Launches,
    pub odds: Option<Odds>,
    pub reclaim: BTreeMap<String, Timestamp>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Stock {
    pub of: Offerings,
    pub machines_max: usize,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Price {
    pub of: Offerings,
    pub micros_per_hour: i64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Launches {
    pub batch: u32,
    pub fates: Vec<Fate>,
}

impl Controls {
    pub fn new(boot: Duration) -> Self {
        Self {
            boot_milliseconds: milliseconds(boot),
            stock_out_memory_seconds: STOCK_OUT_MEMORY_SECONDS,
            stock: Vec::new(),
            prices: Vec::new(),
            launches: Launches::default(),
            odds: None,
            reclaim: BTreeMap::new(),
        }
    }

    /// Replaces the file; no reader ever sees a part of it.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let what = || format!("write {}", path.display());
        let text = serde_json::to_vec(self)
            .map_err(|error| Error::Manifest { what: what(), why: error.to_string() })?;
        let temporary = path.with_extension("new");
        files::write_private(&temporary, &text)?;
        std::fs::rename(&temporary, path).map_err(|source| Error::Io { what: what(), source })
    }
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cloud_reads_what_is_written_here() {
        let mut controls = Controls::new(Duration::from_millis(1500));
        controls
            .stock
            .push(Stock { of: Offerings::of_type("p5.48xlarge").in_zone("zone-a"), machines_max: 2 });
        controls.launches =
            Launches { batch: 1, fates: vec![Fate::Error { times: 2 }, Fate::Slow(Duration::from_secs(9))] };
        controls.odds = Some(Odds {
            seed: 7,
            percent: 30,
            group_labels: vec!["launch".to_owned()],
            tries: Tries { of: "gang".to_owned(), size: "size".to_owned() },
            fates: vec![Fate::StockOut],
        });
        let expected = json!({
            "boot_milliseconds": 1500,
            "stock_out_memory_seconds": 180,
            "stock": [{ "of": { "instance_type": "p5.48xlarge", "zone": "zone-a" }, "machines_max": 2 }],
            "prices": [],
            "launches": { "batch": 1, "fates": [
                { "kind": "error", "milliseconds": 0, "times": 2 },
                { "kind": "slow", "milliseconds": 9000, "times": 0 },
            ]},
            "odds": {
                "seed": 7, "percent": 30, "group_labels": ["launch"], "tries_of": "gang", "size_of": "size",
                "fates": [{ "kind": "stock_out", "milliseconds": 0, "times": 0 }],
            },
            "reclaim": {},
        });
        assert_eq!(serde_json::to_value(&controls).unwrap(), expected);
    }
}
