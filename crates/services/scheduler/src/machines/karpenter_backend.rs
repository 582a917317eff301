//! The backend that buys through Karpenter.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_types::BuyingPolicy;
use api_types::buying_policy::BUYING_POLICY_NAME;
use api_types::names::LAUNCH_LABEL;
use capacity::claim::Claim;
use cluster_apply::ClaimWriter;
use cluster_model::NodeName;
use kube::api::{Api, DynamicObject};
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::Value as Json;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::warn;

use super::backend::{CapacityBackend, Order};
use super::guard::{self, Sent};
use super::karpenter::{claim, manifest, node_claims};
use super::kept::{keep, listed};
use crate::metrics::machines::{LaunchOutcome, MachineMetrics};

/// The backend that buys through Karpenter.
pub struct Karpenter {
    claims: Store<DynamicObject>,
    policies: Store<BuyingPolicy>,
    sent: Mutex<Sent>,
    writer: ClaimWriter,
    epoch: i64,
    metrics: MachineMetrics,
    changed: Arc<Notify>,
}

impl Karpenter {
    /// Watches our claims, and notifies `changed` whenever one differs.
    pub fn start(
        client: Client,
        writer: ClaimWriter,
        (epoch, policies, metrics): (i64, Store<BuyingPolicy>, MachineMetrics),
        changed: Arc<Notify>,
    ) -> Self {
        let kind = node_claims();
        let api: Api<DynamicObject> = Api::all_with(client, &kind);
        let ours = watcher::Config::default().labels(LAUNCH_LABEL);
        let claims = keep(api, kind, ours, Arc::clone(&changed));
        Self { claims, policies, sent: Mutex::default(), writer, epoch, metrics, changed }
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a launch is not ordered.
    fn refusal(&self, order: &Order) -> Result<(), String> {
        let claims = self.claims().ok_or("the machines that are there are not known")?;
        let policies = listed(&self.policies).ok_or("the BuyingPolicy is not known")?;
        let policy = policy(&policies).ok_or("there is no BuyingPolicy")?;
        if policy.spec.paused {
            return Err("buying is paused".to_owned());
        }
        let mut bounds = guard::cluster_bounds(policy, &order.launch, &order.catalogue);
        bounds.extend(order.queue_bounds.iter().cloned());
        self.sent().admit(&order.launch, &bounds, &claims, Instant::now())
    }
}

/// The cluster's policy.
pub fn policy(policies: &[Arc<BuyingPolicy>]) -> Option<&BuyingPolicy> {
    let mut policies = policies.iter().map(Arc::as_ref);
    policies.find(|policy| policy.metadata.name.as_deref() == Some(BUYING_POLICY_NAME))
}

impl CapacityBackend for Karpenter {
    fn claims(&self) -> Option<Vec<Claim>> {
        let claims: Vec<Claim> = listed(&self.claims)?.iter().filter_map(|object| claim(object)).collect();
        self.sent().see(&claims, Instant::now());
        Some(claims)
    }

    fn more_wait(&self) {
        self.changed.notify_one();
    }

    fn order(&self, order: &Order) {
        let Order { launch, catalogue, .. } = order;
        if let Err(why) = self.refusal(order) {
            warn!(launch = %launch.key.purpose, why, "Ordered nothing.");
            self.metrics.count_launches(LaunchOutcome::Refused, 1);
            return;
        }
        for (index, (offer, _)) in launch.machines.iter().enumerate() {
            if let Some(machine) = catalogue.get(&offer.machine) {
                let manifest = manifest(launch, index, machine, self.epoch);
                self.writer.order(launch.claim_name(index), manifest);
            } else {
                warn!(%offer, "The machine type is gone; nothing is ordered.");
            }
        }
    }

    fn give_back(&self, claim: &Arc<str>) {
        let object = self.claims.find(|object| object.metadata.name.as_deref() == Some(claim));
        let untouched = object.filter(|object| object.finalizers().is_empty());
        self.writer.give_back(Arc::clone(claim), untouched.and_then(|object| object.resource_version()));
    }

    fn patch_node(&self, node: &NodeName, patch: Json) {
        self.writer.patch_node(node.clone(), patch);
    }
}
