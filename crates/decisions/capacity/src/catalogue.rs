//! What can be bought: `MachineType`s, read once.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::MachineType;
use api_types::machine_type::{CapacityType, MachineTypeSpec, NodeClassReference, OfferingSpec};
use api_types::{names, price};
use cluster_convert::quantity;
use cluster_model::{GpuType, Node, NodeName, Resources, Taint, TaintEffect};

pub use api_types::price::MICROS;

/// Everything that can be bought, by the name of its `MachineType`.
pub type Catalogue = BTreeMap<Arc<str>, Machine>;

/// A kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name of its `MachineType`.
    pub name: Arc<str>,
    /// What the cloud calls it.
    pub instance_type: Arc<str>,
    /// The type of its GPUs.
    pub gpu_type: Option<GpuType>,
    /// What pods may use of it.
    pub room: Resources,
    /// How long it takes from the order until pods may run on it.
    pub boot_seconds: u32,
    /// How long it may have no pods before it is given back.
    pub idle_seconds: u32,
    /// How many idle ones are kept.
    pub spares: u32,
    /// Where it can be had.
    pub offers: Vec<Offer>,
    /// The class of nodes that Karpenter makes of it.
    pub node_class: NodeClassReference,
    /// The `NodePool` that it counts for.
    pub node_pool: Option<String>,
}

/// One way to have a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Where and how.
    pub place: OfferPlace,
    /// In millionths of the currency, per hour.
    pub price_micros: i64,
    /// The most that may be had at a time.
    pub most: Option<u32>,
}

/// Where and how a machine is bought.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferPlace {
    /// The zone.
    pub zone: Arc<str>,
    /// The block within the zone.
    pub block: Option<Arc<str>>,
    /// The rack within the block.
    pub rack: Option<Arc<str>>,
    /// How it is bought.
    pub capacity_type: CapacityType,
}

impl OfferPlace {
    /// Whether the cloud may take the machine back.
    pub fn is_spot(&self) -> bool {
        self.capacity_type == CapacityType::Spot
    }
}

/// What tells one offer from all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferKey {
    /// The `MachineType`.
    pub machine: Arc<str>,
    /// Where and how.
    pub place: OfferPlace,
}

impl std::fmt::Display for OfferKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let OfferPlace { zone, block, rack, capacity_type } = &self.place;
        write!(f, "{} {} in {zone}", capacity_type.as_str(), self.machine)?;
        [block, rack].into_iter().flatten().try_for_each(|within| write!(f, "/{within}"))
    }
}

/// Why a `MachineType` cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// An amount is no quantity.
    #[error("{field} is {text:?}, which is no quantity")]
    Quantity {
        /// The field.
        field: &'static str,
        /// What it says.
        text: String,
    },
    /// A price is no decimal.
    #[error("perHour is {text:?}, which is no price")]
    Price {
        /// What it says.
        text: String,
    },
}

/// Reads a `MachineType`.
///
/// # Errors
/// If an amount or a price in it cannot be read, which the schema does not hold in every case.
pub fn machine(object: &MachineType) -> Result<Machine, Error> {
    let MachineTypeSpec { cpu, memory, gpus, pods, .. } = &object.spec;
    let amount = |field, text: &str, read: fn(&str) -> Result<i64, quantity::Error>| {
        read(text).map_err(|_| Error::Quantity { field, text: text.to_owned() })
    };
    let room = Resources {
        gpus: i64::from(*gpus),
        cpu_millis: amount("cpu", cpu, quantity::millis)?,
        memory_bytes: amount("memory", memory, quantity::units)?,
        pods: i64::from(*pods),
    };
    let spec = &object.spec;
    Ok(Machine {
        name: object.metadata.name.as_deref().unwrap_or_default().into(),
        instance_type: spec.instance_type.as_str().into(),
        gpu_type: spec.gpu_type.as_deref().map(Into::into),
        room,
        boot_seconds: spec.boot_seconds,
        idle_seconds: spec.idle_seconds,
        spares: spec.spares,
        offers: spec.offerings.iter().map(offer).collect::<Result<_, _>>()?,
        node_class: spec.node_class.clone(),
        node_pool: spec.node_pool.clone(),
    })
}

fn offer(spec: &OfferingSpec) -> Result<Offer, Error> {
    let text = |text: &Option<String>| text.as_deref().map(Arc::from);
    Ok(Offer {
        place: OfferPlace {
            zone: spec.zone.as_str().into(),
            block: text(&spec.block),
            rack: text(&spec.rack),
            capacity_type: spec.capacity_type,
        },
        price_micros: price::micros(&spec.per_hour)
            .ok_or_else(|| Error::Price { text: spec.per_hour.clone() })?,
        most: spec.most,
    })
}

impl Machine {
    /// The offer at a place.
    pub fn offer(&self, place: &OfferPlace) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.place == *place)
    }

    /// The labels that a node of this offer has, as far as gangs may ask for them.
    pub fn labels(&self, place: &OfferPlace) -> BTreeMap<String, String> {
        let labels = [
            (names::INSTANCE_TYPE_NODE_LABEL, Some(self.instance_type.to_string())),
            (names::CAPACITY_TYPE_NODE_LABEL, Some(place.capacity_type.as_str().to_owned())),
            (names::GPU_TYPE_NODE_LABEL, self.gpu_type.as_ref().map(ToString::to_string)),
            (names::ZONE_LABEL, Some(place.zone.to_string())),
            (names::BLOCK_LABEL, place.block.as_ref().map(ToString::to_string)),
            (names::RACK_LABEL, place.rack.as_ref().map(ToString::to_string)),
        ];
        labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    /// The node that an order of this offer would become, with the taint of the gang that it is for.
    pub fn node(&self, place: &OfferPlace, name: impl Into<NodeName>, mark: &str) -> Node {
        let labels = self.labels(place);
        let taint = |key: &str, value: &str| Taint {
            key: key.into(),
            value: value.into(),
            effect: TaintEffect::NoSchedule,
        };
        let gpu = (self.room.gpus > 0).then(|| taint(names::GPU_NODE_TAINT, ""));
        Node {
            gpu_type: self.gpu_type.clone(),
            allocatable: self.room,
            topology: cluster_convert::topology(&labels),
            labels: labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
            taints: gpu.into_iter().chain([taint(names::FOR_GANG_TAINT, mark)]).collect(),
            spot: place.is_spot(),
            ..Node::new(name)
        }
    }
}
