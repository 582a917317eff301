//! Machines that the development platform buys from a made-up cloud.

use std::time::Duration;

use anyhow::Context;
use api_types::{BuyingPolicy, MachineType};
use e2e::machines::offer_with;
use kube::api::{Api, PostParams};
use serde::de::DeserializeOwned;
use test_cluster::TestCluster;
use test_cluster::karpenter::KarpenterSettings;
use toolbox::checkout::repository_root;

/// How many machines the teams may own beyond the fake nodes.
pub const MACHINES_MAX: u32 = 16;
/// Long enough to show up in `warpyard capacity`.
const BOOT_TIME: Duration = Duration::from_secs(20);
const BUYING_POLICY: &str = "examples/buying-policy.yaml";
const MACHINE_TYPE: &str = "examples/machine-type-fake.yaml";

/// The settings of the cloud.
pub fn cloud() -> KarpenterSettings {
    KarpenterSettings { boot_time: BOOT_TIME, ..KarpenterSettings::default() }
}

/// Creates the machine types.
pub async fn offer(cluster: &TestCluster) -> anyhow::Result<()> {
    let client = cluster.admin_client();
    let policy: BuyingPolicy = read(BUYING_POLICY)?;
    Api::all(client.clone())
        .create(&PostParams::default(), &policy)
        .await
        .context("failed to allow buying")?;
    offer_with(&client, machine_type()?).await
}

fn machine_type() -> anyhow::Result<MachineType> {
    read(MACHINE_TYPE)
}

fn read<K: DeserializeOwned>(path: &str) -> anyhow::Result<K> {
    let text = std::fs::read_to_string(repository_root().join(path))
        .with_context(|| format!("failed to read {path}"))?;
    serde_norway::from_str(&text).with_context(|| format!("{path} cannot be used"))
}

#[cfg(test)]
mod tests {
    use test_cluster::karpenter::price_list;

    use super::machine_type;

    #[test]
    fn the_cloud_has_what_is_offered_at_that_price() {
        let machine = machine_type().unwrap().spec;
        for offering in &machine.offerings {
            let listed = price_list().into_iter().find(|listed| {
                listed.offer.instance_type == machine.instance_type
                    && listed.offer.zone == offering.zone
                    && Some(&listed.offer.rack) == offering.rack.as_ref()
                    && listed.offer.capacity_type == offering.capacity_type.as_str()
            });
            let listed = listed.unwrap_or_else(|| panic!("the cloud has no {offering:?}"));
            let price =
                format!("{}.{:06}", listed.micros_per_hour / 1_000_000, listed.micros_per_hour % 1_000_000);
            assert_eq!(price.trim_end_matches('0'), offering.per_hour.trim_end_matches('0'));
        }
    }
}
