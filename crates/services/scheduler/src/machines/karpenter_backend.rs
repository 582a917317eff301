//! Karpenter, watched and written to.

use std::sync::Arc;

use api_types::names::LAUNCH_LABEL;
use capacity::catalogue::Catalogue;
use capacity::claim::{Claim, Launch};
use cluster_apply::ClaimWriter;
use cluster_model::NodeName;
use futures::StreamExt;
use kube::api::{Api, DynamicObject};
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::Value as Json;
use tokio::sync::Notify;
use tracing::{debug, warn};

use super::CapacityBackend;
use super::karpenter::{claim, manifest, node_claims};

/// See the module.
pub struct Karpenter {
    claims: Store<DynamicObject>,
    writer: ClaimWriter,
    epoch: i64,
    changed: Arc<Notify>,
}

impl Karpenter {
    /// Watches the claims that are ours, and tells `changed` whenever one is different.
    pub fn start(client: Client, writer: ClaimWriter, epoch: i64, changed: Arc<Notify>) -> Self {
        let kind = node_claims();
        let api: Api<DynamicObject> = Api::all_with(client, &kind);
        let (reader, store) =
            (reflector::store::Writer::new(kind), watcher::Config::default().labels(LAUNCH_LABEL));
        let claims = reader.as_reader();
        let notify = Arc::clone(&changed);
        tokio::spawn(async move {
            let events = watcher(api, store).default_backoff().reflect(reader);
            let mut events = std::pin::pin!(events);
            // The stream has no end of its own.
            while let Some(event) = events.next().await {
                if let Err(error) = event {
                    debug!(%error, "The watch of NodeClaims failed; it begins anew.");
                }
                notify.notify_one();
            }
        });
        Self { claims, writer, epoch, changed }
    }
}

impl CapacityBackend for Karpenter {
    fn claims(&self) -> Option<Vec<Claim>> {
        // Ready once everything was listed; a watch that breaks off later leaves what was known.
        futures::FutureExt::now_or_never(self.claims.wait_until_ready())?.ok()?;
        Some(self.claims.state().iter().filter_map(|object| claim(object)).collect())
    }

    fn more_wait(&self) {
        self.changed.notify_one();
    }

    fn order(&self, launch: &Launch, catalogue: &Catalogue) {
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
