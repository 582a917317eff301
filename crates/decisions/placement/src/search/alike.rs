//! Nodes for members that are alike, within one domain.

use cluster_model::plan::{MemberPlacement, WaitReason};
use cluster_model::{DomainId, Fork, GpuType, NodeId, PodId};

use super::fit;
use super::for_gang::Search;
use super::ranking::{Ask, ChosenNode, Local};
use super::reasons;
use crate::gang::Group;

impl Search<'_> {
    /// A node for each member of the group, assumed in `attempt`; or why not. Reasons are for the cluster as a whole;
    /// a caller that searches a part of it knows better what is missing there.
    pub(super) fn place_alike(
        &mut self,
        attempt: &mut Fork<'_>,
        group: &Group,
        domain: DomainId,
    ) -> Result<(), Vec<WaitReason>> {
        let (ask, gpu_type) = (self.ask(group), self.gpu_type_of(group));
        let asked = i64::try_from(group.members.len()).unwrap_or(i64::MAX);
        // One member is found or not in one step; for many, counting first is cheaper than placing most and failing.
        if asked > 1 && self.rankings.room(attempt, (domain, gpu_type), asked, &ask) < asked {
            return Err(self.shortage(attempt, group, domain));
        }
        let mut local =
            (domain != attempt.root()).then(|| self.rankings.within(attempt, (domain, gpu_type), &ask));
        for member in &group.members {
            let Some(node) = self.place_one(attempt, *member, &ask, gpu_type, local.as_mut()) else {
                return Err(self.shortage(attempt, group, domain));
            };
            if let (Some(local), Some(class)) = (&mut local, attempt.class_of(node)) {
                self.rankings.insert_local(attempt, local, class, &ask);
            }
        }
        Ok(())
    }

    fn place_one(
        &mut self,
        attempt: &mut Fork<'_>,
        member: PodId,
        ask: &Ask,
        gpu_type: Option<&GpuType>,
        local: Option<&mut Local>,
    ) -> Option<NodeId> {
        let is_void = self.rules.is_void(attempt, member);
        let admits = |node| is_void || self.rules.admits(attempt, node, member);
        let ChosenNode { node, level, .. } = match local {
            Some(local) => local.best(attempt, admits)?,
            None => self.rankings.best(attempt, gpu_type, ask, admits)?,
        };
        let devices = fit::devices(attempt.node(node), &ask.shape, level)?;
        attempt.assume(member, node, &devices);
        self.rules.placed(attempt, node);
        let (pod, node_name) = (attempt.pod(member).pod().key.clone(), attempt.node(node).name().clone());
        self.members.push(MemberPlacement { pod, node: node_name, devices });
        Some(node)
    }

    fn shortage(&self, attempt: &Fork<'_>, group: &Group, domain: DomainId) -> Vec<WaitReason> {
        if domain != attempt.root() || !self.explains {
            return Vec::new();
        }
        reasons::shortage(attempt, group, self.gpu_type, &self.rules)
    }
}
