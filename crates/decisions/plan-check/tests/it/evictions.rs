//! Which gangs give way, and what is held.

use cluster_model::plan::{Departure, Eviction, EvictionRule, Hold, Plan};
use cluster_model::policy::{Backfill, ConsolidationPolicy, EvictionPolicy, Policy};
use cluster_model::{
    Budget, BudgetCounts, BudgetKey, ClusterChange, ClusterState, EvictionTerms, Pod, Queue, Reclaim,
    Selector, Terms,
};
use plan_check::{Violation, check_plan};

use crate::build::{
    NOW, at, cluster, evict, gang, hold, key, members, name, node, on, place, plan, queue, with, with_terms,
};

use EvictionRule::{Consolidation, Priority, Reclaim as Reclaims};

fn policy() -> Policy {
    Policy {
        explain: false,
        backfill: Backfill { reservations_max: 0, gather_max: 0, ..Backfill::default() },
        eviction: EvictionPolicy { by_priority: true, reclaim: true, ..EvictionPolicy::default() },
        consolidation: ConsolidationPolicy { moves_max: 1, after_seconds: 0 },
        ..Policy::default()
    }
}

/// Gang g of two with 4 GPUs each is urgent; r with 8 runs on node a, s with 4 on node b, which has 4 free.
fn urgent() -> Vec<Pod> {
    let claims = with(gang("g", 2, 4), |pod| pod.priority = 5);
    let runs = [on(gang("r", 1, 8), "a"), on(gang("s", 1, 4), "b")].concat();
    [claims, runs].concat()
}

fn state(pods: Vec<Pod>) -> ClusterState {
    cluster([node("a", "x", "1"), node("b", "x", "2")], pods)
}

fn found(state: &ClusterState, evictions: Vec<Eviction>, holds: Vec<Hold>) -> Vec<Violation> {
    check_plan(state, &Plan { evictions, holds, ..plan(state) }, &policy())
}

fn by_priority(gang: &str, gpus: u64) -> Eviction {
    evict(gang, "g", Priority, gpus * u64::try_from(NOW).expect("not negative"))
}

#[test]
fn who_is_evicted_makes_room_for_a_hold_in_the_same_plan() {
    let state = state(urgent());
    assert_eq!(found(&state, vec![by_priority("r", 8)], vec![hold("g", &["a", "a"])]), []);
    assert_eq!(found(&state, vec![by_priority("s", 4)], vec![hold("g", &["b", "b"])]), []);
    let nobody = [Violation::EvictedForNobody(name("r"))];
    let without_hold = found(&state, vec![by_priority("r", 8)], vec![]);
    assert_eq!(without_hold[..1], nobody);
    let too_early = check_plan(
        &state,
        &Plan {
            evictions: vec![by_priority("r", 8)],
            placements: vec![place("g", &["a", "a"])],
            ..plan(&state)
        },
        &policy(),
    );
    let over = Violation::NodeOver { node: "a".into(), resource: "gpus", used: 16, allocatable: 8 };
    assert!(too_early.contains(&over), "r is still there: {too_early:?}");
}

#[test]
fn nobody_is_evicted_for_nothing() {
    let state = state(urgent());
    let both = vec![by_priority("r", 8), by_priority("s", 4)];
    let nothing = |gang: &str| Violation::EvictedForNothing { gang: name(gang), claimant: name("g") };
    assert_eq!(found(&state, both.clone(), vec![hold("g", &["a", "a"])]), [nothing("s")]);
    assert_eq!(found(&state, both, vec![hold("g", &["b", "b"])]), [nothing("r")]);
    assert_eq!(
        found(&state, vec![by_priority("r", 8)], vec![hold("g", &["a", "b"])]),
        [],
        "b has room for one"
    );
}

#[test]
fn a_hold_fits_into_what_will_be_free() {
    let state = state(urgent());
    let over =
        |node: &str, used| Violation::NodeOver { node: node.into(), resource: "gpus", used, allocatable: 8 };
    let held = found(&state, vec![by_priority("r", 8)], vec![hold("g", &["b", "b"])]);
    assert!(held.contains(&over("b", 12)), "{held:?}");
    let placed = Plan {
        evictions: vec![by_priority("r", 8)],
        holds: vec![hold("g", &["a", "a"])],
        placements: vec![place("o", &["a"])],
        ..plan(&state)
    };
    assert!(!check_plan(&state, &placed, &policy()).is_empty());
}

#[test]
fn what_is_held_is_nobody_elses_also_in_later_plans() {
    let mut state = state([urgent(), gang("o", 1, 8), gang("p", 1, 4)].concat());
    let first =
        Plan { evictions: vec![by_priority("r", 8)], holds: vec![hold("g", &["a", "a"])], ..plan(&state) };
    state.commit(&first).whole().expect("it fits");
    let place_in = |state: &ClusterState, gang: &str, nodes: &[&str]| {
        check_plan(state, &Plan { placements: vec![place(gang, nodes)], ..plan(state) }, &policy())
    };
    let over = |used| [Violation::NodeOver { node: "a".into(), resource: "gpus", used, allocatable: 8 }];
    assert_eq!(place_in(&state, "g", &["a", "a"]), over(16), "r is still there");
    state.apply(ClusterChange::PodGone(key("r", 0)));
    assert_eq!(place_in(&state, "g", &["a", "a"]), []);
    assert_eq!(place_in(&state, "o", &["a"]), over(16), "it is held for g");
    assert_eq!(place_in(&state, "p", &["b"]), []);
}

#[test]
fn nobody_gives_way_to_an_equal_or_by_a_rule_that_does_not_hold() {
    let equal = state(with(urgent(), |pod| pod.priority = 5));
    let wrong = |what| [Violation::NotTheRule { gang: name("r"), what }];
    let (evictions, holds) = (vec![by_priority("r", 8)], vec![hold("g", &["a", "a"])]);
    assert_eq!(found(&equal, evictions.clone(), holds.clone()), wrong("it is of no lower priority"));
    let patient = state(with(urgent(), |pod| pod.preempts = false));
    let nobody = wrong("the claimant's priority makes no gang give way");
    assert_eq!(found(&patient, evictions.clone(), holds.clone()), nobody);
    let slow = state(with(urgent(), |pod| pod.grace_seconds = 540));
    let state = state(urgent());
    let plan = Plan { evictions, holds, ..plan(&state) };
    let mut off = policy();
    off.eviction.by_priority = false;
    assert_eq!(check_plan(&state, &plan, &off), wrong("the policy evicts none by priority"));
    let mut impatient = policy();
    impatient.eviction.hold_seconds = 599;
    assert_eq!(check_plan(&state, &plan, &impatient), [Violation::WrongHold(name("g"))]);
    assert_eq!(check_plan(&slow, &plan, &impatient), [], "it may take so long to end");
}

#[test]
fn the_protected_are_left_alone() {
    let protects = EvictionTerms { never: true, checkpoints: false };
    let never = Terms { eviction: protects, ..Terms::default() };
    let runs = with_terms(on(gang("r", 1, 8), "a"), never);
    let claims = with(gang("g", 2, 4), |pod| pod.priority = 5);
    let spared = state([claims, runs].concat());
    let protected = |by| [Violation::Protected { gang: name("r"), by }];
    let (evictions, holds) = (vec![by_priority("r", 8)], vec![hold("g", &["a", "a"])]);
    assert_eq!(found(&spared, evictions.clone(), holds.clone()), protected("it is never evicted"));
    let mut state = state(urgent());
    state.mark_leaving(&name("r"), &Departure::For(name("x")));
    let again = found(&state, evictions, holds);
    assert!(again.contains(&protected("it is evicted already")[0]), "{again:?}");
}

#[test]
fn no_more_go_than_a_budget_allows_and_who_was_told_before_counts() {
    let with_budget = |allowed: u32, told: u32| {
        let mut state = state(urgent());
        let key = BudgetKey { namespace: name("r").namespace, name: "b".into() };
        state.apply(ClusterChange::Budget(Budget {
            key: key.clone(),
            selector: Some(Selector::default()),
            allowed,
            counts: BudgetCounts::default(),
            told,
        }));
        (found(&state, vec![by_priority("r", 8)], vec![hold("g", &["a", "a"])]), key)
    };
    assert_eq!(with_budget(1, 0).0, []);
    assert_eq!(with_budget(2, 1).0, []);
    for (allowed, told) in [(0, 0), (1, 1)] {
        let (found, key) = with_budget(allowed, told);
        assert_eq!(found, [Violation::BudgetExceeded(key)], "{told} of {allowed} were told before");
    }
}

#[test]
fn what_is_lost_is_counted_from_the_last_checkpoint() {
    let saves = Terms { eviction: EvictionTerms { never: false, checkpoints: true }, ..Terms::default() };
    let runs = with_terms(on(gang("r", 1, 8), "a"), saves);
    let runs = with(runs, |pod| pod.checkpointed = Some(at(NOW - 10)));
    let claims = with(gang("g", 2, 4), |pod| pod.priority = 5);
    let state = state([claims, runs].concat());
    let lose = |lost| found(&state, vec![evict("r", "g", Priority, lost)], vec![hold("g", &["a", "a"])]);
    assert_eq!(lose(80), []);
    assert_eq!(lose(81), [Violation::LossMiscounted { gang: name("r"), said: 81, is: 80 }]);
}

#[test]
fn a_checkpoint_that_one_member_names_is_that_of_the_gang() {
    let saves = Terms { eviction: EvictionTerms { never: false, checkpoints: true }, ..Terms::default() };
    let mut runs = with_terms(on(gang("r", 2, 4), "a"), saves);
    runs[1].checkpointed = Some(at(NOW - 10));
    let claims = with(gang("g", 2, 4), |pod| pod.priority = 5);
    let state = state([claims, runs].concat());
    let lose = |lost| found(&state, vec![evict("r", "g", Priority, lost)], vec![hold("g", &["a", "a"])]);
    assert_eq!(lose(80), []);
}

/// Queue a owns 8 and claims them; queue b owns 4, holds 12 on both nodes.
fn lent() -> (ClusterState, Vec<Eviction>, Vec<Hold>) {
    let of_b = |pods| with(pods, |pod: &mut Pod| pod.queue = Some("b".into()));
    let runs = [on(of_b(gang("r", 1, 8)), "a"), on(of_b(gang("s", 1, 4)), "b")].concat();
    let mut state = state([gang("g", 2, 4), runs].concat());
    state.apply(ClusterChange::Queue(queue("a", 8, 16)));
    state.apply(ClusterChange::Queue(queue("b", 4, 16)));
    let lost = 8 * u64::try_from(NOW).expect("not negative");
    (state, vec![evict("r", "g", Reclaims, lost)], vec![hold("g", &["a", "a"])])
}

#[test]
fn a_queue_takes_back_its_own_and_no_more() {
    let (mut state, evictions, holds) = lent();
    let rule = |what| [Violation::NotTheRule { gang: name("r"), what }];
    assert_eq!(found(&state, evictions.clone(), holds.clone()), []);
    state.apply(ClusterChange::Queue(queue("b", 5, 16)));
    let below = [Violation::BelowQuota { gang: name("r"), queue: "b".into() }];
    assert_eq!(found(&state, evictions.clone(), holds.clone()), below, "b keeps 4 of 5");
    let patient = Reclaim { grace_seconds: 20_000, min_run_seconds: 0 };
    state.apply(ClusterChange::Queue(queue("b", 4, 16)));
    state.apply(ClusterChange::Queue(Queue { reclaim: patient, ..queue("a", 8, 16) }));
    assert_eq!(found(&state, evictions.clone(), holds.clone()), rule("the grace has not passed"));
    state.apply(ClusterChange::Queue(queue("a", 8, 16)));
    let protects = Reclaim { grace_seconds: 0, min_run_seconds: 20_000 };
    state.apply(ClusterChange::Queue(Queue { reclaim: protects, ..queue("b", 4, 16) }));
    assert_eq!(found(&state, evictions, holds), rule("it has not run for as long as its queue protects it"));
}

#[test]
fn who_takes_back_stays_within_its_quota() {
    let (mut state, evictions, holds) = lent();
    state.apply(ClusterChange::Queue(queue("a", 7, 16)));
    let rule = [Violation::NotTheRule {
        gang: name("r"),
        what: "the claimant's queue would hold more than its own",
    }];
    assert_eq!(found(&state, evictions, holds), rule);
}

#[test]
fn who_is_moved_saves_its_state_and_has_a_place_to_go() {
    let saves = Terms { eviction: EvictionTerms { never: false, checkpoints: true }, ..Terms::default() };
    let runs = with_terms(on(gang("r", 1, 2), "a"), saves);
    let runs = with(runs, |pod| pod.checkpointed = Some(at(NOW)));
    let bare = state([gang("g", 1, 8), with(runs.clone(), |pod| pod.comes_back = false)].concat());
    let state = state([gang("g", 1, 8), runs, on(gang("s", 1, 1), "b")].concat());
    let moved = Eviction { moves: true, ..evict("r", "g", Consolidation, 0) };
    let to = |node: &str| Hold { gang: name("r"), members: members("r", &[node]), expires: at(NOW + 600) };
    assert_eq!(found(&state, vec![moved.clone()], vec![hold("g", &["a"]), to("b")]), []);
    let lost = Violation::NotTheRule { gang: name("r"), what: "nobody makes it anew" };
    assert_eq!(found(&bare, vec![moved.clone()], vec![hold("g", &["a"]), to("b")]), [lost]);
    let homeless = found(&state, vec![moved.clone()], vec![hold("g", &["a"])]);
    assert_eq!(homeless, [Violation::EvictedForNobody(name("r"))]);
    let over = found(&state, vec![moved], vec![hold("g", &["a"]), to("a")]);
    let full = Violation::NodeOver { node: "a".into(), resource: "gpus", used: 10, allocatable: 8 };
    assert!(over.contains(&full), "{over:?}");
}
