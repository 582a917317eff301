//! The cloud's offers: `karpenter/instance-types.json`, in the form of Karpenter's KWOK provider. Names and
//! prices are like those of AWS' public lists; spot prices, zones and racks are made up.

use std::collections::BTreeMap;

use api_types::names;
use serde::Deserialize;

use super::lives::Offer;

/// The file itself.
pub(super) const INSTANCE_TYPES: &str = include_str!("../../karpenter/instance-types.json");

/// One offering with its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The offer.
    pub offer: Offer,
    /// Its price in the file.
    pub micros_per_hour: i64,
    /// The label `nvidia.com/gpu.product` of its Nodes.
    pub gpu_product: Option<String>,
    /// The machine's resources, in Kubernetes' form.
    pub resources: BTreeMap<String, String>,
}

/// The list, in the file's order.
///
/// # Panics
/// If the file is not a price list, which a test sees to.
pub fn price_list() -> Vec<Listed> {
    let types: Vec<InstanceType> = serde_json::from_str(INSTANCE_TYPES).expect("the file is a price list");
    let mut list = Vec::new();
    for InstanceType { name, resources, offerings } in types {
        for Offering { price, requirements } in offerings {
            let value =
                |key: &str| requirements.iter().find(|it| it.key == key).and_then(|it| it.values.first());
            let label = |key: &str| value(key).cloned().unwrap_or_default();
            list.push(Listed {
                offer: Offer {
                    instance_type: name.clone(),
                    zone: label(names::ZONE_LABEL),
                    capacity_type: label(names::CAPACITY_TYPE_NODE_LABEL),
                    rack: label(names::RACK_LABEL),
                },
                micros_per_hour: micros(price),
                gpu_product: value(names::GPU_PRODUCT_LABEL).cloned(),
                resources: resources.clone(),
            });
        }
    }
    list
}

#[expect(clippy::cast_possible_truncation, reason = "prices are far below 2^53 micro-units")]
fn micros(price: f64) -> i64 {
    (price * 1e6).round() as i64
}

#[derive(Deserialize)]
struct InstanceType {
    name: String,
    resources: BTreeMap<String, String>,
    offerings: Vec<Offering>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Offering {
    price: f64,
    requirements: Vec<Requirement>,
}

#[derive(Deserialize)]
struct Requirement {
    key: String,
    values: Vec<String>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_type_is_offered_in_three_zones_as_spot_and_on_demand_and_spot_is_cheaper() {
        let list = price_list();
        let types: BTreeSet<_> = list.iter().map(|it| it.offer.instance_type.as_str()).collect();
        assert!(types.len() >= 10, "{types:?}");
        for name in types {
            let of_type: Vec<_> = list.iter().filter(|it| it.offer.instance_type == name).collect();
            let zones: BTreeSet<_> = of_type.iter().map(|it| it.offer.zone.as_str()).collect();
            assert_eq!(zones, BTreeSet::from(["zone-a", "zone-b", "zone-c"]), "{name}");
            let dearest = |kind: &str| {
                of_type.iter().filter(|it| it.offer.capacity_type == kind).map(|it| it.micros_per_hour).max()
            };
            assert!(dearest("spot").is_some() && dearest("spot") < dearest("on-demand"), "{name}");
            assert!(of_type.iter().all(|it| it.offer.rack.starts_with(&it.offer.zone)), "{name}");
        }
    }

    #[test]
    fn no_offering_is_listed_twice() {
        let list = price_list();
        let offers: BTreeSet<_> = list.iter().map(|it| it.offer.clone()).collect();
        assert_eq!(offers.len(), list.len());
    }

    #[test]
    fn there_are_h100s_a100s_and_l4s() {
        let products: BTreeSet<_> = price_list().into_iter().filter_map(|it| it.gpu_product).collect();
        for model in ["H100", "A100", "L4"] {
            assert!(products.iter().any(|product| product.split('-').any(|part| part == model)), "{model}");
        }
    }
}
