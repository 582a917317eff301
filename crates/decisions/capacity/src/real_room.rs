//! What a machine really has for pods, if its `MachineType` promises more; the type's status says it.

use api_types::MachineType;
use api_types::machine_type::RealRoomStatus;
use cluster_model::{NodeName, Resources};
use jiff::Timestamp;
use slim_objects::quantity;

/// What nodes of a type had for pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealRoom {
    /// What the type said at that time.
    pub promised: Resources,
    /// What this node had.
    pub room: Resources,
    /// The node that had the most.
    pub node: NodeName,
    /// When it was compared.
    pub seen_at: Timestamp,
}

impl RealRoom {
    /// What the status of a type says. If that is about an earlier spec, it promised something else.
    pub fn read(object: &MachineType, promised: Resources) -> Option<Self> {
        let status = object.status.as_ref()?;
        let is_of_this_spec = status.observed_generation == object.metadata.generation;
        let promised = if is_of_this_spec { promised } else { Resources::default() };
        let RealRoomStatus { gpus, cpu, memory, pods, node, seen_at } = status.real_room.as_ref()?;
        let room = Resources {
            gpus: *gpus,
            cpu_millis: quantity::millis(cpu).ok()?,
            memory_bytes: quantity::units(memory).ok()?,
            pods: *pods,
        };
        Some(Self { promised, room, node: node.as_str().into(), seen_at: seen_at.parse().ok()? })
    }

    /// The same for the status.
    pub fn status(&self) -> RealRoomStatus {
        RealRoomStatus {
            gpus: self.room.gpus,
            cpu: format!("{}m", self.room.cpu_millis),
            memory: self.room.memory_bytes.to_string(),
            pods: self.room.pods,
            node: self.node.to_string(),
            seen_at: self.seen_at.to_string(),
        }
    }

    /// The difference, in words.
    pub fn in_words(&self) -> String {
        let parts = [
            ("GPUs", self.room.gpus, self.promised.gpus, 1, ""),
            ("CPU", self.room.cpu_millis, self.promised.cpu_millis, 1, "m"),
            ("memory", self.room.memory_bytes, self.promised.memory_bytes, 1 << 20, "Mi"),
            ("pods", self.room.pods, self.promised.pods, 1, ""),
        ];
        let short = parts.into_iter().filter(|(_, had, promised, ..)| had < promised);
        let short: Vec<String> = short
            .map(|(what, had, promised, unit, suffix)| {
                // Rounded down, so that whoever writes the number into the type promises no more than there is.
                let (had, promised) = (had.div_euclid(unit), promised.div_euclid(unit));
                format!("{what} {had}{suffix} of {promised}{suffix}")
            })
            .collect();
        format!("node {} had less for pods than the MachineType says: {}", self.node, short.join(", "))
    }
}
