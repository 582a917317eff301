//! Which gangs are unwound, and when.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cluster_apply::EvictOutcome;
use cluster_model::plan::{Departure, Effect, EvictCause, EvictRequest, WaitReason, WaitingGang};
use cluster_model::{ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Resources};
use jiff::Timestamp;
use tokio::time::Instant;

use super::{OVERCOMMITTED_MAX, Unwinding, is_in_part};

const IN_PART_MAX: Duration = Duration::from_secs(45);

fn gang(name: &str) -> GangKey {
    GangKey::new("ns", name)
}

/// A member of a gang of two with four GPUs each, bound at that second if it has a node.
fn member(of: &str, index: u32, node: Option<(&str, i64)>) -> Pod {
    let name = format!("{of}-{index}");
    Pod {
        gang_size: Some(2),
        member_index: Some(index),
        requests: Resources { gpus: 4, pods: 1, ..Resources::default() },
        node: node.map(|(node, _)| node.into()),
        started: node.map(|(_, second)| Timestamp::from_second(second).expect("in range")),
        ..Pod::new(PodKey::new("ns", name.as_str(), format!("uid-{name}")), gang(of))
    }
}

fn node(gpus: i64) -> ClusterChange {
    ClusterChange::Node(Node {
        allocatable: Resources { gpus, pods: 10, ..Resources::default() },
        ..Node::new("node")
    })
}

fn cluster(gpus: i64, pods: &[Pod]) -> ClusterState {
    let mut state = ClusterState::default();
    state.apply(node(gpus));
    for pod in pods {
        state.apply(ClusterChange::Pod(pod.clone()));
    }
    state
}

fn waits(name: &str) -> WaitingGang {
    WaitingGang {
        gang: gang(name),
        run: None,
        first_pod: PodKey::new("ns", name, "uid"),
        reasons: vec![WaitReason::NotEnoughGpus {
            gpu_type: "H100".into(),
            members_asked: 1,
            gpus_each: 4,
            members_that_fit: 0,
            gpus_free: 0,
        }],
    }
}

/// The gangs that are unwound now, and with "not" those whose unwinding is called off.
fn names(
    unwinding: &mut Unwinding,
    state: &ClusterState,
    waiting: &[WaitingGang],
    now: Instant,
) -> Vec<String> {
    names_of(unwinding.update(state, waiting, &BTreeSet::new(), now))
}

fn names_of(effects: Vec<Effect>) -> Vec<String> {
    let name = |effect| match effect {
        Effect::Evict(request) => request.gang.name.to_string(),
        Effect::CallOff(gang) => format!("not {}", gang.name),
        other => panic!("not an unwinding: {other:?}"),
    };
    effects.into_iter().map(name).collect()
}

/// Whether each gang that is unwound stays if it has started.
fn unless_started(effects: &[Effect]) -> Vec<bool> {
    let unless_started = |effect: &Effect| match effect {
        Effect::Evict(EvictRequest { cause: EvictCause::Unwind { unless_started, .. }, .. }) => {
            *unless_started
        }
        other => panic!("not an unwinding: {other:?}"),
    };
    effects.iter().map(unless_started).collect()
}

#[test]
fn a_gang_in_part_is_unwound_when_nothing_gets_on_for_too_long_and_only_once() {
    let state = cluster(4, &[member("a", 0, Some(("node", 1))), member("a", 1, None)]);
    let waiting = [waits("a")];
    let start = Instant::now();
    let mut unwinding = Unwinding::new(IN_PART_MAX);
    assert!(names(&mut unwinding, &state, &waiting, start).is_empty());
    assert_eq!(unwinding.next(), Some(start + IN_PART_MAX));
    let almost = start + IN_PART_MAX - Duration::from_secs(1);
    assert!(names(&mut unwinding, &state, &waiting, almost).is_empty());
    assert_eq!(names(&mut unwinding, &state, &waiting, start + IN_PART_MAX), ["a"]);
    assert!(names(&mut unwinding, &state, &waiting, start + IN_PART_MAX * 2).is_empty(), "it was said once");
    assert_eq!(unwinding.next(), None);
}

#[test]
fn a_gang_whose_rest_is_placed_or_comes_anew_starts_the_clock_again() {
    let first = member("a", 0, Some(("node", 1)));
    let mut state = cluster(4, &[first, member("a", 1, None)]);
    let start = Instant::now();
    let mut unwinding = Unwinding::new(IN_PART_MAX);
    names(&mut unwinding, &state, &[waits("a")], start);
    assert!(names(&mut unwinding, &state, &[], start + IN_PART_MAX).is_empty(), "the plan placed the rest");
    names(&mut unwinding, &state, &[waits("a")], start + IN_PART_MAX);
    state.apply(ClusterChange::PodGone(PodKey::new("ns", "a-1", "uid-a-1")));
    assert!(names(&mut unwinding, &state, &[waits("a")], start + IN_PART_MAX * 3).is_empty(), "nobody waits");
}

#[test]
fn gangs_that_are_whole_or_wait_whole_are_left_alone() {
    let whole = [member("a", 0, Some(("node", 1))), member("a", 1, Some(("node", 1)))];
    let waiting = [member("b", 0, None), member("b", 1, None)];
    let state = cluster(8, &[whole, waiting].concat());
    let start = Instant::now();
    let mut unwinding = Unwinding::new(IN_PART_MAX);
    for seconds in [0, 100, 200] {
        let now = start + Duration::from_secs(seconds);
        assert!(names(&mut unwinding, &state, &[waits("b")], now).is_empty());
    }
}

#[test]
fn on_a_node_that_has_too_little_the_newest_goes_and_then_the_next_newest() {
    let pods = [
        member("a", 0, Some(("node", 1))),
        member("a", 1, Some(("node", 1))),
        member("b", 0, Some(("node", 2))),
        member("b", 1, Some(("node", 2))),
    ];
    let mut state = cluster(16, &pods);
    let start = Instant::now();
    let mut unwinding = Unwinding::new(IN_PART_MAX);
    assert!(names(&mut unwinding, &state, &[], start).is_empty());
    assert_eq!(unwinding.next(), None, "there is room for all");
    state.apply(node(8));
    assert!(names(&mut unwinding, &state, &[], start).is_empty(), "it may pass");
    let due = start + OVERCOMMITTED_MAX;
    assert_eq!(unwinding.next(), Some(due));
    let found = unwinding.update(&state, &[], &BTreeSet::new(), due);
    assert_eq!(unless_started(&found), [true]);
    assert_eq!(names_of(found), ["b"]);
    assert!(names(&mut unwinding, &state, &[], due).is_empty(), "it gets time to leave");
    let later = due + OVERCOMMITTED_MAX;
    assert!(names(&mut unwinding, &state, &[], later).is_empty(), "nobody knows yet whether it leaves");
    unwinding.ended(&gang("b"), EvictOutcome::Started, later);
    assert_eq!(names(&mut unwinding, &state, &[], later + OVERCOMMITTED_MAX), ["a"]);
}

#[test]
fn a_gang_whose_rest_cannot_be_bound_is_unwound_though_it_never_waits() {
    let names_with = |unwinding: &mut Unwinding, state: &ClusterState, failing: &[GangKey], now| {
        names_of(unwinding.update(state, &[], &failing.iter().cloned().collect(), now))
    };
    let mut state = cluster(8, &[member("a", 0, Some(("node", 1))), member("a", 1, None)]);
    let rest = PodKey::new("ns", "a-1", "uid-a-1");
    let start = Instant::now();
    let mut unwinding = Unwinding::new(IN_PART_MAX);
    for seconds in 0..45 {
        // Its bind fails, and it is placed again in the same turn.
        state.forget(&rest);
        state.assume(&rest, &"node".into()).expect("it waits");
        let now = start + Duration::from_secs(seconds);
        assert!(names_with(&mut unwinding, &state, &[gang("a")], now).is_empty());
        assert!(is_in_part(&state, state.gang(&gang("a")).expect("it is there")));
    }
    assert_eq!(names_with(&mut unwinding, &state, &[gang("a")], start + IN_PART_MAX), ["a"]);

    let mut slow = Unwinding::new(IN_PART_MAX);
    for seconds in [0, 100, 200] {
        let now = start + Duration::from_secs(seconds);
        assert!(
            names_with(&mut slow, &state, &[], now).is_empty(),
            "its binds are under way, and none failed"
        );
    }
}

#[test]
fn a_gang_whose_rest_is_about_to_be_planned_again_after_a_failed_bind_did_not_get_on() {
    let failing = BTreeSet::from([gang("a")]);
    let mut state = cluster(8, &[member("a", 0, Some(("node", 1))), member("a", 1, None)]);
    let rest = PodKey::new("ns", "a-1", "uid-a-1");
    state.assume(&rest, &"node".into()).expect("it waits");
    let start = Instant::now();
    let due = start + IN_PART_MAX;
    let mut unwinding = Unwinding::new(IN_PART_MAX);
    assert!(unwinding.update(&state, &[], &failing, start).is_empty());
    // It has no node again, and no plan was made since.
    state.forget(&rest);
    assert!(unwinding.update(&state, &[], &failing, start + IN_PART_MAX / 2).is_empty());
    let found = names_of(unwinding.update(&state, &[], &failing, due));
    assert_eq!(found, ["a"], "the clock did not start anew");
    assert!(unwinding.update(&state, &[], &failing, due).is_empty(), "nor is it called off");
}

#[test]
fn a_gang_of_which_one_more_is_seen_bound_gets_on() {
    let size = |pod: Pod| Pod { gang_size: Some(3), ..pod };
    let pods = [member("a", 0, Some(("node", 1))), member("a", 1, None), member("a", 2, None)].map(size);
    let mut state = cluster(8, &pods);
    let start = Instant::now();
    let mut unwinding = Unwinding::new(IN_PART_MAX);
    assert!(names(&mut unwinding, &state, &[waits("a")], start).is_empty());
    state.apply(ClusterChange::Pod(size(member("a", 1, Some(("node", 40))))));
    assert!(names(&mut unwinding, &state, &[waits("a")], start + IN_PART_MAX).is_empty());
    assert_eq!(names(&mut unwinding, &state, &[waits("a")], start + IN_PART_MAX * 2), ["a"]);
}

#[test]
fn members_that_run_are_left_alone_unless_room_is_all_that_is_missing() {
    let mut state = cluster(8, &[member("a", 0, Some(("node", 1))), member("a", 1, None)]);
    let mut gated = waits("a");
    gated.reasons.push(WaitReason::Gated { members: 1 });
    let start = Instant::now();
    let mut unwinding = Unwinding::new(IN_PART_MAX);
    for seconds in [0, 100, 200] {
        let now = start + Duration::from_secs(seconds);
        assert!(names(&mut unwinding, &state, &[gated.clone()], now).is_empty());
        assert_eq!(unwinding.next(), None, "there is nothing to look at again");
    }
    state.note_ended(&gang("a"), 1);
    for seconds in [300, 400] {
        let now = start + Duration::from_secs(seconds);
        assert!(names(&mut unwinding, &state, &[waits("a")], now).is_empty(), "all of it had started");
    }
}

#[test]
fn who_is_never_evicted_is_unwound_only_before_it_starts() {
    for never in [false, true] {
        let pods = [member("a", 0, Some(("node", 1))), member("a", 1, None)].map(|mut pod| {
            Arc::make_mut(&mut pod.terms).eviction.never = never;
            pod
        });
        let state = cluster(4, &pods);
        let start = Instant::now();
        let mut unwinding = Unwinding::new(IN_PART_MAX);
        assert!(names(&mut unwinding, &state, &[waits("a")], start).is_empty());
        let found = unwinding.update(&state, &[waits("a")], &BTreeSet::new(), start + IN_PART_MAX);
        assert_eq!(unless_started(&found), [never]);
    }
}

#[test]
fn an_unwinding_after_which_a_gang_is_still_in_part_is_tried_again_after_a_wait() {
    let state = cluster(4, &[member("a", 0, Some(("node", 1))), member("a", 1, None)]);
    let waiting = [waits("a")];
    let start = Instant::now();
    let due = start + IN_PART_MAX;
    // A member that was bound meanwhile was not told to leave.
    for outcome in [EvictOutcome::Refused, EvictOutcome::Leaves] {
        let mut unwinding = Unwinding::new(IN_PART_MAX);
        assert!(names(&mut unwinding, &state, &waiting, start).is_empty());
        assert_eq!(names(&mut unwinding, &state, &waiting, due), ["a"]);
        unwinding.ended(&gang("a"), outcome, due);
        assert_eq!(unwinding.next(), Some(due + IN_PART_MAX));
        assert!(names(&mut unwinding, &state, &waiting, due).is_empty(), "not at once");
        assert_eq!(names(&mut unwinding, &state, &waiting, due + IN_PART_MAX), ["a"]);
    }
}

#[test]
fn who_has_started_is_asked_again_unless_it_may_go_only_before() {
    for (never, expect) in [(true, None), (false, Some("a"))] {
        let pods = [member("a", 0, Some(("node", 1))), member("a", 1, None)].map(|mut pod| {
            Arc::make_mut(&mut pod.terms).eviction.never = never;
            pod
        });
        let (state, waiting) = (cluster(4, &pods), [waits("a")]);
        let start = Instant::now();
        let due = start + IN_PART_MAX;
        let mut unwinding = Unwinding::new(IN_PART_MAX);
        assert!(names(&mut unwinding, &state, &waiting, start).is_empty());
        assert_eq!(names(&mut unwinding, &state, &waiting, due), ["a"]);
        // For an overcommitted node, for example, a gang that has started does not go.
        unwinding.ended(&gang("a"), EvictOutcome::Started, due);
        assert_eq!(unwinding.next().is_some(), expect.is_some());
        let again = names(&mut unwinding, &state, &waiting, due + IN_PART_MAX * 2);
        assert_eq!(again.first().map(String::as_str), expect);
    }
}

#[test]
fn on_a_node_that_has_too_little_one_of_whom_nothing_is_heard_does_not_keep_the_others_for_ever() {
    let pods = ["a", "b"].map(|of| [0, 1].map(|index| member(of, index, Some(("node", 1)))));
    let state = cluster(8, pods.as_flattened());
    let start = Instant::now();
    let mut unwinding = Unwinding::new(IN_PART_MAX);
    let mut asked = Vec::new();
    for round in 0..=4 {
        asked.push(names(&mut unwinding, &state, &[], start + OVERCOMMITTED_MAX * round).concat());
    }
    assert_eq!(asked, ["", "b", "", "", "a"]);
}

#[test]
fn an_unwinding_is_called_off_when_the_gang_gets_on() {
    let size = |size: u32| move |pod: Pod| Pod { gang_size: Some(size), ..pod };
    let rest = member("a", 1, Some(("node", 2)));
    for (members, is_whole) in [(2, true), (3, false)] {
        let pods = [member("a", 0, Some(("node", 1))), member("a", 1, None)];
        let third = (!is_whole).then(|| member("a", 2, None));
        let pods: Vec<Pod> = pods.into_iter().chain(third).map(size(members)).collect();
        let mut state = cluster(8, &pods);
        let start = Instant::now();
        let due = start + IN_PART_MAX;
        let mut unwinding = Unwinding::new(IN_PART_MAX);
        assert!(names(&mut unwinding, &state, &[waits("a")], start).is_empty());
        assert_eq!(names(&mut unwinding, &state, &[waits("a")], due), ["a"]);
        assert!(names(&mut unwinding, &state, &[waits("a")], due).is_empty(), "it is as it was");
        state.apply(ClusterChange::Pod(size(members)(rest.clone())));
        let waiting: Vec<WaitingGang> = (!is_whole).then(|| waits("a")).into_iter().collect();
        let found = names(&mut unwinding, &state, &waiting, due);
        assert_eq!(found, ["not a"], "one more of {members} has its node");
        assert!(names(&mut unwinding, &state, &waiting, due).is_empty(), "once");
        // If that does not last, it is asked again.
        unwinding.ended(&gang("a"), EvictOutcome::Spared, due);
        if !is_whole {
            assert_eq!(names(&mut unwinding, &state, &waiting, due + IN_PART_MAX), ["a"]);
        }
    }
}

#[test]
fn an_unwinding_is_called_off_when_the_rest_of_the_gang_is_placed() {
    let mut state = cluster(8, &[member("a", 0, Some(("node", 1))), member("a", 1, None)]);
    let start = Instant::now();
    let mut unwinding = Unwinding::new(IN_PART_MAX);
    assert!(names(&mut unwinding, &state, &[waits("a")], start).is_empty());
    assert_eq!(names(&mut unwinding, &state, &[waits("a")], start + IN_PART_MAX), ["a"]);
    state.assume(&PodKey::new("ns", "a-1", "uid-a-1"), &"node".into()).expect("it waits");
    let found = names(&mut unwinding, &state, &[], start + IN_PART_MAX);
    assert_eq!(found, ["not a"], "what it has is not given back while the rest is bound");
}

#[test]
fn an_unwinding_is_called_off_when_its_node_has_enough_again() {
    let pods = [member("a", 0, Some(("node", 1))), member("a", 1, Some(("node", 1)))];
    let mut state = cluster(4, &pods);
    let start = Instant::now();
    let mut unwinding = Unwinding::new(IN_PART_MAX);
    assert!(names(&mut unwinding, &state, &[], start).is_empty());
    let due = start + OVERCOMMITTED_MAX;
    assert_eq!(names(&mut unwinding, &state, &[], due).len(), 1);
    assert!(names(&mut unwinding, &state, &[], due).is_empty(), "it is as it was");
    state.apply(node(8));
    assert_eq!(names(&mut unwinding, &state, &[], due), ["not a"]);
}

#[test]
fn on_a_node_that_has_too_little_who_leaves_already_is_not_chosen() {
    let pods = [
        member("a", 0, Some(("node", 1))),
        member("a", 1, Some(("node", 1))),
        member("b", 0, Some(("node", 2))),
        member("b", 1, Some(("node", 2))),
    ];
    let mut state = cluster(12, &pods);
    state.mark_leaving(&gang("b"), &Departure::For(gang("claimant")));
    let start = Instant::now();
    let mut unwinding = Unwinding::new(IN_PART_MAX);
    assert!(names(&mut unwinding, &state, &[], start).is_empty());
    assert_eq!(names(&mut unwinding, &state, &[], start + OVERCOMMITTED_MAX), ["a"]);
}
