//! X1: pods until the cluster is full, in ten random orders.

use std::error::Error;
use std::path::Path;

use experiments::openb_saturation;
use jiff::Timestamp;
use simulator::traces::openb;

use crate::common::{figure, read, the_policy};

/// List, our figure's goal, published FGD.
const LISTS: [(&str, f64, f64); 3] =
    [("default", 95.3, 95.23), ("gpuspec33", 87.9, 87.84), ("cpu250", 93.2, 93.20)];

const BASELINES: [(&str, openb_saturation::Baseline, f64); 3] = [
    ("random", openb_saturation::Baseline::Random, 86.30),
    ("bestfit", openb_saturation::Baseline::BestFit, 92.86),
    ("fgd", openb_saturation::Baseline::Fgd, 95.23),
];

pub fn run(folder: &Path, seeds: std::ops::Range<u64>) -> Result<(), Box<dyn Error>> {
    let policy = the_policy()?;
    let nodes = openb::read_nodes(&read(&folder.join("openb_node_list_gpu_node.csv.zst"))?)?;
    for (list, goal, published) in LISTS {
        let text = read(&folder.join(format!("openb_pod_list_{list}.csv.zst")))?;
        let trace = openb_saturation::Trace {
            nodes: nodes.clone(),
            pods: openb::read_pods(&text, Timestamp::UNIX_EPOCH)?,
        };
        let mean = |chooser: &openb_saturation::Chooser<'_>| {
            let all: Vec<f64> = seeds
                .clone()
                .map(|seed| openb_saturation::allocated_percent(&trace, seed, chooser))
                .collect();
            eprintln!("{list} {chooser:?} {all:.2?}");
            all.iter().sum::<f64>() / f64::from(u32::try_from(all.len()).unwrap_or(1))
        };
        let mut reference = format!("goal {goal}; published FGD {published}");
        if list == "default" {
            for (name, baseline, published) in BASELINES {
                let value = mean(&openb_saturation::Chooser::Baseline(baseline));
                figure(
                    &format!("x1.{name}.default.allocated_percent"),
                    value,
                    &format!("published {published}"),
                );
            }
            let bounds = seeds.clone().map(|seed| openb_saturation::first_come_bound_percent(&trace, seed));
            let bound = bounds.sum::<f64>() / f64::from(u32::try_from(seeds.clone().count()).unwrap_or(1));
            reference = format!("{reference}; first-come bound by devices alone, packed offline: {bound:.2}");
        }
        let value = mean(&openb_saturation::Chooser::Planner(&policy));
        figure(&format!("x1.{list}.allocated_percent"), value, &reference);
    }
    Ok(())
}
