//! Members are together or spread, as their gang asks.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::{Level, NodeName, Pod, Spread, TopologyTerms};

use crate::facts::{Domain, Facts, uses_gpus};
use crate::gangs::{Decision, is_in, takes};
use crate::violation::Violation;

type Placed<'a> = (&'a Pod, &'a NodeName);

pub(crate) fn members_lie_together<'a>(
    facts: &Facts<'a>,
    decision: &Decision<'a>,
    violations: &mut Vec<Violation>,
) {
    let Some(terms) = facts.terms(decision.gang) else { return };
    let mut judge = |part: &str, topology: &TopologyTerms, belongs: &dyn Fn(&Pod) -> bool| {
        let select = |pods: Vec<Placed<'a>>| -> Vec<Placed<'a>> {
            pods.into_iter().filter(|(pod, _)| belongs(pod)).collect()
        };
        let mut new = select(decision.pods(facts));
        let mut old = select(facts.running(decision.gang).filter(|_| !decision.moves).collect());
        let mut check = |part: String, new: &[Placed<'a>], old: &[Placed<'a>], level: Level| {
            if !in_one_domain(facts, new, old, level) {
                violations.push(Violation::NotTogether { gang: decision.gang.clone(), part });
            }
        };
        if let Some(level) = topology.required {
            check(part.to_owned(), &new, &old, level);
        }
        if let Some(segment) = topology.segment {
            let number = |pod: &Pod| pod.member_index.unwrap_or(0) / segment.members.max(1);
            let numbers: BTreeSet<u32> = new.iter().map(|(pod, _)| number(pod)).collect();
            new.sort_by_key(|(pod, _)| pod.member_index);
            old.sort_by_key(|(pod, _)| pod.member_index);
            for wanted in numbers {
                let of = |all: &[Placed<'a>]| -> Vec<Placed<'a>> {
                    all.iter().filter(|(pod, _)| number(pod) == wanted).copied().collect()
                };
                check(format!("segment {wanted} of {part}"), &of(&new), &of(&old), segment.level);
            }
        }
    };
    judge("the whole", &terms.topology, &|_| true);
    for (name, group) in &terms.groups {
        judge(&format!("group {name}"), &group.topology, &|pod| is_in(terms, pod, name));
    }
}

/// Whether new members are in one domain, that of the members that are there already. If those are in several,
/// perhaps because nodes have moved, it is too late to keep the rule.
fn in_one_domain<'a>(facts: &Facts<'a>, new: &[Placed<'a>], old: &[Placed<'a>], level: Level) -> bool {
    let domains = |placed: &[Placed<'a>]| -> BTreeSet<Option<Domain<'a>>> {
        placed.iter().map(|(_, node)| facts.domain(node, Some(level))).collect()
    };
    let (new, old) = (domains(new), domains(old));
    old.len() > 1
        || new.is_empty()
        || (new.len() == 1 && !new.contains(&None) && (old.is_empty() || old == new))
}

/// No domain in which the gang could have members has more than `skew_max` more than another.
pub(crate) fn members_are_spread<'a>(
    facts: &Facts<'a>,
    decision: &Decision<'a>,
    violations: &mut Vec<Violation>,
) {
    let Some(Spread { level, skew_max }) = facts.terms(decision.gang).and_then(|terms| terms.spread) else {
        return;
    };
    let members = decision.all_pods(facts);
    let Some((example, _)) = decision.pods(facts).first().copied() else { return };
    let gpu_type = members.iter().find(|(pod, _)| uses_gpus(pod)).and_then(|(_, at)| facts.gpu_type_of(at));
    let mut counts: BTreeMap<Domain<'a>, u32> = BTreeMap::new();
    for (name, node) in &facts.nodes {
        let type_would_do = gpu_type.is_none() || facts.gpu_type_of(name) == gpu_type;
        if takes(node, example)
            && type_would_do
            && let Some(domain) = facts.domain(name, level)
        {
            counts.entry(domain).or_default();
        }
    }
    for (_, node) in &members {
        if let Some(domain) = facts.domain(node, level) {
            *counts.entry(domain).or_default() += 1;
        }
    }
    let most = counts.values().copied().max().unwrap_or(0);
    let fewest = counts.values().copied().min().unwrap_or(0);
    if most - fewest > skew_max.max(1) {
        violations.push(Violation::Uneven { gang: decision.gang.clone(), most, fewest });
    }
}
