//! Gangs of random shapes, by a seed.

use api_types::names;
use k8s_openapi::api::core::v1::{Pod, Toleration};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use seeded_random::Random;

use super::site::NAMESPACE;
use crate::objects::GangOfPods;

/// More pods than this need not wait: on 64 GPUs they are two rounds.
const WAITING_MAX: usize = 80;

/// Gangs of 1 to 8 members with 1 or 2 GPUs each.
pub struct Load {
    /// A client that no fault touches.
    pub client: Client,
    /// The source of random shapes.
    pub random: Random,
    /// For how long each member runs on a fake node.
    pub run_time: &'static str,
    /// The number of gangs so far.
    pub created: usize,
}

impl Load {
    /// No gang yet.
    pub fn new(client: &Client, seed: u64, run_time: &'static str) -> Self {
        Self { client: client.clone(), random: Random::new(seed), run_time, created: 0 }
    }

    /// Creates gangs, unless so many pods wait already that the last ones would still wait at the end.
    pub async fn create_gangs(&mut self, count: usize) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let waiting = pods.list_metadata(&ListParams::default().fields("spec.nodeName=")).await?.items.len();
        if waiting > WAITING_MAX {
            return Ok(());
        }
        for _ in 0..count {
            let name = format!("gang-{:04}", self.created);
            let members = 1 + u32::try_from(self.random.below(8))?;
            let gpus = 1 + u32::try_from(self.random.below(2))?;
            self.gang(&name, members, gpus).create(&self.client).await?;
            self.created += 1;
        }
        Ok(())
    }

    /// One gang of a given shape, not created yet.
    pub fn gang<'a>(&self, name: &'a str, members: u32, gpus: u32) -> GangOfPods<'a> {
        GangOfPods { namespace: NAMESPACE, name, queue: NAMESPACE, members, gpus, run_time: self.run_time }
    }
}

/// Creates a gang's pods for kube-scheduler, on nodes with this label, which are tainted with it too.
pub async fn create_foreign_pod(
    client: &Client,
    gang: &GangOfPods<'_>,
    label: (&str, &str),
) -> anyhow::Result<()> {
    for mut pod in gang.pods() {
        let spec = pod.spec.get_or_insert_default();
        spec.scheduler_name = Some("default-scheduler".to_owned());
        spec.node_selector = Some([(label.0.to_owned(), label.1.to_owned())].into());
        spec.tolerations.get_or_insert_default().push(Toleration {
            key: Some(label.0.to_owned()),
            operator: Some("Exists".to_owned()),
            ..Toleration::default()
        });
        pod.metadata.labels.get_or_insert_default().remove(names::GANG_LABEL);
        let pods: Api<Pod> = Api::namespaced(client.clone(), gang.namespace);
        pods.create(&PostParams::default(), &pod).await?;
    }
    Ok(())
}
