//! Compares the bill with the recorded events. Each difference is a sentence.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_rational::BigRational;

use super::bill::{Bill, BilledLine};
use super::price::{GpuPrice, cost};
use super::witness::{NodeLife, Use};

/// The ledger's units in one unit of the currency, as `costing` documents them: millionths × 3600 × 2,882,880.
const UNITS: i64 = 1_000_000 * 3_600 * 2_882_880;

/// Seconds by which two watches may see the same event, on a busy machine.
const SEEN_APART_MAX: u64 = 5;

/// Compares every pod that ever had a node with its lines: whole, without gap or overlap, to the second and exact.
pub fn compare_pods(pods: &BTreeMap<String, Use>, bill: &Bill, prices: &[GpuPrice]) -> Vec<String> {
    let mut lines: BTreeMap<&str, Vec<&BilledLine>> = BTreeMap::new();
    for line in &bill.lines {
        if let Some(uid) = &line.pod_uid {
            lines.entry(uid).or_default().push(line);
        }
    }
    let mut wrong = Vec::new();
    for (uid, pod) in pods {
        let billed = lines.remove(uid.as_str()).unwrap_or_default();
        if let Err(why) = compare_pod(pod, &billed, prices) {
            wrong.push(format!("pod {}/{} ({uid}): {why}: {pod:?}: {billed:#?}", pod.name.0, pod.name.1));
        }
    }
    wrong.extend(lines.into_keys().map(|uid| format!("pod {uid} is billed and was never seen")));
    wrong
}

/// Compares every node: what pods and nobody used of it, closed and open, is its seconds times its price.
pub fn compare_nodes(
    nodes: &BTreeMap<String, NodeLife>,
    bill: &Bill,
    prices: &[GpuPrice],
    moment: i64,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (uid, node) in nodes {
        let lines = bill.lines.iter().filter(|line| line.node_uid == *uid);
        let closed: Option<BigInt> = lines.map(|line| line.amount.clone()).sum();
        let open = bill.open.iter().filter(|open| open.node_uid == *uid);
        let open: Option<BigInt> = open.map(|open| Some(open.rate.clone()? * (moment - open.since))).sum();
        // Nobody writes down when a node goes: the meter and the witness each see it, at nearly the same time.
        let end = bill.node_ends.get(uid).copied();
        let seen_alike = match (node.gone, end) {
            (Some(gone), Some(end)) => gone.abs_diff(end) <= SEEN_APART_MAX,
            (gone, end) => gone == end,
        };
        if !seen_alike {
            wrong.push(format!("node {} was seen to go at {:?} and ended at {end:?}", node.name, node.gone));
        }
        let expected = cost(prices, node.gpus, node.created, end.unwrap_or(moment));
        match (closed, open) {
            (Some(closed), Some(open)) if money(&(closed.clone() + &open)) == expected => {}
            (closed, open) => wrong.push(format!(
                "node {}: {closed:?} closed and {open:?} open are not {} units: {node:?}",
                node.name,
                expected * BigRational::from_integer(UNITS.into())
            )),
        }
    }
    wrong
}

fn compare_pod(pod: &Use, lines: &[&BilledLine], prices: &[GpuPrice]) -> Result<(), String> {
    let scheduled = pod.scheduled.ok_or("it has a node and no time at which it got it")?;
    let end = *pod.ends.last().ok_or("it has not ended")?;
    let mut at = scheduled;
    for line in lines {
        if line.from != at {
            return Err(format!("a line begins at {} and not at {at}", line.from));
        }
        at = line.to;
        // A container that started before the pod was bound is a clock's fault; none of the fake kubelet's does.
        let starting = pod.started.is_none_or(|started| line.from < started);
        let class = if starting { "Starting" } else { "Productive" };
        if line.class != class || (starting && pod.started.is_some_and(|started| line.to > started)) {
            return Err(format!("the line from {} is {} and not {class}", line.from, line.class));
        }
        if line.said != pod.said {
            return Err(format!("it is charged to {:?} and not to {:?}", line.said, pod.said));
        }
    }
    if at != end {
        return Err(format!("its lines end at {at} and not at {end}"));
    }
    let gpu_seconds: i64 = lines.iter().map(|line| line.gpu_seconds).sum();
    if gpu_seconds != (end - scheduled) * pod.gpus {
        return Err(format!("{gpu_seconds} GPU seconds and not {}", (end - scheduled) * pod.gpus));
    }
    let amount: Option<BigInt> = lines.iter().map(|line| line.amount.clone()).sum();
    let amount = amount.ok_or("a line has no price")?;
    if money(&amount) != cost(prices, pod.gpus, scheduled, end) {
        return Err(format!("{amount} units are not what it costs"));
    }
    Ok(())
}

fn money(units: &BigInt) -> BigRational {
    BigRational::new(units.clone(), BigInt::from(UNITS))
}
