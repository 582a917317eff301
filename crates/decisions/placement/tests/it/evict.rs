//! Which gangs give way for which: by priority, by reclaim; which lose least; what is held; and that none gives way
//! for nothing.

use std::sync::Arc;

use cluster_model::plan::{EvictionRule, WaitReason};
use cluster_model::policy::TierPairs;
use cluster_model::{
    Amounts, BankTerms, ClusterChange, ClusterState, EvictionTerms, GangKey, Pod, Queue, Reclaim, Terms, Tier,
};
use jiff::Timestamp;
use placement::{EvictionPolicy, Plan, Policy, plan};

use crate::build::{add, cluster, each, gang, node, placements, queue, waiting};

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

pub fn policy() -> Policy {
    let eviction = EvictionPolicy { by_priority: true, reclaim: true, ..EvictionPolicy::default() };
    Policy { eviction, ..Policy::default() }
}

/// Members that run on these nodes, one after the other, since a second.
pub fn running(pods: Vec<Pod>, nodes: &[&str], since: i64) -> Vec<Pod> {
    let nodes = nodes.iter().cycle();
    let on = |(mut pod, node): (Pod, &&str)| {
        pod.node = Some((*node).into());
        pod.started = Some(at(since));
        pod
    };
    pods.into_iter().zip(nodes).map(on).collect()
}

pub fn in_queue(pods: Vec<Pod>, name: &str) -> Vec<Pod> {
    each(pods, |pod| pod.queue = Some(name.into()))
}

pub fn with_priority(pods: Vec<Pod>, priority: i32) -> Vec<Pod> {
    each(pods, |pod| pod.priority = priority)
}

pub fn with_terms(pods: Vec<Pod>, terms: &Terms) -> Vec<Pod> {
    let terms = Arc::new(terms.clone());
    each(pods, |pod| pod.terms = terms.clone())
}

pub fn saving() -> Terms {
    Terms { eviction: EvictionTerms { never: false, checkpoints: true }, ..Terms::default() }
}

/// Plans at a second with victims allowed; the state must come out as it went in.
pub fn planned_at(state: &mut ClusterState, policy: &Policy, second: i64) -> Plan {
    state.advance(at(second));
    let before = state.dump();
    let plan = plan(state, policy, at(second));
    assert_eq!(state.dump(), before, "planning leaves the state alone");
    plan
}

/// `victim for claimant by rule, lost` for each eviction.
pub fn evictions(plan: &Plan) -> Vec<String> {
    let line = |it: &cluster_model::plan::Eviction| {
        format!("{} for {} by {:?}, lost {}", it.gang.name, it.claimant.name, it.why, it.lost_gpu_seconds)
    };
    plan.evictions.iter().map(line).collect()
}

/// `gang: pod@node …` for each hold.
pub fn holds(plan: &Plan) -> Vec<String> {
    let members = |hold: &cluster_model::plan::Hold| {
        let members = hold.members.iter().map(|member| format!("{}@{}", member.pod.name, member.node));
        members.collect::<Vec<_>>().join(" ")
    };
    plan.holds.iter().map(|hold| format!("{}: {}", hold.gang.name, members(hold))).collect()
}

/// The pods of a gang end.
pub fn gone(state: &mut ClusterState, name: &str) {
    let key = GangKey::new("team", name);
    let gang = state.gang(&key).expect("it is there");
    let pods: Vec<_> = gang.members().map(|id| state.pod(id).pod().key.clone()).collect();
    for pod in pods {
        state.apply(ClusterChange::PodGone(pod));
    }
}

fn reason_codes(plan: &Plan, gang: &str) -> Vec<&'static str> {
    let found = plan.waiting.iter().find(|waiting| &*waiting.gang.name == gang);
    found.into_iter().flat_map(|waiting| &waiting.reasons).map(WaitReason::code).collect()
}

/// Two teams that own 4 GPUs each of one node, and may use all 8 of them.
fn two_teams(change: impl Fn(&mut Queue)) -> ClusterState {
    let mut state = cluster([node("n", "H100", 8)]);
    for name in ["a", "b"] {
        let mut team = Queue {
            limit: Some(Amounts { gpus: [("H100".into(), 8)].into(), ..Amounts::default() }),
            ..queue(name, Some("org"), &[("H100", 4)])
        };
        change(&mut team);
        state.apply(ClusterChange::Queue(team));
    }
    state.apply(ClusterChange::Queue(queue("org", None, &[("H100", 8)])));
    state
}

#[test]
fn nobody_gives_way_by_default() {
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, running(gang("low", 1, 8), &["n"], 0));
    add(&mut state, with_priority(gang("high", 1, 8), 2000));
    let plan = planned_at(&mut state, &Policy::default(), 100);
    assert_eq!((evictions(&plan), holds(&plan)), (vec![], vec![]));
}

#[test]
fn a_gang_of_higher_priority_displaces_one_of_lower_priority_and_its_place_is_held() {
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, running(gang("low", 2, 4), &["n"], 40));
    add(&mut state, with_priority(gang("high", 1, 8), 1));
    let plan = planned_at(&mut state, &policy(), 100);
    assert_eq!(evictions(&plan), ["low for high by Priority, lost 480"]);
    assert_eq!(holds(&plan), ["high: high-0@n"]);
    assert_eq!(plan.holds[0].expires, at(100 + 600));
    assert_eq!(plan.look_again_at, Some(at(700)));
    assert!(reason_codes(&plan, "high").contains(&"AwaitsVictims"), "{:?}", waiting(&plan));
}

#[test]
fn a_hold_outlasts_the_grace_of_who_leaves_but_nobody_is_waited_for_for_ever() {
    let lasts = |graces: [u32; 2]| {
        let mut state = cluster([node("n", "H100", 8)]);
        for (name, grace_seconds) in ["one", "two"].into_iter().zip(graces) {
            let pods = running(gang(name, 1, 4), &["n"], 0);
            add(&mut state, each(pods, |pod| pod.grace_seconds = grace_seconds));
        }
        add(&mut state, with_priority(gang("high", 1, 8), 1));
        let plan = planned_at(&mut state, &policy(), 100);
        assert_eq!(plan.evictions.len(), 2);
        plan.holds[0].expires.as_second() - 100
    };
    assert_eq!(lasts([30, 30]), 600);
    assert_eq!(lasts([900, 30]), 960);
    assert_eq!(lasts([30, u32::MAX]), 3660);
}

#[test]
fn equal_priority_displaces_nobody() {
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, running(gang("one", 1, 8), &["n"], 0));
    add(&mut state, gang("other", 1, 8));
    assert_eq!(evictions(&planned_at(&mut state, &policy(), 100)), [""; 0]);
}

#[test]
fn who_preempts_nobody_displaces_nobody_by_priority_but_takes_back_what_is_its_own() {
    let patient = |pods: Vec<Pod>| each(with_priority(pods, 5000), |pod| pod.preempts = false);
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, running(gang("low", 1, 8), &["n"], 0));
    // The same but for that: what holds for the one does not hold for the other.
    add(&mut state, patient(gang("a-patient", 1, 8)));
    assert_eq!(evictions(&planned_at(&mut state, &policy(), 100)), [""; 0]);
    add(&mut state, with_priority(gang("b-pushing", 1, 8), 5000));
    for explain in [true, false] {
        let plan = planned_at(&mut state, &Policy { explain, ..policy() }, 100);
        assert_eq!(evictions(&plan), ["low for b-pushing by Priority, lost 800"]);
    }

    let mut state = two_teams(|_| {});
    add(&mut state, running(in_queue(gang("keeps", 1, 4), "b"), &["n"], 0));
    add(&mut state, running(in_queue(gang("borrows", 1, 4), "b"), &["n"], 50));
    add(&mut state, patient(in_queue(gang("owns", 1, 4), "a")));
    let plan = planned_at(&mut state, &policy(), 300);
    assert_eq!(evictions(&plan), ["borrows for owns by Reclaim, lost 1000"]);
}

#[test]
fn priority_within_a_tier_counts_in_ones_own_queue_only() {
    for (queue_of_victim, priority, expected) in [("nlp", 1, 1), ("other", 1, 0), ("other", 1000, 1)] {
        let mut state = cluster([node("n", "H100", 8)]);
        state.apply(ClusterChange::Queue(queue("other", None, &[])));
        add(&mut state, running(in_queue(gang("low", 1, 8), queue_of_victim), &["n"], 0));
        add(&mut state, with_priority(gang("high", 1, 8), priority));
        let plan = planned_at(&mut state, &policy(), 100);
        assert_eq!(plan.evictions.len(), expected, "{queue_of_victim} {priority}");
    }
}

#[test]
fn by_priority_no_gang_takes_what_another_queue_owns() {
    let evicted = |gpus: i64, takes_quota: TierPairs, tier: i32| {
        let mut state = two_teams(|_| {});
        add(&mut state, running(in_queue(gang("owned", 1, 4), "b"), &["n"], 0));
        add(&mut state, running(in_queue(gang("borrowed", 1, 4), "b"), &["n"], 50));
        add(&mut state, with_priority(in_queue(gang("high", 1, gpus), "a"), tier));
        let eviction = EvictionPolicy { reclaim: false, takes_quota, ..policy().eviction };
        let plan = planned_at(&mut state, &Policy { eviction, ..policy() }, 100);
        plan.evictions.iter().map(|it| it.gang.name.to_string()).collect::<Vec<_>>()
    };
    let none = TierPairs::default();
    assert_eq!(evicted(4, none, 4000), ["borrowed"]);
    assert_eq!(evicted(8, none, 4000), [""; 0], "half of it is what the queue owns");
    let pairs = none.with(Tier::of(4000), Tier::of(0));
    assert_eq!(evicted(8, pairs, 4000), ["borrowed", "owned"], "the admin lets production take quota");
    assert_eq!(evicted(8, pairs, 3000), [""; 0], "of other tiers nothing was said");
}

#[test]
fn a_gang_above_the_highest_tier_of_its_queue_or_one_above_it_does_not_start() {
    for (of_queue, of_parent, starts) in
        [(None, None, true), (Some(2000), None, false), (None, Some(2000), false), (Some(4000), None, true)]
    {
        let mut state = cluster([node("n", "H100", 8)]);
        let highest = |tier: Option<i32>| tier.map(Tier::of);
        let parent = Queue { highest_tier: highest(of_parent), ..queue("org", None, &[]) };
        let own = Queue { highest_tier: highest(of_queue), ..queue("team", Some("org"), &[]) };
        state.apply(ClusterChange::Queue(parent));
        state.apply(ClusterChange::Queue(own));
        add(&mut state, with_priority(in_queue(gang("high", 1, 8), "team"), 4999));
        let plan = planned_at(&mut state, &policy(), 100);
        assert_eq!(plan.placements.len(), usize::from(starts), "{of_queue:?} {of_parent:?}");
        assert_eq!(reason_codes(&plan, "high"), if starts { vec![] } else { vec!["PriorityTooHigh"] });
    }
}

#[test]
fn who_must_stay_stays() {
    let mut state = cluster([node("n", "H100", 8)]);
    let never = Terms { eviction: EvictionTerms { never: true, checkpoints: true }, ..Terms::default() };
    add(&mut state, running(with_terms(gang("low", 1, 8), &never), &["n"], 0));
    add(&mut state, with_priority(gang("high", 1, 8), 5000));
    let plan = planned_at(&mut state, &policy(), 100);
    assert_eq!(evictions(&plan), [""; 0]);
}

#[test]
fn those_give_way_who_lose_least() {
    let mut state = cluster([node("n1", "H100", 8), node("n2", "H100", 8), node("n3", "H100", 8)]);
    add(&mut state, running(gang("long", 1, 8), &["n1"], 0));
    let mut saved = running(with_terms(gang("saved", 1, 8), &saving()), &["n2"], 0);
    saved[0].checkpointed = Some(at(95));
    add(&mut state, saved);
    add(&mut state, running(gang("young", 1, 8), &["n3"], 90));
    add(&mut state, with_priority(gang("high", 1, 8), 1));
    let plan = planned_at(&mut state, &policy(), 100);
    assert_eq!(evictions(&plan), ["saved for high by Priority, lost 40"]);
}

#[test]
fn a_checkpoint_that_one_member_names_is_that_of_the_gang() {
    let mut state = cluster([node("n1", "H100", 8), node("n2", "H100", 8), node("n3", "H100", 8)]);
    let mut saved = running(with_terms(gang("saved", 2, 8), &saving()), &["n1", "n2"], 0);
    saved[1].checkpointed = Some(at(95));
    add(&mut state, saved);
    add(&mut state, running(gang("young", 1, 8), &["n3"], 80));
    add(&mut state, with_priority(gang("high", 1, 8), 1));
    let plan = planned_at(&mut state, &policy(), 100);
    assert_eq!(evictions(&plan), ["saved for high by Priority, lost 80"]);
}

#[test]
fn a_checkpoint_counts_only_for_who_says_that_it_saves_its_state() {
    let mut state = cluster([node("n1", "H100", 8), node("n2", "H100", 8)]);
    let mut claims = running(gang("claims", 1, 8), &["n1"], 0);
    claims[0].checkpointed = Some(at(99));
    add(&mut state, claims);
    add(&mut state, running(gang("young", 1, 8), &["n2"], 50));
    add(&mut state, with_priority(gang("high", 1, 8), 1));
    assert_eq!(evictions(&planned_at(&mut state, &policy(), 100)), ["young for high by Priority, lost 400"]);
}

#[test]
fn a_gang_gives_way_whole_and_what_the_claimant_leaves_over_is_held_for_the_next() {
    let mut state = cluster([node("n1", "H100", 8), node("n2", "H100", 8)]);
    add(&mut state, running(gang("low", 2, 8), &["n1", "n2"], 0));
    add(&mut state, with_priority(gang("high", 1, 8), 1));
    add(&mut state, with_priority(gang("next", 1, 8), 0));
    let plan = planned_at(&mut state, &policy(), 100);
    assert_eq!(evictions(&plan), ["low for high by Priority, lost 1600"]);
    // It fits where nobody has left yet: that is not a start.
    assert_eq!(placements(&plan), [""; 0]);
    assert_eq!(holds(&plan), ["high: high-0@n1", "next: next-0@n2"]);
}

#[test]
fn nobody_gives_way_for_a_gang_that_would_not_fit_even_then() {
    let mut state = cluster([node("n1", "H100", 8), node("n2", "H100", 8)]);
    add(&mut state, running(gang("low", 1, 8), &["n1"], 0));
    let never = Terms { eviction: EvictionTerms { never: true, checkpoints: false }, ..Terms::default() };
    add(&mut state, running(with_terms(gang("stays", 1, 8), &never), &["n2"], 0));
    add(&mut state, with_priority(gang("high", 2, 8), 1));
    let plan = planned_at(&mut state, &policy(), 100);
    assert_eq!((evictions(&plan), holds(&plan)), (vec![], vec![]));
}

#[test]
fn only_as_many_give_way_as_are_needed() {
    let mut state = cluster([node("n1", "H100", 8), node("n2", "H100", 8)]);
    for (name, node, since) in
        [("a", "n1", 10), ("b", "n1", 20), ("c", "n1", 30), ("d", "n1", 40), ("e", "n2", 50), ("f", "n2", 60)]
    {
        add(&mut state, running(gang(name, 1, 2), &[node], since));
    }
    // Four are free on n2 and none on n1.
    add(&mut state, with_priority(gang("high", 1, 6), 1));
    let plan = planned_at(&mut state, &policy(), 100);
    assert_eq!(evictions(&plan), ["f for high by Priority, lost 80"]);
    assert_eq!(holds(&plan), ["high: high-0@n2"]);
}

#[test]
fn a_held_gang_lands_when_its_victims_are_gone_and_nobody_else_gets_its_place() {
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, running(gang("low", 1, 8), &["n"], 0));
    add(&mut state, with_priority(gang("high", 1, 8), 1));
    let first = planned_at(&mut state, &policy(), 100);
    state.commit(&first).whole().unwrap();
    // A more urgent gang comes meanwhile: what is held is not for it, and gangs that leave do so once.
    add(&mut state, with_priority(gang("urgent", 1, 8), 2));

    let second = planned_at(&mut state, &policy(), 110);
    assert_eq!((evictions(&second), holds(&second), placements(&second)), (vec![], vec![], vec![]));
    assert_eq!(reason_codes(&second, "high"), ["AwaitsVictims"]);

    gone(&mut state, "low");
    let third = planned_at(&mut state, &policy(), 120);
    assert_eq!(placements(&third), ["high: high-0@n"]);
    assert_eq!(evictions(&third), [""; 0], "who starts in a plan does not give way in it");
}

/// A full node, from which two gangs are told to leave: one for `high-1` of four GPUs, one for this many members of
/// `high-2`, of four GPUs each.
fn two_claims(members: u32) -> (ClusterState, Plan) {
    let gpus = 4 * i64::from(members);
    let mut state = cluster([node("n", "H100", 4 + gpus)]);
    add(&mut state, running(gang("low-1", 1, 4), &["n"], 0));
    add(&mut state, running(gang("low-2", 1, gpus), &["n"], 0));
    add(&mut state, with_priority(gang("high-1", 1, 4), 1));
    add(&mut state, with_priority(gang("high-2", members, 4), 1));
    let first = planned_at(&mut state, &policy(), 100);
    assert_eq!(first.evictions.len(), 2);
    state.commit(&first).whole().expect("it was made from this state");
    (state, first)
}

#[test]
fn each_claimant_lands_as_soon_as_there_is_room_for_it() {
    let (mut state, _) = two_claims(1);
    gone(&mut state, "low-2");
    let second = planned_at(&mut state, &policy(), 110);
    assert_eq!(placements(&second), ["high-1: high-1-0@n"]);
    assert_eq!(reason_codes(&second, "high-2"), ["AwaitsVictims"]);
}

#[test]
fn who_finds_its_room_taken_by_another_claimant_whose_victim_was_spared_claims_that_one() {
    let (mut state, first) = two_claims(1);
    let victim_of = |claimant: &str| {
        let mut found = first.evictions.iter().filter(|it| &*it.claimant.name == claimant);
        found.next().expect("each has one").gang.name.to_string()
    };
    let (spared, left) = (victim_of("high-1"), victim_of("high-2"));
    gone(&mut state, &left);
    let second = planned_at(&mut state, &policy(), 110);
    assert_eq!(placements(&second), ["high-1: high-1-0@n"], "there is room for one, and it is the first");
    state.commit(&second).whole().unwrap();
    // While it is told to go, the other waits for it.
    let third = planned_at(&mut state, &policy(), 120);
    assert_eq!((evictions(&third), holds(&third)), (vec![], vec![]));
    assert_eq!(reason_codes(&third, "high-2"), ["AwaitsVictims"]);
    // The hold that it was to leave for has served before it was told.
    state.spare(&GangKey::new("team", &*spared));
    let fourth = planned_at(&mut state, &policy(), 130);
    assert_eq!(evictions(&fourth), [format!("{spared} for high-2 by Priority, lost 520")]);
    assert_eq!(holds(&fourth), ["high-2: high-2-0@n"]);
    assert_eq!(fourth.released, [GangKey::new("team", "high-2")]);
    state.commit(&fourth).whole().unwrap();
    gone(&mut state, &spared);
    let fifth = planned_at(&mut state, &policy(), 140);
    assert_eq!(placements(&fifth), ["high-2: high-2-0@n"]);
}

#[test]
fn a_gang_that_loses_the_room_of_one_of_two_members_on_a_node_claims_anew() {
    let (mut state, _) = two_claims(2);
    gone(&mut state, "low-2");
    let second = planned_at(&mut state, &policy(), 110);
    assert_eq!(placements(&second), ["high-1: high-1-0@n"]);
    state.commit(&second).whole().unwrap();
    state.spare(&GangKey::new("team", "low-1"));
    let third = planned_at(&mut state, &policy(), 120);
    assert_eq!(evictions(&third), ["low-1 for high-2 by Priority, lost 480"]);
    assert_eq!(holds(&third), ["high-2: high-2-0@n high-2-1@n"]);
}

/// A gang of one pod has a hold on a node where others use `others` GPUs; its victim is gone.
fn held_beside(others: i64) -> ClusterState {
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, running(gang("low", 1, 8 - others), &["n"], 50));
    if others > 0 {
        add(&mut state, running(gang("other", 1, others), &["n"], 0));
    }
    add(&mut state, with_priority(gang("high", 1, 8 - others), 1));
    let first = planned_at(&mut state, &policy(), 100);
    assert_eq!(first.evictions.iter().map(|it| &*it.gang.name).collect::<Vec<_>>(), ["low"]);
    state.commit(&first).whole().expect("it was made from this state");
    gone(&mut state, "low");
    state
}

#[test]
fn a_place_stays_held_on_a_node_whose_gpus_vanish_for_a_while() {
    for others in [0, 4] {
        let mut state = held_beside(others);
        // Elsewhere a gang could be made to leave.
        state.apply(ClusterChange::Node(node("m", "H100", 8)));
        add(&mut state, running(gang("elsewhere", 1, 8), &["m"], 90));
        state.apply(ClusterChange::Node(node("n", "H100", 0)));
        let second = planned_at(&mut state, &policy(), 110);
        assert_eq!((evictions(&second), holds(&second), placements(&second)), (vec![], vec![], vec![]));
        assert_eq!(reason_codes(&second, "high"), ["AwaitsVictims"]);
        state.commit(&second).whole().unwrap();
        state.apply(ClusterChange::Node(node("n", "H100", 8)));
        let third = planned_at(&mut state, &policy(), 120);
        assert_eq!(placements(&third), ["high: high-0@n"]);
    }
}

#[test]
fn a_place_stays_held_while_somebody_who_is_in_the_way_is_being_deleted() {
    let mut state = held_beside(4);
    let mut late = running(gang("late", 1, 4), &["n"], 105);
    late[0].terminating = true;
    add(&mut state, late);
    let second = planned_at(&mut state, &policy(), 110);
    assert_eq!((evictions(&second), holds(&second), placements(&second)), (vec![], vec![], vec![]));
    assert_eq!(second.released, []);
    gone(&mut state, "late");
    let third = planned_at(&mut state, &policy(), 120);
    assert_eq!(placements(&third), ["high: high-0@n"]);
}

#[test]
fn a_hold_that_ran_out_is_given_up_and_its_victims_are_not_evicted_again() {
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, running(gang("low", 1, 8), &["n"], 0));
    add(&mut state, with_priority(gang("high", 1, 8), 1));
    let first = planned_at(&mut state, &policy(), 100);
    state.commit(&first).whole().unwrap();
    let second = planned_at(&mut state, &policy(), 700);
    assert_eq!((evictions(&second), holds(&second), placements(&second)), (vec![], vec![], vec![]));
    state.commit(&second).whole().unwrap();
    assert_eq!(state.held_gangs().len(), 0);
    // Once they are gone after all, it is like any other gang.
    gone(&mut state, "low");
    let third = planned_at(&mut state, &policy(), 800);
    assert_eq!(placements(&third), ["high: high-0@n"]);
}

#[test]
fn who_leaves_too_slowly_is_not_counted_on_any_more() {
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, running(gang("low", 1, 4), &["n"], 50));
    add(&mut state, running(gang("other", 1, 4), &["n"], 0));
    add(&mut state, with_priority(gang("high", 1, 4), 1));
    let first = planned_at(&mut state, &policy(), 100);
    assert_eq!(evictions(&first), ["low for high by Priority, lost 200"]);
    state.commit(&first).whole().unwrap();
    state.release(&GangKey::new("team", "high"));
    let second = planned_at(&mut state, &policy(), 700);
    assert_eq!(evictions(&second), ["other for high by Priority, lost 2800"], "low is still there");
    assert_eq!(holds(&second), ["high: high-0@n"]);
}

#[test]
fn a_gang_that_gave_way_is_not_displaced_by_the_same_claimant_again() {
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, running(gang("low", 1, 8), &["n"], 0));
    add(&mut state, with_priority(gang("high", 1, 8), 1));
    let first = planned_at(&mut state, &policy(), 100);
    state.commit(&first).whole().unwrap();
    gone(&mut state, "low");
    state.release(&GangKey::new("team", "high"));
    add(&mut state, running(gang("low", 1, 8), &["n"], 800));
    let second = planned_at(&mut state, &policy(), 900);
    assert_eq!(evictions(&second), [""; 0]);
    assert!(!reason_codes(&second, "high").is_empty());
}

#[test]
fn a_queue_takes_back_its_quota_after_the_grace() {
    let mut state = two_teams(|_| ());
    add(&mut state, running(in_queue(gang("borrows", 1, 4), "b"), &["n"], 0));
    add(&mut state, running(in_queue(gang("owns", 1, 4), "b"), &["n"], 50));
    let claimant = each(in_queue(gang("claims", 1, 4), "a"), |pod| pod.created = at(100));
    add(&mut state, claimant);

    let early = planned_at(&mut state, &policy(), 200);
    assert_eq!(evictions(&early), [""; 0]);
    assert!(reason_codes(&early, "claims").contains(&"ReclaimsAt"), "{:?}", waiting(&early));
    assert_eq!(early.look_again_at, Some(at(400)));

    let late = planned_at(&mut state, &policy(), 400);
    assert_eq!(evictions(&late), ["owns for claims by Reclaim, lost 1400"]);
    assert_eq!(holds(&late), ["claims: claims-0@n"]);
}

#[test]
fn nothing_is_taken_back_by_who_would_hold_more_than_it_owns() {
    let mut state = two_teams(|_| ());
    add(&mut state, running(in_queue(gang("b", 2, 4), "b"), &["n"], 0));
    add(&mut state, in_queue(gang("claims", 1, 5), "a"));
    assert_eq!(evictions(&planned_at(&mut state, &policy(), 1000)), [""; 0]);
}

#[test]
fn a_queue_never_falls_below_what_it_owns_by_a_reclaim() {
    let mut state = two_teams(|_| ());
    // Six held, four owned: to take back two, a gang must hold two, and there is none.
    add(&mut state, running(in_queue(gang("b-1", 1, 3), "b"), &["n"], 0));
    add(&mut state, running(in_queue(gang("b-2", 1, 3), "b"), &["n"], 0));
    add(&mut state, in_queue(gang("claims", 1, 4), "a"));
    assert_eq!(evictions(&planned_at(&mut state, &policy(), 1000)), [""; 0]);
}

#[test]
fn several_claimants_of_one_plan_do_not_take_more_than_was_borrowed() {
    let mut state = two_teams(|_| ());
    for index in 0..8 {
        add(&mut state, running(in_queue(gang(&format!("b-{index}"), 1, 1), "b"), &["n"], index));
    }
    for index in 0..6 {
        add(&mut state, in_queue(gang(&format!("a-{index}"), 1, 1), "a"));
    }
    let plan = planned_at(&mut state, &policy(), 1000);
    assert_eq!(plan.evictions.len(), 4);
    assert!(plan.evictions.iter().all(|it| it.why == EvictionRule::Reclaim));
    // The youngest lose least.
    let victims: Vec<_> = plan.evictions.iter().map(|it| it.gang.name.to_string()).collect();
    assert_eq!(victims, ["b-7", "b-6", "b-5", "b-4"]);
}

#[test]
fn who_has_not_run_for_the_protected_time_is_left_alone() {
    let mut state = two_teams(|team| {
        team.reclaim = Reclaim { grace_seconds: 0, min_run_seconds: 600 };
    });
    add(&mut state, running(in_queue(gang("old", 1, 4), "b"), &["n"], 0));
    add(&mut state, running(in_queue(gang("young", 1, 4), "b"), &["n"], 500));
    add(&mut state, in_queue(gang("claims", 1, 4), "a"));
    let plan = planned_at(&mut state, &policy(), 1000);
    assert_eq!(evictions(&plan), ["old for claims by Reclaim, lost 4000"]);
}

#[test]
fn with_credit_in_its_bank_a_queue_borrows_nothing() {
    let bank = BankTerms { earn_millis: 1000, cap_gpu_seconds: 1_000_000 };
    let mut state = two_teams(|team| team.bank = (&*team.name.to_string() == "b").then_some(bank));
    // Nothing was used for an hour: credit for another one.
    state.advance(at(3600));
    add(&mut state, running(in_queue(gang("b-1", 1, 4), "b"), &["n"], 3600));
    add(&mut state, running(in_queue(gang("b-2", 1, 4), "b"), &["n"], 3600));
    add(&mut state, in_queue(gang("claims", 1, 4), "a"));
    assert_eq!(planned_at(&mut state, &policy(), 3700).evictions.len(), 0);
    assert_eq!(planned_at(&mut state, &policy(), 7300).evictions.len(), 1);
}

#[test]
fn nobody_of_a_higher_tier_is_reclaimed() {
    let mut state = two_teams(|_| ());
    let borrows = with_priority(in_queue(gang("borrows", 2, 4), "b"), 4000);
    add(&mut state, running(borrows, &["n"], 0));
    add(&mut state, with_priority(in_queue(gang("claims", 1, 4), "a"), 2000));
    assert_eq!(evictions(&planned_at(&mut state, &policy(), 1000)), [""; 0]);
}

#[test]
fn a_full_queue_is_helped_by_those_below_it_even_if_nodes_are_free() {
    let mut state = cluster([node("n1", "H100", 8), node("n2", "H100", 8)]);
    state.apply(ClusterChange::Queue(queue("nlp", None, &[("H100", 8)])));
    add(&mut state, running(gang("low-1", 1, 4), &["n1"], 0));
    add(&mut state, running(gang("low-2", 1, 4), &["n1"], 50));
    add(&mut state, with_priority(gang("high", 1, 4), 1));
    let plan = planned_at(&mut state, &policy(), 100);
    assert_eq!(evictions(&plan), ["low-2 for high by Priority, lost 200"]);
}

#[test]
fn a_search_that_runs_out_of_its_bound_says_so() {
    let mut state = cluster((0..9).map(|index| node(&format!("n{index}"), "H100", 8)));
    for index in 0..9 {
        let name = format!("low-{index}");
        add(&mut state, running(gang(&name, 1, 8), &[&format!("n{index}")], 0));
    }
    add(&mut state, with_priority(gang("high", 9, 8), 1));
    let mut policy = policy();
    policy.eviction.candidates_max = 4;
    let plan = planned_at(&mut state, &policy, 100);
    assert_eq!(evictions(&plan), [""; 0]);
    assert!(reason_codes(&plan, "high").contains(&"GaveUp"), "{:?}", waiting(&plan));
    policy.eviction.candidates_max = 1000;
    assert_eq!(planned_at(&mut state, &policy, 100).evictions.len(), 9);
}

#[test]
fn a_gang_that_must_lie_in_one_rack_clears_the_rack_that_loses_least() {
    let nodes = (0..6).map(|index| {
        let mut node = node(&format!("n{index}"), "H100", 8);
        node.topology = vec![format!("rack-{}", index / 2).as_str().into()];
        node
    });
    let mut state = cluster(nodes);
    for (index, since) in [90, 10, 60, 60, 95, 0].into_iter().enumerate() {
        let name = format!("low-{index}");
        add(&mut state, running(gang(&name, 1, 8), &[&format!("n{index}")], since));
    }
    let mut terms = Terms::default();
    terms.topology.required = Some(cluster_model::Level(0));
    add(&mut state, with_priority(with_terms(gang("high", 2, 8), &terms), 1));
    let plan = planned_at(&mut state, &policy(), 100);
    let victims: Vec<_> = plan.evictions.iter().map(|it| it.gang.name.to_string()).collect();
    // 10 + 90, 40 + 40 or 5 + 100 seconds of 8 GPUs.
    assert_eq!(victims, ["low-2", "low-3"], "{:?}", waiting(&plan));
}

#[test]
fn no_more_pods_of_a_budget_give_way_than_it_allows() {
    let counted = |allowed: u32, healthy: i32| {
        ClusterChange::Budget(cluster_model::Budget {
            key: cluster_model::BudgetKey { namespace: "team".into(), name: "b".into() },
            selector: Some(cluster_model::Selector::of([("app", "x")])),
            allowed,
            counts: cluster_model::BudgetCounts { healthy, ..cluster_model::BudgetCounts::default() },
            told: 0,
        })
    };
    let budget = |allowed: u32| counted(allowed, 2);
    let labelled = |name: &str, app: &str| {
        let pods = running(gang(name, 1, 4), &["n"], 0);
        crate::build::each(pods, |pod| pod.labels = [("app", app)].into_iter().collect())
    };
    let evicted = |allowed: u32, other_app: &str| {
        let mut state = cluster([node("n", "H100", 8)]);
        state.apply(budget(allowed));
        add(&mut state, labelled("one", "x"));
        add(&mut state, labelled("two", other_app));
        add(&mut state, with_priority(gang("high", 1, 8), 1));
        evictions(&planned_at(&mut state, &policy(), 100)).len()
    };
    assert_eq!(evicted(2, "x"), 2);
    assert_eq!(evicted(1, "x"), 0, "both would have to go");
    assert_eq!(evicted(1, "y"), 2, "the other one is not covered");
    assert_eq!(evicted(0, "y"), 0);

    // Gangs that were told to leave count while they are there.
    let mut state = cluster([node("n", "H100", 8)]);
    state.apply(budget(1));
    add(&mut state, labelled("one", "x"));
    add(&mut state, labelled("two", "x"));
    add(&mut state, with_priority(gang("high", 1, 4), 1));
    let first = planned_at(&mut state, &policy(), 100);
    assert_eq!(evictions(&first).len(), 1);
    state.commit(&first).whole().unwrap();
    add(&mut state, with_priority(gang("next", 1, 4), 1));
    assert_eq!(evictions(&planned_at(&mut state, &policy(), 101)), Vec::<String>::new());
    // And when they are gone, until the controller has counted again: the budget's number is from before.
    gone(&mut state, &first.evictions[0].gang.name);
    let second = planned_at(&mut state, &policy(), 102);
    state.commit(&second).whole().unwrap();
    assert_eq!(evictions(&planned_at(&mut state, &policy(), 103)), Vec::<String>::new());
    state.apply(budget(1));
    assert_eq!(evictions(&planned_at(&mut state, &policy(), 104)), Vec::<String>::new());
    state.apply(counted(1, 1));
    assert_eq!(evictions(&planned_at(&mut state, &policy(), 105)).len(), 1);
}
