//! X1: pods until the cluster is full, in ten random orders.

use std::error::Error;
use std::path::Path;

use jiff::Timestamp;
use simulator::experiments::x1;
use simulator::traces::openb;

use crate::{figure, read, the_policy};

/// List, our figure's goal, published FGD.
const LISTS: [(&str, f64, f64); 3] =
    [("default", 95.3, 95.23), ("gpuspec33", 87.9, 87.84), ("cpu250", 93.2, 93.20)];

const BASELINES: [(&str, x1::Baseline, f64); 3] = [
    ("random", x1::Baseline::Random, 86.30),
    ("bestfit", x1::Baseline::BestFit, 92.86),
    ("fgd", x1::Baseline::Fgd, 95.23),
];

pub fn run(folder: &Path, seeds: std::ops::Range<u64>) -> Result<(), Box<dyn Error>> {
    let policy = the_policy()?;
    let nodes = openb::read_nodes(&read(&folder.join("openb_node_list_gpu_node.csv.zst"))?)?;
    for (list, goal, published) in LISTS {
        let text = read(&folder.join(format!("openb_pod_list_{list}.csv.zst")))?;
        let trace = x1::Trace { nodes: nodes.clone(), pods: openb::read_pods(&text, Timestamp::UNIX_EPOCH)? };
        let mean = |chooser: &x1::Chooser<'_>| {
            let all: Vec<f64> =
                seeds.clone().map(|seed| x1::allocated_percent(&trace, seed, chooser)).collect();
            eprintln!("{list} {chooser:?} {all:.2?}");
            all.iter().sum::<f64>() / f64::from(u32::try_from(all.len()).unwrap_or(1))
        };
        let mut reference = format!("goal {goal}; published FGD {published}");
        if list == "default" {
            for (name, baseline, published) in BASELINES {
                let value = mean(&x1::Chooser::Baseline(baseline));
                figure(
                    &format!("x1.{name}.default.allocated_percent"),
                    value,
                    &format!("published {published}"),
                );
            }
            let bounds = seeds.clone().map(|seed| x1::first_come_bound_percent(&trace, seed));
            let bound = bounds.sum::<f64>() / f64::from(u32::try_from(seeds.clone().count()).unwrap_or(1));
            reference = format!("{reference}; first-come bound by devices alone, packed offline: {bound:.2}");
        }
        let value = mean(&x1::Chooser::Planner(&policy));
        figure(&format!("x1.{list}.allocated_percent"), value, &reference);
    }
    Ok(())
}
