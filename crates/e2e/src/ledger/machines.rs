//! Is the bill for machines what the cloud would send? Each difference is a sentence.

use std::collections::BTreeSet;

use jiff::Timestamp;
use num_bigint::BigInt;
use test_cluster::karpenter::Life;

use super::{Bill, BilledLine};

/// The ledger's units in a millionth for an hour, as `costing` documents them.
const UNITS_PER_SECOND: i64 = 2_882_880;

/// By how much launch and end of a machine may lie apart, each: Karpenter writes down whole seconds, after the cloud's answer;
/// and when a Node goes, the meter sees it.
const ENDS_APART_MAX_SECONDS: f64 = 2.0;

/// Compares every machine that the cloud ever launched with its lines, closed and open until `moment`: the price is the one
/// paid, the time that of the cloud's own bill but for its two ends, no second is charged twice, and nothing else was bought.
pub fn compare_machines(lives: &[Life], bill: &Bill, moment: Timestamp) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut unknown: BTreeSet<&str> = bill.bought.keys().map(String::as_str).collect();
    for life in lives {
        let uids: Vec<&str> = bill
            .bought
            .iter()
            .filter(|(uid, name)| **uid == life.claim_uid || **name == life.node)
            .map(|(uid, _)| uid.as_str())
            .collect();
        for uid in &uids {
            unknown.remove(uid);
        }
        if let Err(why) = compare_machine(life, &uids, bill, moment) {
            wrong.push(format!("machine {} of {}: {why}: {life:?}", life.node, life.claim));
        }
    }
    let told = |uid: &str| format!("{} ({uid}) is billed, and the cloud never launched it", bill.bought[uid]);
    wrong.extend(unknown.into_iter().map(told));
    wrong
}

fn compare_machine(life: &Life, uids: &[&str], bill: &Bill, moment: Timestamp) -> Result<(), String> {
    let lines: Vec<&BilledLine> =
        bill.lines.iter().filter(|line| uids.contains(&line.node_uid.as_str())).collect();
    let closed: Option<BigInt> = lines.iter().map(|line| line.amount.clone()).sum();
    let open = bill.open.iter().filter(|open| uids.contains(&open.node_uid.as_str()));
    let open: Option<BigInt> =
        open.map(|open| Some(open.rate.clone()? * (moment.as_second() - open.since))).sum();
    let amount = closed.zip(open).map(|(closed, open)| closed + open).ok_or("a line has no price")?;
    let per_second = BigInt::from(life.micros_per_hour) * UNITS_PER_SECOND;
    let rest = &amount % &per_second;
    if rest != BigInt::from(0) {
        return Err(format!("{amount} units are no whole number of seconds at the price paid"));
    }
    let seconds = f64::from(i32::try_from(amount / per_second).map_err(|error| error.to_string())?);
    let paid = life.paid_seconds(moment);
    if (seconds - paid).abs() > 2.0 * ENDS_APART_MAX_SECONDS {
        return Err(format!("{seconds} seconds are billed, and the cloud bills {paid}"));
    }
    let own = lines.iter().filter(|line| line.node_uid == life.claim_uid).map(|line| line.to).max();
    let of_node = lines.iter().filter(|line| line.node_uid != life.claim_uid).map(|line| line.from).min();
    match (own, of_node) {
        (Some(own), Some(of_node)) if own > of_node => {
            Err(format!("it is billed twice from {of_node} to {own}: as a claim and as a Node"))
        }
        _ => Ok(()),
    }
}
