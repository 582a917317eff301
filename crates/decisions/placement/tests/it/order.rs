//! Which gangs come first, and what the tree of queues allows.

use std::sync::Arc;

use cluster_model::{Amounts, ClusterChange, ClusterState, Pod, Queue, Terms};
use jiff::Timestamp;
use placement::{Backfill, OrderPolicy, Plan, Policy, plan};

use crate::build::{add, cluster, each, gang, node, queue, waiting};
use crate::closed_loop::at;
use crate::evict::running;

/// The time of all plans here.
const NOW: i64 = 100_000;

fn in_queue(name: &str, pods: Vec<Pod>) -> Vec<Pod> {
    each(pods, |pod| pod.queue = Some(name.into()))
}

/// Created this many seconds ago, with these terms.
fn since(seconds: i64, terms: Terms, pods: Vec<Pod>) -> Vec<Pod> {
    let terms = Arc::new(terms);
    each(pods, |pod| (pod.created, pod.terms) = (at(NOW - seconds), terms.clone()))
}

fn limit(seconds: u32) -> Terms {
    Terms { time_limit_seconds: Some(seconds), ..Terms::default() }
}

fn by(seconds_left: i64, limit_seconds: u32) -> Terms {
    Terms { deadline: Some(at(NOW + seconds_left)), ..limit(limit_seconds) }
}

fn with_policy(order: OrderPolicy) -> Policy {
    Policy { order, ..Policy::default() }
}

fn planned(state: &mut ClusterState, policy: &Policy) -> Plan {
    state.advance(at(NOW));
    plan(state, policy, at(NOW))
}

/// The gangs that start, in the order of planning.
fn started(state: &mut ClusterState) -> Vec<String> {
    names(&planned(state, &Policy::default()))
}

fn started_by_age(state: &mut ClusterState) -> Vec<String> {
    names(&planned(state, &with_policy(OrderPolicy::Age)))
}

fn names(plan: &Plan) -> Vec<String> {
    plan.placements.iter().map(|gang| gang.gang.name.to_string()).collect()
}

fn gpus(amount: i64) -> Amounts {
    Amounts { gpus: [("H100".into(), amount)].into(), ..Amounts::default() }
}

#[test]
fn a_queue_steps_back_with_every_gang_that_starts() {
    let mut state = cluster([node("n", "H100", 8)]);
    for (name, weight) in [("a", 1), ("b", 3)] {
        state.apply(ClusterChange::Queue(Queue { weight, ..queue(name, None, &[]) }));
        for number in 0..8 {
            add(&mut state, in_queue(name, gang(&format!("{name}{number}"), 1, 1)));
        }
    }
    assert_eq!(
        started(&mut state),
        ["a0", "b0", "b1", "b2", "a1", "b3", "b4", "b5"],
        "one to three, ties by name"
    );
}

#[test]
fn who_is_within_quota_comes_before_who_borrows_whatever_the_age() {
    let mut state = cluster([node("n", "H100", 4)]);
    state.apply(ClusterChange::Queue(Queue {
        limit: Some(gpus(8)),
        ..queue("borrower", None, &[("H100", 1)])
    }));
    state.apply(ClusterChange::Queue(queue("owner", None, &[("H100", 2)])));
    for number in 0..4 {
        let name = format!("old{number}");
        add(&mut state, in_queue("borrower", since(100, Terms::default(), gang(&name, 1, 1))));
        let name = format!("new{number}");
        add(&mut state, in_queue("owner", since(1, Terms::default(), gang(&name, 1, 1))));
    }
    assert_eq!(
        started(&mut state),
        ["old0", "new0", "new1", "old1"],
        "one and two within quota, then who may borrow"
    );
}

#[test]
fn priority_comes_before_all_shares_and_who_finishes_its_start_before_priority() {
    let mut state = cluster([node("n", "H100", 3)]);
    state.apply(ClusterChange::Queue(queue("owner", None, &[("H100", 2)])));
    add(&mut state, in_queue("owner", gang("within", 1, 1)));
    add(&mut state, each(gang("urgent", 1, 1), |pod| pod.priority = 5));
    let mut rest = gang("rest", 2, 1);
    rest[0].node = Some("n".into());
    add(&mut state, rest);
    assert_eq!(started(&mut state), ["rest", "urgent"]);
}

#[test]
fn shares_are_compared_at_each_level_of_the_tree() {
    let mut state = cluster([node("n", "H100", 6)]);
    state.apply(ClusterChange::Queue(queue("left", None, &[])));
    state.apply(ClusterChange::Queue(queue("right", None, &[])));
    for (name, parent) in [("l1", "left"), ("l2", "left"), ("r1", "right")] {
        state.apply(ClusterChange::Queue(queue(name, Some(parent), &[])));
        for number in 0..4 {
            add(&mut state, in_queue(name, gang(&format!("{name}-{number}"), 1, 1)));
        }
    }
    assert_eq!(
        started(&mut state),
        ["l1-0", "r1-0", "l2-0", "r1-1", "l1-1", "r1-2"],
        "half each, not a third each"
    );
}

#[test]
fn gangs_of_a_queue_with_children_compete_as_one_more_child() {
    let mut state = cluster([node("n", "H100", 4)]);
    state.apply(ClusterChange::Queue(queue("child", Some("nlp"), &[])));
    for number in 0..4 {
        add(&mut state, gang(&format!("own{number}"), 1, 1));
        add(&mut state, in_queue("child", gang(&format!("child{number}"), 1, 1)));
    }
    assert_eq!(started(&mut state), ["child0", "own0", "child1", "own1"]);
}

#[test]
fn the_share_that_counts_is_that_of_the_resource_of_which_a_queue_has_most() {
    // `nlp` holds half of the L4; `vision` holds more GPUs, but a smaller share of its type.
    let mut state = cluster([node("h", "H100", 32), node("l", "L4", 4)]);
    state.apply(ClusterChange::Queue(queue("vision", None, &[])));
    let bound = |node: &'static str, pods| each(pods, |pod: &mut Pod| pod.node = Some(node.into()));
    add(&mut state, bound("l", gang("small", 1, 2)));
    add(&mut state, in_queue("vision", bound("h", gang("large", 1, 8))));
    add(&mut state, since(100, Terms::default(), gang("older", 1, 24)));
    add(&mut state, in_queue("vision", gang("newer", 1, 24)));
    // Without a past: the state was not advanced.
    assert_eq!(names(&plan(&mut state, &Policy::default(), at(NOW))), ["newer"]);
}

#[test]
fn a_queue_without_weight_gets_what_the_others_leave() {
    let mut state = cluster([node("n", "H100", 3)]);
    state.apply(ClusterChange::Queue(Queue { weight: 0, ..queue("idle", None, &[]) }));
    for number in 0..2 {
        let name = format!("idle{number}");
        add(&mut state, in_queue("idle", since(100, Terms::default(), gang(&name, 1, 1))));
        add(&mut state, gang(&format!("nlp{number}"), 1, 1));
    }
    assert_eq!(started(&mut state), ["nlp0", "nlp1", "idle0"]);
}

#[test]
fn within_a_queue_a_deadline_goes_first_when_it_is_near_and_can_be_met() {
    let mut state = cluster([node("n", "H100", 8)]);
    add(&mut state, since(500, Terms::default(), gang("old", 1, 1)));
    add(&mut state, since(400, by(100_000, 600), gang("far", 1, 1)));
    add(&mut state, since(300, by(500, 600), gang("lost", 1, 1)));
    add(&mut state, since(200, by(4000, 600), gang("near", 1, 1)));
    add(&mut state, since(100, by(700, 600), gang("nearer", 1, 1)));
    assert_eq!(started_by_age(&mut state), ["nearer", "near", "old", "far", "lost"]);
    assert_eq!(
        started(&mut state),
        ["nearer", "near", "far", "lost", "old"],
        "by expected work the others stand in another order, and a deadline goes before it too"
    );
}

#[test]
fn nobody_starts_who_makes_a_gang_miss_a_deadline_that_can_be_met() {
    let plan_with = |old: Terms, deadline: Terms| {
        let mut state = cluster([node("n", "H100", 4)]);
        state.apply(ClusterChange::Queue(queue("other", None, &[])));
        // The other queue is served first: it is the lower name once both hold as much.
        add(&mut state, in_queue("nlp", since(500, old, gang("old", 1, 4))));
        add(&mut state, in_queue("other", since(100, deadline, gang("due", 1, 4))));
        planned(&mut state, &Policy::default())
    };
    let plan = plan_with(limit(20_000), by(20_000, 10_000));
    assert_eq!(names(&plan), ["due"], "20,000 s would be too long");
    let reason = format!("old: gang team/due would miss its deadline at {}", at(NOW + 20_000));
    assert_eq!(waiting(&plan)[0], reason);
    assert_eq!(plan.look_again_at, Some(at(NOW + 10_001)), "then the deadline is lost, and holds up nobody");

    assert_eq!(names(&plan_with(limit(10_000), by(20_000, 10_000))), ["old"], "10,000 s leave time for both");
    assert_eq!(
        names(&plan_with(Terms::default(), by(20_000, 10_000))),
        ["due"],
        "who knows how long it runs"
    );
    assert_eq!(names(&plan_with(limit(20_000), by(9_000, 10_000))), ["old"], "too late: it holds up nobody");
}

#[test]
fn a_deadline_of_a_lower_tier_or_that_a_quota_forbids_holds_up_nobody() {
    let mut state = cluster([node("n", "H100", 4)]);
    add(&mut state, since(500, by(20_000, 10_000), gang("due", 1, 4)));
    add(&mut state, each(since(1, limit(20_000), gang("urgent", 1, 4)), |pod| pod.priority = 1));
    assert_eq!(started(&mut state), ["urgent"]);

    let mut state = cluster([node("n", "H100", 4)]);
    state.apply(ClusterChange::Queue(queue("small", None, &[("H100", 2)])));
    add(&mut state, in_queue("small", since(500, by(20_000, 10_000), gang("due", 1, 4))));
    add(&mut state, since(1, limit(20_000), gang("other", 1, 4)));
    assert_eq!(started(&mut state), ["other"]);
}

#[test]
fn strictly_by_age_nobody_passes_the_first_that_is_blocked() {
    let mut state = cluster([node("n", "H100", 4)]);
    add(&mut state, since(400, Terms::default(), gang("few", 3, 1).split_off(1)));
    add(&mut state, since(300, Terms::default(), gang("first", 1, 2)));
    add(&mut state, since(200, Terms::default(), gang("large", 1, 4)));
    add(&mut state, since(100, Terms::default(), gang("small", 1, 1)));
    let mut policy = with_policy(OrderPolicy::StrictAge);
    let plan = planned(&mut state, &policy);
    assert_eq!(names(&plan), ["first"]);
    let behind = "small: gang team/large is blocked, and no gang may pass it";
    assert_eq!(waiting(&plan).last().map(String::as_str), Some(behind));
    assert_eq!(plan.waiting.len(), 3, "all are told why");
    policy.explain = false;
    assert_eq!(names(&planned(&mut state, &policy)), ["first"]);
    assert_eq!(started_by_age(&mut state), ["first", "small"], "by age, but not strictly");
}

#[test]
fn by_expected_work_the_least_goes_first_but_nobody_waits_for_ever() {
    let mut state = cluster([node("n", "H100", 32)]);
    add(&mut state, since(500, Terms::default(), gang("unknown", 1, 1)));
    add(&mut state, since(400, limit(1000), gang("much", 1, 8)));
    add(&mut state, since(300, limit(7000), gang("less", 1, 1)));
    add(&mut state, since(200, limit(100), gang("least", 1, 8)));
    add(&mut state, since(5 * 24 * 3600, limit(100_000), gang("overdue", 1, 8)));
    let plan = planned(&mut state, &with_policy(OrderPolicy::ExpectedWork));
    assert_eq!(
        names(&plan),
        ["overdue", "least", "less", "much", "unknown"],
        "four hours, for want of history"
    );
}

const FIVE_DAYS: i64 = 5 * 24 * 3600;

/// Gang `large` of two whole nodes waited for days; gangs of one GPU keep coming.
fn overdue_among_small(large: Vec<Pod>) -> ClusterState {
    let mut state = cluster([node("n0", "H100", 8), node("n1", "H100", 8)]);
    add(&mut state, running(gang("runs", 1, 8), &["n0"], 0));
    add(&mut state, since(FIVE_DAYS, Terms::default(), large));
    add(&mut state, since(10, Terms::default(), gang("small", 1, 1)));
    state
}

#[test]
fn who_waited_far_too_long_keeps_what_falls_free_until_it_starts() {
    let mut state = overdue_among_small(gang("large", 2, 8));
    assert_eq!(names(&planned(&mut state, &Policy::default())), [""; 0], "node n1 is kept");
    state.apply(ClusterChange::PodGone(gang("runs", 1, 8)[0].key.clone()));
    assert_eq!(names(&planned(&mut state, &Policy::default())), ["large"]);
}

#[test]
fn nothing_is_kept_for_who_could_not_start_if_all_others_were_gone() {
    let too_large = overdue_among_small(gang("large", 3, 8));
    let not_all_there = overdue_among_small(gang("large", 3, 8).split_off(1));
    for mut state in [too_large, not_all_there] {
        assert_eq!(names(&planned(&mut state, &Policy::default())), ["small"]);
        // Nor does it take the place of another one that waited for long.
        add(&mut state, since(FIVE_DAYS - 1, Terms::default(), gang("fits", 2, 8)));
        let policy =
            Policy { backfill: Backfill { gather_max: 1, ..Backfill::default() }, ..Policy::default() };
        assert_eq!(names(&planned(&mut state, &policy)), [""; 0], "node n1 is kept for the one that fits");
    }
}

#[test]
fn without_explanations_a_class_is_given_up_with_its_first_gang() {
    let mut state = cluster([node("n", "H100", 4)]);
    for number in 0..9 {
        add(&mut state, since(100 - number, Terms::default(), gang(&format!("large{number}"), 1, 5)));
    }
    add(&mut state, gang("small", 1, 1));
    let plan = planned(&mut state, &Policy { explain: false, ..Policy::default() });
    assert_eq!(names(&plan), ["small"]);
    assert_eq!(plan.waiting.len(), 1, "one for all nine");
    assert_eq!(planned(&mut state, &Policy::default()).waiting.len(), 9);
}

#[test]
fn a_queue_whose_budget_is_spent_starts_nothing() {
    let mut state = cluster([node("n", "H100", 4)]);
    state.apply(ClusterChange::Queue(Queue { out_of_budget: true, ..queue("spent", None, &[]) }));
    state.apply(ClusterChange::Queue(queue("below", Some("spent"), &[])));
    add(&mut state, in_queue("below", gang("g", 1, 1)));
    let plan = planned(&mut state, &Policy::default());
    assert_eq!(names(&plan), Vec::<String>::new());
    assert_eq!(waiting(&plan), ["g: the budget of queue spent is spent"]);
}

/// Below `org` with some GPUs in all: `keeper` owns 8 and lends some of them; `borrower` owns none and may have all.
fn lending(
    org: Option<i64>,
    lends: Option<i64>,
    keeper_holds: i64,
    borrower_asks: u32,
) -> Result<(), String> {
    let mut state = cluster([node("a", "H100", 8), node("b", "H100", 8)]);
    state.apply(ClusterChange::Queue(Queue { limit: org.map(gpus), ..queue("org", None, &[]) }));
    let lend = lends.map(gpus);
    state.apply(ClusterChange::Queue(Queue {
        lend,
        limit: Some(gpus(16)),
        ..queue("keeper", Some("org"), &[("H100", 8)])
    }));
    state.apply(ClusterChange::Queue(Queue {
        limit: Some(gpus(16)),
        ..queue("borrower", Some("org"), &[("H100", 0)])
    }));
    let holds = gang("held", 1, keeper_holds);
    add(&mut state, in_queue("keeper", each(holds, |pod| pod.node = Some("a".into()))));
    add(&mut state, in_queue("borrower", gang("g", borrower_asks, 1)));
    let plan = planned(&mut state, &Policy::default());
    waiting(&plan).pop().map_or(Ok(()), Err)
}

#[test]
fn what_a_queue_does_not_lend_is_left_to_it() {
    assert_eq!(lending(None, None, 0, 16), Ok(()), "all is lent");
    assert_eq!(lending(None, Some(8), 0, 16), Ok(()));
    assert_eq!(lending(None, Some(5), 0, 13), Ok(()), "three are kept of sixteen");
    let kept = "g: below queue org, 0 of 16 H100 are held and 3 are kept by queues that do not lend them; requests 14";
    assert_eq!(lending(None, Some(5), 0, 14), Err(kept.to_owned()));
    assert_eq!(lending(None, Some(5), 2, 13), Ok(()), "what it holds it need not keep");
    assert_eq!(lending(None, Some(5), 5, 11), Ok(()));
    let kept = "g: below queue org, 0 of 12 H100 are held and 8 are kept by queues that do not lend them; requests 5";
    assert_eq!(lending(Some(12), Some(0), 0, 5), Err(kept.to_owned()));
    assert_eq!(lending(Some(12), Some(0), 0, 4), Ok(()));
}

#[test]
fn what_a_queue_keeps_it_may_use_itself() {
    let mut state = cluster([node("a", "H100", 8)]);
    state.apply(ClusterChange::Queue(queue("org", None, &[])));
    let keeper =
        Queue { lend: Some(gpus(0)), limit: Some(gpus(16)), ..queue("keeper", Some("org"), &[("H100", 6)]) };
    state.apply(ClusterChange::Queue(keeper));
    add(&mut state, in_queue("keeper", gang("own", 1, 6)));
    add(&mut state, in_queue("keeper", gang("own-and-more", 1, 2)));
    assert_eq!(
        started_by_age(&mut state),
        ["own", "own-and-more"],
        "and its own reserve is not in its own way"
    );
}

#[test]
fn the_plan_is_for_the_time_it_is_made_for() {
    let mut state = cluster([node("n", "H100", 4)]);
    let terms = by(20_000, 10_000);
    add(&mut state, since(0, terms, gang("due", 1, 4)));
    add(&mut state, since(500, limit(20_000), gang("old", 1, 4)));
    let policy = with_policy(OrderPolicy::Age);
    assert_eq!(names(&plan(&mut state, &policy, at(NOW))), ["due"]);
    let later: Timestamp = at(NOW + 15_000);
    assert_eq!(names(&plan(&mut state, &policy, later)), ["old"]);
}

#[test]
fn who_should_have_ended_long_ago_keeps_nothing_free_for_a_start_that_does_not_come() {
    let with_overdue = |overdue_seconds: i64| {
        let mut state = cluster([node("a", "H100", 8)]);
        let runs = since(NOW, limit(100), gang("overdue", 1, 4));
        add(&mut state, running(runs, &["a"], NOW - 100 - overdue_seconds));
        add(&mut state, since(60, Terms::default(), gang("large", 1, 8)));
        add(&mut state, since(30, Terms::default(), gang("small", 1, 4)));
        let plan = planned(&mut state, &with_policy(OrderPolicy::Age));
        (names(&plan), plan.reservations.len())
    };
    assert_eq!(with_overdue(200), (vec![], 1), "it is about to end, and the large one starts then");
    assert_eq!(with_overdue(400), (vec!["small".to_owned()], 0), "nobody knows when it ends");
}
