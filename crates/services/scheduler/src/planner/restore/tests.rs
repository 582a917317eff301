//! What of a Hold is taken up again.

use std::sync::Arc;

use api_types::hold::{HeldMember, HoldSpec, HoldVictim};
use cluster_model::plan::Hold;
use cluster_model::{Change, ClusterState, GangKey, Node, Pod, PodKey};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use placement::{EvictionPolicy, Policy};

use super::{may_evict, still_good};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn key(name: &str) -> PodKey {
    PodKey::new("ns", name, format!("uid-{name}"))
}

fn gang() -> GangKey {
    GangKey::new("ns", "gang")
}

/// A cluster of two nodes, and members of the gang, each on its node if it has one.
fn cluster(members: &[(&str, Option<&str>)]) -> ClusterState {
    let mut state = ClusterState::default();
    for node in ["one", "two"] {
        state.apply(Change::Node(Node::new(node)));
    }
    for (name, node) in members {
        state.apply(Change::Pod(Pod { node: node.map(Into::into), ..Pod::new(key(name), gang()) }));
    }
    state
}

fn spec(members: &[(&str, &str)]) -> HoldSpec {
    let member =
        |(name, node): &(&str, &str)| HeldMember { uid: format!("uid-{name}"), node: (*node).to_owned() };
    HoldSpec {
        claimant: "gang".to_owned(),
        why: "Reclaim".to_owned(),
        members: members.iter().map(member).collect(),
        victims: Vec::new(),
        expires: Time(at(100)),
        epoch: 1,
    }
}

fn held(hold: Option<Hold>) -> Option<Vec<String>> {
    hold.map(|hold| hold.members.iter().map(|it| format!("{} on {}", it.pod.name, it.node)).collect())
}

#[test]
fn what_is_left_of_a_hold_is_held_again_unless_it_makes_no_sense_any_more() {
    let both = spec(&[("a", "one"), ("b", "two")]);
    let waiting = cluster(&[("a", None), ("b", None)]);
    let good = |state: &ClusterState, moved, now| held(still_good(state, &gang(), &both, moved, at(now)));
    assert_eq!(good(&waiting, false, 99), Some(vec!["a on one".to_owned(), "b on two".to_owned()]));
    assert_eq!(good(&waiting, false, 100), None, "it has run out");
    assert_eq!(good(&ClusterState::default(), false, 0), None, "the gang is no more");
    assert_eq!(good(&cluster(&[("a", None)]), false, 0), None, "a member is no more");
    let half = cluster(&[("a", Some("one")), ("b", None)]);
    assert_eq!(good(&half, false, 0), Some(vec!["b on two".to_owned()]), "the rest of it lands");
    assert_eq!(good(&cluster(&[("a", Some("one")), ("b", Some("two"))]), false, 0), None, "it has landed");
    let elsewhere = cluster(&[("a", Some("two")), ("b", None)]);
    assert_eq!(good(&elsewhere, false, 0), None, "somebody put it elsewhere");
    assert_eq!(
        good(&elsewhere, true, 0),
        Some(vec!["a on one".to_owned(), "b on two".to_owned()]),
        "it is moved"
    );
}

#[test]
fn nobody_is_told_to_go_whom_the_policy_or_its_own_word_protects_now() {
    let victim =
        HoldVictim { namespace: "ns".to_owned(), gang: "gang".to_owned(), uids: vec!["uid-a".to_owned()] };
    let for_whom = |why: &str| HoldSpec { why: why.to_owned(), victims: vec![victim.clone()], ..spec(&[]) };
    let state = cluster(&[("a", Some("one"))]);
    let installed = Policy::installed();
    assert!(may_evict(&state, &installed, &for_whom("Reclaim")));
    assert!(may_evict(&state, &installed, &for_whom("Consolidation")));
    assert!(!may_evict(&state, &installed, &for_whom("ExpectedWork")), "it is not installed");
    assert!(!may_evict(&state, &installed, &for_whom("Magic")), "nobody knows it");
    let eviction = EvictionPolicy { reclaim: false, ..installed.eviction };
    let changed = Policy { eviction, ..installed };
    assert!(!may_evict(&state, &changed, &for_whom("Reclaim")), "it was switched off");
    assert!(may_evict(&state, &changed, &for_whom("Priority")));
    assert!(may_evict(&state, &Policy::default(), &spec(&[])), "nobody is in its way");
    let said_never = |name: &str, terminating| {
        let mut state = cluster(&[]);
        let mut pod = Pod { node: Some("one".into()), terminating, ..Pod::new(key(name), gang()) };
        Arc::make_mut(&mut pod.terms).eviction.never = true;
        state.apply(Change::Pod(pod));
        may_evict(&state, &installed, &for_whom("Reclaim"))
    };
    assert!(!said_never("a", false), "it says now that it is never evicted");
    assert!(said_never("a", true), "it leaves already");
    assert!(said_never("b", false), "its next life is not told");
}
