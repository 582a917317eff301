//! What can be bought: `MachineType`s, parsed once.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::MachineType;
use api_types::machine_type::{CapacityType, MachineTypeSpec, NodeClassReference, OfferingSpec};
use api_types::{names, price};
use cluster_model::{GpuType, Node, NodeName, Resources, Taint, TaintEffect};
use slim_objects::quantity;

use crate::caps::Cap;
use crate::real_room::RealRoom;

pub use api_types::price::MICROS;

/// Everything that can be bought, by the name of its `MachineType`.
pub type Catalogue = BTreeMap<Arc<str>, CatalogueMachine>;

/// A machine type, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueMachine {
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
    /// How many idle ones are kept as spares.
    pub spares: u32,
    /// The most that may be bought of it.
    pub cap: Cap,
    /// Where it can be bought, and how.
    pub offers: Vec<Offer>,
    /// Karpenter's node class for its machines.
    pub node_class: NodeClassReference,
    /// The `NodePool` that it counts for.
    pub node_pool: Option<String>,
    /// The generation of its spec.
    pub generation: Option<i64>,
    /// What its status says that its machines have, if that was less than `room`.
    pub real_room: Option<RealRoom>,
}

/// One way to buy a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Where and how.
    pub place: OfferPlace,
    /// In millionths of the currency, per hour.
    pub price_micros: i64,
    /// The most machines at a time.
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

/// What distinguishes an offer from all others.
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
    /// An amount is not a quantity.
    #[error("{field} is {text:?}, which is not a quantity")]
    Quantity {
        /// The field.
        field: &'static str,
        /// What it says.
        text: String,
    },
    /// A price is not a decimal.
    #[error("perHour is {text:?}, which is not a price")]
    Price {
        /// What it says.
        text: String,
    },
}

/// Parses a `MachineType`.
///
/// # Errors
/// If an amount or a price in it cannot be read: the schema does not exclude every such text.
pub fn machine(object: &MachineType) -> Result<CatalogueMachine, Error> {
    let MachineTypeSpec {
        instance_type,
        gpu_type,
        gpus,
        cpu,
        memory,
        pods,
        boot_seconds,
        idle_seconds,
        spares,
        bounds,
        offerings,
        node_class,
        node_pool,
    } = &object.spec;
    let amount = |field, text: &str, read: fn(&str) -> Result<i64, quantity::Error>| {
        read(text).map_err(|_| Error::Quantity { field, text: text.to_owned() })
    };
    let room = Resources {
        gpus: i64::from(*gpus),
        cpu_millis: amount("cpu", cpu, quantity::millis)?,
        memory_bytes: amount("memory", memory, quantity::units)?,
        pods: i64::from(*pods),
    };
    Ok(CatalogueMachine {
        name: object.metadata.name.as_deref().unwrap_or_default().into(),
        instance_type: instance_type.as_str().into(),
        gpu_type: gpu_type.as_deref().map(Into::into),
        room,
        boot_seconds: *boot_seconds,
        idle_seconds: *idle_seconds,
        spares: *spares,
        cap: bounds.as_ref().map(Cap::from).unwrap_or_default(),
        offers: offerings.iter().map(offer).collect::<Result<_, _>>()?,
        node_class: node_class.clone(),
        node_pool: node_pool.clone(),
        generation: object.metadata.generation,
        real_room: RealRoom::read(object, room),
    })
}

fn offer(spec: &OfferingSpec) -> Result<Offer, Error> {
    let OfferingSpec { zone, block, rack, capacity_type, per_hour, most } = spec;
    let text = |text: &Option<String>| text.as_deref().map(Arc::from);
    Ok(Offer {
        place: OfferPlace {
            zone: zone.as_str().into(),
            block: text(block),
            rack: text(rack),
            capacity_type: *capacity_type,
        },
        price_micros: price::micros(per_hour).ok_or_else(|| Error::Price { text: per_hour.clone() })?,
        most: *most,
    })
}

impl CatalogueMachine {
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
            topology: slim_objects::topology(&labels),
            labels: labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
            taints: gpu.into_iter().chain([taint(names::FOR_GANG_TAINT, mark)]).collect(),
            spot: place.is_spot(),
            ..Node::new(name)
        }
    }
}
