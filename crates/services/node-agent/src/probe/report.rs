//! Reports of the sources.

use crate::finding::{GpuFault, Notice};
use crate::source::Source;

/// All present findings of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Notices of the cloud.
    Notices(Vec<Notice>),
    /// Faults of GPUs.
    Faults(Vec<GpuFault>),
}

/// The changed findings of a source.
#[derive(Debug)]
pub struct Report {
    pub(super) source: Source,
    pub(super) found: Found,
}
