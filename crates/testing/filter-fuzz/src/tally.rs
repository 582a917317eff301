//! Counts the verdicts: a comparison in which a rule never decides proves nothing about it.

use std::collections::BTreeMap;
use std::fmt;

use crate::case::Judged;

/// The plugins that must decide, with the least share of all verdicts, in thousandths.
///
/// Not `NodeName`: a pod that names its node is bound, and never waits. Its rule is the one of `matchFields`. A gate
/// decides about every node at once, so it is kept rare.
const LEAST_PER_MILLE: [(&str, u64); 9] = [
    ("InterPodAffinity", 30),
    ("NodeAffinity", 50),
    ("NodeDeclaredFeatures", 5),
    ("NodePorts", 10),
    ("NodeResourcesFit", 50),
    ("NodeUnschedulable", 10),
    ("PodTopologySpread", 30),
    ("SchedulingGates", 3),
    ("TaintToleration", 20),
];
/// The least share of nodes that fit, in thousandths.
const LEAST_FIT_PER_MILLE: u64 = 200;
/// The most cases that the API server may refuse, in thousandths: they are wasted work.
const MOST_INVALID_PER_MILLE: u64 = 150;

/// Counts of verdicts.
#[derive(Debug, Default)]
pub struct Tally {
    /// Cases that were judged.
    pub cases: u64,
    /// Cases that were not judged, because the API server would not admit them.
    invalid: u64,
    /// How often for each reason, without names and numbers.
    invalid_why: BTreeMap<String, u64>,
    /// Cases in which some node fits and some does not.
    mixed: u64,
    fits: u64,
    refused: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts a case.
    pub fn add(&mut self, judged: &Judged) {
        self.cases += 1;
        let mut fits = 0;
        for verdict in judged.nodes.values() {
            if verdict.fits {
                fits += 1;
            } else {
                *self.refused.entry(verdict.plugin.clone()).or_default() += 1;
            }
        }
        self.fits += fits;
        self.mixed += u64::from(fits > 0 && fits < judged.nodes.len() as u64);
    }

    /// Counts a case that the API server would not admit.
    pub fn add_invalid(&mut self, why: &[String]) {
        self.invalid += 1;
        if let Some((_, why)) = why.first().and_then(|why| why.split_once(": ")) {
            let why: String = why.chars().filter(|letter| !letter.is_ascii_digit()).take(100).collect();
            *self.invalid_why.entry(why).or_default() += 1;
        }
    }

    /// The rules that decided too rarely to prove anything.
    pub fn too_rare(&self) -> Vec<String> {
        let verdicts = self.verdicts();
        let mut rare: Vec<String> = LEAST_PER_MILLE
            .iter()
            .filter(|(plugin, least)| {
                self.refused.get(*plugin).copied().unwrap_or(0) * 1_000 < least * verdicts
            })
            .map(|(plugin, least)| format!("{plugin} decides less than {least} in 1,000 verdicts"))
            .collect();
        if self.fits * 1_000 < LEAST_FIT_PER_MILLE * verdicts {
            rare.push(format!("less than {LEAST_FIT_PER_MILLE} in 1,000 nodes fit"));
        }
        if self.invalid * 1_000 > MOST_INVALID_PER_MILLE * (self.cases + self.invalid) {
            let most = self.invalid_why.iter().max_by_key(|(_, count)| **count);
            let most = most.map_or("", |(why, _)| why.as_str());
            rare.push(format!(
                "more than {MOST_INVALID_PER_MILLE} in 1,000 cases are not valid, mostly {most}"
            ));
        }
        rare
    }

    fn verdicts(&self) -> u64 {
        self.fits + self.refused.values().sum::<u64>()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdicts = self.verdicts();
        writeln!(
            f,
            "{} cases, {} of them with nodes that fit and nodes that do not",
            self.cases, self.mixed
        )?;
        writeln!(f, "{} more were not valid", self.invalid)?;
        writeln!(f, "{verdicts} verdicts, of which")?;
        let rows = [("(fits)", self.fits)].into_iter();
        for (name, count) in rows.chain(self.refused.iter().map(|(name, count)| (name.as_str(), *count))) {
            let per_mille = (count * 1_000).checked_div(verdicts).unwrap_or(0);
            writeln!(f, "{count:>9}  {:>3}.{} %  {name}", per_mille / 10, per_mille % 10)?;
        }
        Ok(())
    }
}
