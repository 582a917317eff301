//! What is wrong, in words.

use std::collections::BTreeMap;

use costing::{Day, Line, Moment, Subject};

use super::bill::{Bill, GoesOn, Money, Row, Used};
use super::ledger::Ledger;

/// What was found to be wrong.
#[derive(Default)]
pub struct Findings(Vec<String>);

impl Findings {
    pub fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.0.push(otherwise());
        }
    }

    pub fn into_vec(self) -> Vec<String> {
        self.0
    }
}

/// Row by row, and all of each node.
pub fn bills(is: &Bill, ought: &Bill, findings: &mut Findings) {
    if is == ought {
        return;
    }
    for key in is.rows.keys().chain(ought.rows.keys().filter(|key| !is.rows.contains_key(key))) {
        let (is, ought) = (is.rows.get(key), ought.rows.get(key));
        findings.expect(is == ought, || format!("{key:?}: is {is:?}, ought to be {ought:?}"));
    }
    let (is_nodes, ought_nodes) = (&is.nodes, &ought.nodes);
    findings.expect(is_nodes == ought_nodes, || format!("nodes: {is_nodes:?}, ought to be {ought_nodes:?}"));
    let same = is.overcommitted == ought.overcommitted;
    findings.expect(same, || format!("overcommitted: {:?}, not {:?}", is.overcommitted, ought.overcommitted));
    findings.expect(is.outside == ought.outside, || {
        format!("outside: {:?}, not {:?}", is.outside, ought.outside)
    });
}

type KeyOf = fn(&Row) -> String;

/// However rows are grouped, each group is equal, and all groups together are the same total.
pub fn groups(is: &Bill, ought: &Bill, findings: &mut Findings) {
    let groupings: [(&str, KeyOf); 8] = [
        ("pod", |row| row.pod_uid.clone().unwrap_or_default()),
        ("run", |row| format!("{:?} {:?}", row.attribution.run, row.attribution.attempt)),
        ("user", |row| row.attribution.user.clone().unwrap_or_default()),
        ("queue", |row| row.attribution.queue.clone().unwrap_or_default()),
        ("namespace", |row| row.attribution.namespace.clone().unwrap_or_default()),
        ("day", |row| row.day.0.to_string()),
        ("class", |row| format!("{:?}", row.class)),
        ("node", |row| row.node_uid.clone()),
    ];
    let total: Money = is.nodes.values().sum();
    for (name, of) in groupings {
        let (is, ought) = (grouped(is, of), grouped(ought, of));
        findings.expect(is == ought, || format!("by {name}: {is:?}, ought to be {ought:?}"));
        let sum: Money = is.values().map(|used| &used.money).sum();
        findings.expect(sum == total, || format!("by {name}: the total is {sum:?}, ought to be {total:?}"));
    }
}

fn grouped(bill: &Bill, of: KeyOf) -> BTreeMap<String, Used> {
    let mut groups: BTreeMap<String, Used> = BTreeMap::new();
    for (row, used) in &bill.rows {
        groups.entry(of(row)).or_default().add(used);
    }
    groups
}

/// Lines are where they may be, and of each pod and of each node's rest they follow one another without overlap;
/// a pod's on one node also without a gap. None could have been part of its neighbour. Open are those of today that reach `now`
/// and go on.
pub fn lines(ledger: &Ledger, now: Moment, goes_on: &GoesOn, findings: &mut Findings) {
    let mut by_subject: BTreeMap<(&Subject, Option<&str>), Vec<&Line>> = BTreeMap::new();
    for (account, closed, open) in ledger.lines() {
        for line in closed.iter().chain(open) {
            let within =
                account.day.start() <= line.from && line.from < line.to && line.to <= account.day.end();
            findings.expect(within && line.to <= now, || format!("not within its day and past: {line:?}"));
            let node = (line.subject == Subject::Idle).then_some(line.node_uid.as_str());
            by_subject.entry((&line.subject, node)).or_default().push(line);
        }
        let is_open = |line: &Line| {
            let pod = if let Subject::Pod(uid) = &line.subject { Some(uid.clone()) } else { None };
            let key = (pod, line.node_uid.clone());
            line.to == now && now < account.day.end() && goes_on.contains(&key)
        };
        for line in open {
            findings.expect(is_open(line), || format!("open, but it does not go on at {now:?}: {line:?}"));
        }
        for line in closed {
            findings.expect(!is_open(line), || format!("closed, but it goes on at {now:?}: {line:?}"));
        }
    }
    for ((subject, _), mut lines) in by_subject {
        lines.sort_unstable_by_key(|line| line.from);
        for pair in lines.windows(2) {
            let (one, next) = (pair[0], pair[1]);
            findings.expect(one.to <= next.from, || format!("overlap: {one:?}, {next:?}"));
            let same_node = one.node_uid == next.node_uid;
            let gap = one.to < next.from && *subject != Subject::Idle && same_node;
            findings.expect(!gap, || format!("gap: {one:?}, {next:?}"));
            let what = |line: &Line| (line.class, line.gpus, line.rate, line.saved_rate);
            let needless =
                what(one) == what(next) && one.to == next.from && same_node && day(one) == day(next);
            findings.expect(!needless, || format!("cut for nothing: {one:?}, {next:?}"));
        }
    }
}

fn day(line: &Line) -> Day {
    line.from.day()
}
