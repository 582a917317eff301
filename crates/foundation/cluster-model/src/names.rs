//! Names, each with a type of its own. All are cheap to clone.

use std::{cmp::Ordering, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self(name.into())
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                Self(name.into())
            }
        }

        impl From<Arc<str>> for $name {
            fn from(name: Arc<str>) -> Self {
                Self(name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

name!(
    /// A node's name.
    NodeName
);
name!(
    /// A queue's name.
    QueueName
);
name!(
    /// A GPU type, for example `H100`.
    GpuType
);

impl GpuType {
    /// The type of GPUs without a name: on a node without a type label, or of a pod on a node not seen yet.
    pub fn unknown() -> Self {
        "unknown".into()
    }
}

/// One pod's identity. Two pods that had the same name one after the other differ in their uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodKey {
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub name: Arc<str>,
    /// The pod's uid.
    pub uid: Arc<str>,
}

impl PodKey {
    /// A key from its parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>, uid: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into(), uid: uid.into() }
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A gang's identity: pods that start together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GangKey {
    /// The namespace of its pods.
    pub namespace: Arc<str>,
    /// Unique within the namespace.
    pub name: Arc<str>,
}

impl GangKey {
    /// A key from its parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl Ord for GangKey {
    /// By namespace, then name. Gangs of one namespace mostly share its text, so that it need not be read.
    fn cmp(&self, other: &Self) -> Ordering {
        let is_same = Arc::ptr_eq(&self.namespace, &other.namespace);
        let by_namespace = if is_same { Ordering::Equal } else { self.namespace.cmp(&other.namespace) };
        by_namespace.then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for GangKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for GangKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
