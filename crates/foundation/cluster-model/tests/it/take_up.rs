//! Which holds of an earlier leader are taken up again.

use std::sync::Arc;

use cluster_model::plan::{
    Effect, EvictCause, EvictRequest, EvictionRule, HoldEnd, HoldRecord, VictimRecord,
};
use cluster_model::policy::{EvictionPolicy, Policy};
use cluster_model::{ClusterChange, ClusterState, GangKey, Node, Pod, PodKey};
use jiff::Timestamp;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn key(name: &str) -> PodKey {
    PodKey::new("ns", name, format!("uid-{name}"))
}

fn gang(name: &str) -> GangKey {
    GangKey::new("ns", name)
}

fn on(name: &str, of: &str, node: Option<&str>) -> Pod {
    Pod { node: node.map(Into::into), ..Pod::new(key(name), gang(of)) }
}

/// A cluster of two nodes, and these pods.
fn cluster(pods: &[Pod]) -> ClusterState {
    let nodes = ["one", "two"].map(|node| ClusterChange::Node(Node::new(node)));
    let mut state = ClusterState::default();
    for change in nodes.into_iter().chain(pods.iter().cloned().map(ClusterChange::Pod)) {
        state.apply(change);
    }
    state
}

fn record(members: &[(&str, &str)]) -> HoldRecord {
    HoldRecord {
        gang: gang("gang"),
        rule: Some(EvictionRule::Reclaim),
        members: members.iter().map(|(name, node)| (format!("uid-{name}").into(), (*node).into())).collect(),
        victims: Vec::new(),
        expires: at(100),
    }
}

/// What is held after a record was taken up; nothing if it was dropped.
fn held(pods: &[Pod], more: Vec<HoldRecord>, now: i64) -> Vec<String> {
    let mut state = cluster(pods);
    let both = record(&[("a", "one"), ("b", "two")]);
    let effects = state.take_up_holds([vec![both], more].concat(), &Policy::installed(), at(now));
    let mut found: Vec<String> = state
        .held_members(&gang("gang"))
        .map(|id| state.pod(id))
        .filter_map(|pod| Some(format!("{} on {}", pod.pod().key.name, state.node(pod.at()?).name())))
        .collect();
    found.sort();
    let is_written =
        effects.iter().any(|it| matches!(it, Effect::WriteHold(written) if written.gang == gang("gang")));
    let dropped = Effect::DeleteHold { gang: gang("gang"), end: HoldEnd::Dropped };
    assert_eq!((is_written, effects.contains(&dropped)), (!found.is_empty(), found.is_empty()));
    found
}

#[test]
fn what_is_left_of_a_hold_is_held_again_unless_it_makes_no_sense_any_more() {
    let [a, b] = ["a", "b"].map(|name| on(name, "gang", None));
    let there = [on("a", "gang", Some("one")), on("b", "gang", Some("two"))];
    let none: [&str; 0] = [];
    let both = ["a on one", "b on two"];
    assert_eq!(held(&[a.clone(), b.clone()], Vec::new(), 99), both);
    assert_eq!(held(&[a.clone(), b.clone()], Vec::new(), 100), none, "it has run out");
    assert_eq!(held(&[], Vec::new(), 0), none, "the gang is gone");
    assert_eq!(held(std::slice::from_ref(&a), Vec::new(), 0), none, "a member is gone");
    assert_eq!(held(&[there[0].clone(), b.clone()], Vec::new(), 0), ["b on two"], "the rest of it lands");
    assert_eq!(held(&there, Vec::new(), 0), none, "it has landed");
    let elsewhere = [on("a", "gang", Some("two")), b];
    assert_eq!(held(&elsewhere, Vec::new(), 0), none, "somebody put it elsewhere");
    let moved_for = HoldRecord {
        gang: gang("other"),
        rule: Some(EvictionRule::Consolidation),
        victims: vec![VictimRecord { gang: gang("gang"), pods: vec!["uid-a".into()] }],
        ..record(&[("c", "one")])
    };
    let pods = [elsewhere.as_slice(), &[on("c", "other", None)]].concat();
    assert_eq!(held(&pods, vec![moved_for], 0), both, "it moves");
}

/// Whether a victim is told again.
fn tells(rule: Option<EvictionRule>, policy: &Policy, victim: Pod) -> bool {
    let mut state = cluster(&[on("c", "gang", None), victim]);
    let victims = vec![VictimRecord { gang: gang("victim"), pods: vec!["uid-a".into()] }];
    let left = HoldRecord { rule, victims, ..record(&[("c", "one")]) };
    let effects = state.take_up_holds(vec![left], policy, at(0));
    let is_held = state.held_gangs().len() == 1;
    assert_eq!(is_held, effects.iter().any(|effect| matches!(effect, Effect::WriteHold(_))));
    let is_told = |effect: &Effect| {
        matches!(effect, Effect::Evict(it) if it.gang == gang("victim") && it.pods == [key("a")]
            && matches!(&it.cause, EvictCause::Claim { after, .. } if *after == [(gang("gang"), at(100))]))
    };
    assert_eq!(state.leaving_gangs().len() == 1, effects.iter().any(is_told));
    is_held
}

#[test]
fn no_victim_is_told_that_the_policy_or_its_own_word_protects_now() {
    use EvictionRule::{Consolidation, ExpectedWork, Priority, Reclaim};
    let victim = || on("a", "victim", Some("one"));
    let installed = Policy::installed();
    assert!(tells(Some(Reclaim), &installed, victim()));
    assert!(tells(Some(Consolidation), &installed, victim()));
    assert!(!tells(Some(ExpectedWork), &installed, victim()), "it is not installed");
    assert!(!tells(None, &installed, victim()), "no rule allows it");
    let eviction = EvictionPolicy { reclaim: false, ..installed.eviction };
    let changed = Policy { eviction, ..installed.clone() };
    assert!(!tells(Some(Reclaim), &changed, victim()), "it was switched off");
    assert!(tells(Some(Priority), &changed, victim()));
    let said_never = |name: &str| {
        let mut pod = on(name, "victim", Some("one"));
        Arc::make_mut(&mut pod.terms).eviction.never = true;
        tells(Some(Reclaim), &installed, pod)
    };
    assert!(!said_never("a"), "it says now that it is never evicted");
    assert!(said_never("b"), "its next life is not told");
}

/// What a new leader says to two gangs: "other" claims node one, from which "gang" moves to node two; `own` is
/// the hold of that move.
fn takes_up_a_move(own: HoldRecord) -> Vec<String> {
    let pods = [on("a", "gang", Some("one")), on("c", "other", None)];
    let victims = vec![VictimRecord { gang: gang("gang"), pods: vec!["uid-a".into()] }];
    let rule = Some(EvictionRule::Consolidation);
    let claim = HoldRecord { gang: gang("other"), rule, victims, ..record(&[("c", "one")]) };
    let mut state = cluster(&pods);
    let effects = state.take_up_holds(vec![claim, own], &Policy::installed(), at(0));
    assert_eq!(
        state.leaving_gangs().len(),
        effects.iter().filter(|it| matches!(it, Effect::Evict(_))).count()
    );
    let said = |effect: &Effect| match effect {
        Effect::WriteHold(record) => format!("hold for {}", record.gang.name),
        Effect::DeleteHold { gang, .. } => format!("no hold for {}", gang.name),
        Effect::Evict(EvictRequest { gang, cause: EvictCause::Claim { after, .. }, .. }) => {
            let after: Vec<&str> = after.iter().map(|(gang, _)| &*gang.name).collect();
            format!("{} leaves after {}", gang.name, after.join(", "))
        }
        other => format!("{other:?}"),
    };
    effects.iter().map(said).collect()
}

#[test]
fn a_gang_that_only_moves_is_told_once_its_own_nodes_are_held_too() {
    let own = HoldRecord { rule: None, ..record(&[("a", "two")]) };
    assert_eq!(
        takes_up_a_move(own.clone()),
        ["hold for other", "hold for gang", "gang leaves after other, gang"]
    );
    let gone = HoldRecord { members: vec![("uid-a".into(), "three".into())], ..own };
    assert_eq!(takes_up_a_move(gone), ["no hold for gang", "hold for other"], "it has nowhere to go");
}
