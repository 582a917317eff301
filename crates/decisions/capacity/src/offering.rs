//! What can be bought, and which room there already is.

/// Money per hour, in millionths of the currency.
pub type MicrosPerHour = u64;

/// How a machine is paid for, and whether it can be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MixCapacityType {
    /// Cheap; the cloud may take it back.
    Spot,
    /// At the list price, for as long as it is wanted.
    OnDemand,
}

/// An amount of what machines have and members need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MixResources {
    /// Whole GPUs, all of one type.
    pub gpus: u64,
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

/// Where a machine is and what it is like: everything that a demand may ask of it apart from room.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The zone.
    pub zone: String,
    /// The rack or NVLink domain, if the cloud names it.
    pub domain: Option<String>,
    /// How it is paid for.
    pub capacity_type: MixCapacityType,
    /// The type of its GPUs; `None` for a machine without GPUs.
    pub gpu_type: Option<String>,
}

/// Machines of one kind at one place and price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offering {
    /// Unique; ties are broken by it.
    pub id: String,
    /// The cloud's name for the kind of machine.
    pub instance_type: String,
    /// Where the machines would be.
    pub location: Location,
    /// The price of one machine.
    pub price_per_hour: MicrosPerHour,
    /// What one machine has for members.
    pub machine: MixResources,
    /// The time from order to ready that is expected.
    pub boot_seconds: u32,
    /// The most machines, if that is known.
    pub stock: Option<u32>,
}

/// Free room on a machine that is there or already ordered: it costs nothing more, so no ceiling applies to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeRoom {
    /// The machine's name; unique among rooms.
    pub id: String,
    /// Where the machine is.
    pub location: Location,
    /// What is free on it.
    pub free: MixResources,
    /// The time until it is ready; zero if it is.
    pub ready_in_seconds: u32,
}

impl MixResources {
    /// GPUs, CPU and memory in this order, for loops over them.
    pub fn to_array(self) -> [u64; 3] {
        [self.gpus, self.cpu_milli, self.memory_bytes]
    }

    /// Whether each part is at most that of `room`.
    pub fn fits(self, room: Self) -> bool {
        self.to_array().iter().zip(room.to_array()).all(|(need, has)| *need <= has)
    }
}
