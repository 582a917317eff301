//! Makes machine types from the cloud's price list, and reads what was bought.

use std::collections::BTreeMap;

use anyhow::Context;
use api_types::buying_policy::BUYING_POLICY_NAME;
use api_types::machine_type::{CapacityType, MachineTypeSpec, NodeClassReference, OfferingSpec};
use api_types::{BuyingPolicy, BuyingPolicySpec, MachineType, names};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use test_cluster::karpenter::{Karpenter, Life, Listed, NODE_CLASS, price_list};

use crate::claims::node_claims;

/// The times of a test's machine types.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The expected time of a boot.
    pub boot_seconds: u32,
    /// How long a machine may be idle.
    pub idle_seconds: u32,
}

/// Offers machines of an instance type from the price list.
pub async fn offer(client: &Client, instance_type: &str, times: Times) -> anyhow::Result<()> {
    offer_with(client, machine_type(instance_type, times)?).await
}

/// Offers machines. If no policy says how many may be bought, any number may.
pub async fn offer_with(client: &Client, machine_type: MachineType) -> anyhow::Result<()> {
    let policies: Api<BuyingPolicy> = Api::all(client.clone());
    if policies.get_opt(BUYING_POLICY_NAME).await?.is_none() {
        allow(client, 100_000, "1000000").await?;
    }
    let types: Api<MachineType> = Api::all(client.clone());
    types.create(&PostParams::default(), &machine_type).await.context("failed to create a machine type")?;
    Ok(())
}

/// Says how many machines may be bought, and at what price an hour.
pub async fn allow(client: &Client, most_machines: u32, most_per_hour: &str) -> anyhow::Result<()> {
    let policies: Api<BuyingPolicy> = Api::all(client.clone());
    let spec = BuyingPolicySpec { paused: false, most_machines, most_per_hour: most_per_hour.to_owned() };
    let policy = BuyingPolicy::new(BUYING_POLICY_NAME, spec);
    policies.create(&PostParams::default(), &policy).await.context("failed to create the buying policy")?;
    Ok(())
}

/// Changes the spec of the policy.
pub async fn change_policy(client: &Client, spec: Value) -> anyhow::Result<()> {
    let policies: Api<BuyingPolicy> = Api::all(client.clone());
    let patch = Patch::Merge(json!({ "spec": spec }));
    let changed = policies.patch(BUYING_POLICY_NAME, &PatchParams::default(), &patch).await;
    changed.context("failed to change the buying policy").map(drop)
}

/// The machine type of an instance type.
pub fn machine_type(instance_type: &str, times: Times) -> anyhow::Result<MachineType> {
    let listed: Vec<Listed> =
        price_list().into_iter().filter(|it| it.offer.instance_type == instance_type).collect();
    let first = listed.first().with_context(|| format!("{instance_type} is not on the price list"))?;
    let resource = |name: &str| first.resources.get(name).cloned().unwrap_or_default();
    let gpu_type = first.gpu_product.as_deref().and_then(|product| product.split('-').nth(1));
    let spec = MachineTypeSpec {
        instance_type: instance_type.to_owned(),
        gpu_type: gpu_type.map(str::to_owned),
        gpus: resource(names::GPU_RESOURCE).parse().unwrap_or(0),
        // Something of it is the kubelet's.
        cpu: (resource("cpu").parse::<u32>()? - 1).to_string(),
        memory: format!("{}Gi", resource("memory").trim_end_matches("Gi").parse::<u32>()? - 8),
        pods: 110,
        boot_seconds: times.boot_seconds,
        idle_seconds: times.idle_seconds,
        spares: 0,
        bounds: None,
        offerings: listed.iter().map(offering).collect(),
        node_class: NodeClassReference {
            group: "karpenter.kwok.sh".to_owned(),
            kind: "KWOKNodeClass".to_owned(),
            name: NODE_CLASS.to_owned(),
        },
        node_pool: None,
    };
    Ok(MachineType::new(&instance_type.replace('.', "-"), spec))
}

fn offering(listed: &Listed) -> OfferingSpec {
    let (whole, part) = (listed.micros_per_hour / 1_000_000, listed.micros_per_hour % 1_000_000);
    OfferingSpec {
        zone: listed.offer.zone.clone(),
        block: None,
        rack: Some(listed.offer.rack.clone()),
        capacity_type: match listed.offer.capacity_type.as_str() {
            "spot" => CapacityType::Spot,
            _ => CapacityType::OnDemand,
        },
        per_hour: format!("{whole}.{part:06}"),
        most: None,
    }
}

/// How many claims there are, by launch.
pub async fn claims_by_launch(client: &Client) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut launches = BTreeMap::new();
    for claim in node_claims(client).list(&ListParams::default().labels(names::LAUNCH_LABEL)).await? {
        let gang = claim.metadata.annotations.unwrap_or_default().remove(names::FOR_GANG_ANNOTATION);
        *launches.entry(gang.unwrap_or_else(|| "spare".to_owned())).or_default() += 1;
    }
    Ok(launches)
}

/// Machines that the cloud still bills.
pub fn billed(karpenter: &Karpenter) -> anyhow::Result<Vec<Life>> {
    Ok(karpenter.lives()?.into_iter().filter(|life| life.ended.is_none()).collect())
}
