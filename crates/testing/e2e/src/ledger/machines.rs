//! Compares the bill for machines with the cloud's. Each difference is a sentence.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use jiff::Timestamp;
use num_bigint::BigInt;
use test_cluster::karpenter::Life;
use test_cluster::postgres::Postgres;

use super::{Bill, BilledLine};
use crate::{bounds, wait};

/// The ledger's units in a millionth for an hour, as `costing` documents them.
const UNITS_PER_SECOND: i64 = 2_882_880;

/// How long the meter may take to write what it saw.
const WRITTEN_WITHIN: Duration = Duration::from_mins(2);

/// Waits until the ledger has these machines, all of which are gone, as the cloud billed them. Only differences
/// that remain at the end count, because the meter may still be writing.
pub async fn machines_are_billed(postgres: &Postgres, lives: &[Life]) -> anyhow::Result<Bill> {
    let url = std::fs::read_to_string(postgres.meter_url_file()).context("failed to read the meter's URL")?;
    let agreed = wait::until("the ledger has the cloud's bill", WRITTEN_WITHIN, || async {
        let bill = Bill::read(&url).await?;
        let is_same = bill.open.is_empty() && compare_machines(lives, &bill, Timestamp::now()).is_empty();
        Ok(is_same.then_some(()))
    })
    .await;
    let bill = Bill::read(&url).await?;
    if let Err(error) = agreed {
        let wrong = compare_machines(lives, &bill, Timestamp::now());
        anyhow::bail!("{error:#}; open: {:?}; wrong: {wrong:#?}", bill.open);
    }
    ensure!(bill.problems == 0 && bill.amount == bill.daily_amount, "{bill:?}");
    Ok(bill)
}

/// Compares every machine that the cloud ever launched with its lines, closed and open until `moment`: the price is the one
/// paid, the time that of the cloud's own bill but for its two ends, no second is charged twice, and nothing else was bought.
fn compare_machines(lives: &[Life], bill: &Bill, moment: Timestamp) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut unknown: BTreeSet<&str> = bill.bought.keys().map(String::as_str).collect();
    let mut claims = BTreeSet::new();
    for life in lives {
        if !claims.insert(&life.claim_uid) {
            wrong.push(format!("the cloud bills a second machine for {}: {life:?}", life.claim));
        }
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
    if (seconds - paid).abs() > 2.0 * bounds::MACHINE_ENDS_APART.allowed_seconds() {
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
