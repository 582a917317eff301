//! A ledger in memory, as the store keeps one: joined records, and for each account what was posted.

use std::collections::BTreeMap;

use costing::{
    Account, Amount, Day, Line, Moment, NodeRecord, PodRecord, Posting, PriceBook, Problem, Subject, fold,
    post,
};

use super::bill::{Bill, Money, Row, Used};
use super::compare::Findings;
use super::generate::{History, Observation};

/// Accounts and what they were made from.
pub struct Ledger {
    start: Moment,
    nodes: BTreeMap<String, NodeRecord>,
    pods: BTreeMap<String, PodRecord>,
    accounts: BTreeMap<Account, Book>,
}

#[derive(Default)]
struct Book {
    postings: Vec<Posting>,
    /// The net result of `postings`.
    net: Vec<Line>,
    open: Vec<Line>,
    problems: Vec<Problem>,
}

impl Ledger {
    pub fn new(history: &History) -> Self {
        let mut accounts = BTreeMap::new();
        for node in &history.nodes {
            // One day more on each side, where nothing may be.
            for day in history.start.day().0 - 1..=history.end.day().0 + 1 {
                accounts.insert(Account { node: node.name.clone(), day: Day(day) }, Book::default());
            }
        }
        Self { start: history.start, nodes: BTreeMap::new(), pods: BTreeMap::new(), accounts }
    }

    pub fn start(&self) -> Moment {
        self.start
    }

    pub fn observe(&mut self, observation: Observation) {
        match observation {
            Observation::Node(node) => {
                let known = self.nodes.remove(&node.uid);
                let joined = known.map_or_else(|| node.clone(), |known| known.join(node.clone()));
                self.nodes.insert(node.uid, joined);
            }
            Observation::Pod(pod) => {
                let known = self.pods.remove(&pod.uid);
                let joined = known.map_or_else(|| pod.clone(), |known| known.join(pod.clone()));
                self.pods.insert(pod.uid, joined);
            }
        }
    }

    /// Without a join.
    pub fn take_for_true(&mut self, observation: Observation) {
        match observation {
            Observation::Node(node) => drop(self.nodes.insert(node.uid.clone(), node)),
            Observation::Pod(pod) => drop(self.pods.insert(pod.uid.clone(), pod)),
        }
    }

    /// Brings every account up to date; a second time there must be nothing to do.
    pub fn post(&mut self, prices: &PriceBook, now: Moment, findings: &mut Findings) {
        for (account, book) in &mut self.accounts {
            let nodes: Vec<_> =
                self.nodes.values().filter(|node| node.name == account.node).cloned().collect();
            let pods: Vec<_> = self.pods.values().filter(|pod| pod.node == account.node).cloned().collect();
            let fold = fold(account, &nodes, &pods, prices, now);
            for posting in post(&book.net, &fold.closed) {
                book.add(posting, findings);
            }
            findings.expect(post(&book.net, &fold.closed).is_empty(), || "posted twice".to_owned());
            book.open = fold.open.into_iter().map(|open| open.line).collect();
            book.problems = fold.problems;
        }
    }

    /// Charged and not reversed, in order.
    pub fn net(&self) -> Vec<Line> {
        let mut lines: Vec<_> = self.accounts.values().flat_map(|book| book.net.iter().cloned()).collect();
        lines.sort_unstable();
        lines
    }

    pub fn open(&self) -> Vec<Line> {
        self.accounts.values().flat_map(|book| book.open.iter().cloned()).collect()
    }

    /// How many postings each account has.
    pub fn posted(&self) -> Vec<usize> {
        self.accounts.values().map(|book| book.postings.len()).collect()
    }

    /// The sum of what was posted since then; the magnitudes of accounts, so that two errors do not cancel.
    pub fn balance_since(&self, posted: &[usize]) -> Amount {
        let balance = |(book, before): (&Book, &usize)| {
            let signed = book.postings[*before..].iter().map(|posting| match posting {
                Posting::Charge(line) => line.amount().unwrap_or_default(),
                Posting::Reverse(line) => -line.amount().unwrap_or_default(),
            });
            Amount(signed.sum::<Amount>().0.abs())
        };
        self.accounts.values().zip(posted).map(balance).sum()
    }

    /// Lines and open lines of each account.
    pub fn lines(&self) -> impl Iterator<Item = (&Account, &[Line], &[Line])> {
        self.accounts.iter().map(|(account, book)| (account, book.net.as_slice(), book.open.as_slice()))
    }

    /// Everything, closed and open.
    pub fn bill(&self) -> Bill {
        let mut bill = Bill::default();
        let mut sums: BTreeMap<Row, (Used, Amount, Amount)> = BTreeMap::new();
        let mut nodes: BTreeMap<String, Amount> = BTreeMap::new();
        for (account, book) in &self.accounts {
            for line in book.net.iter().chain(&book.open) {
                *nodes.entry(line.node_uid.clone()).or_default() += line.amount().unwrap_or_default();
                let (used, money, saved) = sums.entry(row(account, line)).or_default();
                used.seconds += if line.subject == Subject::Idle { 0 } else { line.seconds() };
                used.gpu_seconds += line.gpu_seconds();
                if line.rate.is_none() {
                    used.unpriced.0 += line.gpu_seconds();
                    used.unpriced.1 += line.seconds();
                }
                *money += line.amount().unwrap_or_default();
                *saved += line.saved();
            }
            book.add_problems(account, &mut bill);
        }
        for (row, (mut used, money, saved)) in sums {
            (used.money, used.saved) = (fraction(money), fraction(saved));
            if !used.is_nothing() {
                bill.rows.insert(row, used);
            }
        }
        let costly = nodes.into_iter().filter(|(_, money)| money.0 != 0);
        bill.nodes = costly.map(|(uid, money)| (uid, fraction(money))).collect();
        bill
    }
}

impl Book {
    fn add(&mut self, posting: Posting, findings: &mut Findings) {
        match &posting {
            Posting::Charge(line) => self.net.push(line.clone()),
            Posting::Reverse(line) => {
                let charged = self.net.iter().position(|charged| charged == line);
                findings.expect(charged.is_some(), || format!("reversed without a charge: {line:?}"));
                charged.map(|index| self.net.swap_remove(index));
            }
        }
        self.postings.push(posting);
    }

    fn add_problems(&self, account: &Account, bill: &mut Bill) {
        for problem in &self.problems {
            match problem {
                Problem::Overcommitted { from, to } => {
                    let seconds = (from.0..to.0).map(|second| (account.node.clone(), second));
                    bill.overcommitted.extend(seconds);
                }
                Problem::OutsideNode { pod_uid } => {
                    bill.outside.insert((pod_uid.clone(), account.day));
                }
            }
        }
    }
}

fn row(account: &Account, line: &Line) -> Row {
    let pod_uid = match &line.subject {
        Subject::Pod(uid) => Some(uid.clone()),
        Subject::Idle => None,
    };
    Row {
        pod_uid,
        node_uid: line.node_uid.clone(),
        day: account.day,
        class: line.class,
        attribution: line.attribution.clone(),
    }
}

/// One unit is this part of the currency: spelled out here, not taken from the crate.
fn fraction(amount: Amount) -> Money {
    Money::fraction(amount.0, 1_000_000 * 3_600 * 2_882_880)
}
