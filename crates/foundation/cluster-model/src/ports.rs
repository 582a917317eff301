//! Ports of the host that pods take: no two pods on one node may have the same.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

/// The address that stands for all of a node's addresses.
const ALL_ADDRESSES: &str = "0.0.0.0";

/// A port of the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostPort {
    /// The number, from 1.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
    /// The address, as it is written; `0.0.0.0` is all of them.
    pub address: Arc<str>,
}

impl HostPort {
    /// A port; of all addresses if none is given, and of TCP if no protocol is given.
    pub fn new(port: u16, protocol: &str, address: &str) -> Self {
        let or = |text: &str, other: &str| Arc::from(if text.is_empty() { other } else { text });
        Self { port, protocol: or(protocol, "TCP"), address: or(address, ALL_ADDRESSES) }
    }

    /// Whether two pods with these ports cannot be on one node. Addresses are compared as they are written, as Kubernetes
    /// does.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address
                || *self.address == *ALL_ADDRESSES
                || *other.address == *ALL_ADDRESSES)
    }
}

/// The ports of the host that a pod takes. Mostly none, which costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostPorts(Option<Arc<[HostPort]>>);

impl HostPorts {
    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &HostPort> {
        self.0.iter().flat_map(|ports| ports.iter())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a pod with these and a pod with those cannot be on one node.
    pub fn conflict(&self, other: &Self) -> bool {
        self.iter().any(|port| other.iter().any(|other| port.conflicts(other)))
    }
}

impl FromIterator<HostPort> for HostPorts {
    fn from_iter<T: IntoIterator<Item = HostPort>>(ports: T) -> Self {
        let mut ports: Vec<HostPort> = ports.into_iter().collect();
        ports.sort();
        ports.dedup();
        Self((!ports.is_empty()).then(|| ports.into()))
    }
}

/// The ports that pods on a node take, and how many pods take each: objects may say anything.
pub(crate) type PortsInUse = BTreeMap<HostPort, u32>;

pub(crate) fn count_ports(in_use: &mut PortsInUse, ports: &HostPorts, add: bool) {
    for port in ports.iter() {
        if add {
            *in_use.entry(port.clone()).or_default() += 1;
        } else if let Some(pods) = in_use.get_mut(port) {
            *pods -= 1;
            if *pods == 0 {
                in_use.remove(port);
            }
        }
    }
}
