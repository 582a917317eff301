//! The search for one gang.

use std::sync::Arc;

use cluster_model::plan::MemberPlacement;
use cluster_model::{GpuType, NodeId};

use super::ranking::Ask;
use super::rankings::Rankings;
use super::rules::Rules;
use crate::Packing;
use crate::gang::{Group, Request};

/// The search for one gang.
pub(super) struct Search<'a> {
    pub rankings: &'a mut Rankings,
    pub request: &'a Request,
    pub gpu_type: Option<&'a GpuType>,
    pub packing: Packing,
    pub rules: Rules,
    pub running: Vec<Running>,
    pub members: Vec<MemberPlacement>,
    pub tries_left: u32,
    /// Whether reasons are wanted; else there are none, which costs less.
    pub explains: bool,
}

impl<'a> Search<'a> {
    pub fn ask(&self, group: &Group) -> Ask {
        Ask { packing: self.packing, shape: group.shape.clone() }
    }

    pub fn gpu_type_of(&self, group: &Group) -> Option<&'a GpuType> {
        self.gpu_type.filter(|_| group.shape.uses_gpus())
    }
}

/// A member that has its node already.
#[derive(Clone, Debug)]
pub(super) struct Running {
    /// The group that it counts in.
    pub group: Option<Arc<str>>,
    pub index: u32,
    pub node: NodeId,
}
