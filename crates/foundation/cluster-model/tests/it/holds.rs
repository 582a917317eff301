//! What is held, moved and evicted, and what that costs a queue over time.

use cluster_model::ClusterChange::{Node as N, NodeGone, Pod as P, PodGone, Queue as Q};
use cluster_model::plan::{Departure, Eviction, EvictionRule, GangPlacement, Hold, MemberPlacement, Plan};
use cluster_model::{
    Amounts, AssumeError, BankTerms, Budget, BudgetCounts, BudgetKey, ClusterChange, ClusterState, GangKey,
    Place, Pod, PodId, PodKey, Queue, ResourceName, Selector,
};
use jiff::Timestamp;

use crate::build::{gpus_free, gpus_used, key, node, on, pod, queue, state};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("in range")
}

fn gang(name: &str) -> GangKey {
    GangKey::new("team", name)
}

fn member(pod: &str, node: &str) -> MemberPlacement {
    MemberPlacement { pod: key(pod), node: node.into(), devices: Vec::new() }
}

fn hold(name: &str, node: &str) -> Hold {
    Hold { gang: gang(name), members: vec![member(name, node)], expires: at(600) }
}

fn id(state: &ClusterState, name: &str) -> PodId {
    state.pod_id(&key(name)).expect("it is there")
}

fn waiting(state: &ClusterState) -> Vec<String> {
    state.waiting_gangs().map(|gang| gang.name.to_string()).collect()
}

/// Two nodes; `victim` runs on the first and takes it whole, `claimant` waits.
fn victim_and_claimant() -> ClusterState {
    state([
        N(node("a", "H100", 8)),
        N(node("b", "H100", 8)),
        Q(queue("nlp", None, 48)),
        P(on(pod("victim", 8), "a")),
        P(pod("claimant", 8)),
    ])
}

#[test]
fn what_is_held_counts_beside_those_who_still_use_it_and_nobody_else_gets_what_they_free() {
    let mut state = victim_and_claimant();
    let before = state.dump();
    state.hold(&hold("claimant", "a")).expect("it waits");
    assert_eq!((gpus_free(&state, "a"), gpus_used(&state, "nlp", "H100")), (-8, 16));
    assert_eq!(waiting(&state), [""; 0]);
    assert_eq!(state.held_gangs().collect::<Vec<_>>(), [(&gang("claimant"), at(600))]);
    assert_eq!(state.pod(id(&state, "claimant")).place(), Some(Place::Held));

    let mut freed = state.clone();
    freed.apply(PodGone(key("victim")));
    assert_eq!(gpus_free(&freed, "a"), 0, "free for the claimant only");
    freed.assume(&key("claimant"), &"a".into()).expect("its hold does not keep it away");
    assert_eq!((gpus_free(&freed, "a"), freed.held_gangs().count()), (0, 0));

    state.release(&gang("claimant"));
    assert_eq!(state.dump(), before);
}

#[test]
fn a_budget_remembers_who_was_told_to_go_until_its_maker_is_heard_again() {
    let everybody = Budget {
        key: BudgetKey { namespace: "team".into(), name: "b".into() },
        selector: Some(Selector::default()),
        allowed: 2,
        counts: BudgetCounts { healthy: 4, desired: 2, expected: 4, generation: 1 },
        told: 0,
    };
    let told = |state: &ClusterState| state.budgets().map(|budget| budget.told).collect::<Vec<_>>();
    let mut state = victim_and_claimant();
    state.apply(ClusterChange::Budget(everybody.clone()));
    state.mark_leaving(&gang("victim"), &Departure::For(gang("claimant")));
    state.mark_leaving(&gang("victim"), &Departure::For(gang("other")));
    assert_eq!(told(&state), [1], "once, for whomever");
    let mut spared = state.clone();
    spared.spare(&gang("victim"));
    assert_eq!(told(&spared), [0]);
    let mut refused = state.clone();
    refused.stop_leaving(&gang("victim"));
    assert_eq!(told(&refused), [0], "it stays");
    let mut leaves = state.clone();
    leaves.apply(P(Pod { terminating: true, ..on(pod("victim", 8), "a") }));
    leaves.stop_leaving(&gang("victim"));
    assert_eq!(told(&leaves), [1], "it goes though others of its gang were refused");
    state.apply(PodGone(key("victim")));
    assert_eq!(told(&state), [1], "it is gone, and the budget may not know");
    let generation = state.generation();
    state.apply(ClusterChange::Budget(everybody.clone()));
    assert_eq!((told(&state), state.generation()), (vec![1], generation), "it was only listed again");
    let counts = BudgetCounts { expected: 3, ..everybody.counts };
    state.apply(ClusterChange::Budget(Budget { counts, ..everybody }));
    assert_eq!(told(&state), [0], "its maker has counted again, and allows as many");
}

#[test]
fn what_cannot_be_held_says_why() {
    let mut state = victim_and_claimant();
    let unknown = AssumeError::UnknownNode(key("claimant"), "nowhere".into());
    assert_eq!(state.hold(&hold("claimant", "nowhere")), Err(unknown));
    assert_eq!(state.hold(&hold("nobody", "a")), Err(AssumeError::UnknownPod(key("nobody"))));
    state.apply(P(Pod { terminating: true, ..pod("claimant", 8) }));
    assert_eq!(state.hold(&hold("claimant", "a")), Err(AssumeError::NotPending(key("claimant"))));
}

#[test]
fn a_hold_ends_with_the_pod_and_when_it_is_being_deleted() {
    let mut state = victim_and_claimant();
    state.hold(&hold("claimant", "b")).expect("it waits");
    let mut deleted = state.clone();
    deleted.apply(P(Pod { terminating: true, ..pod("claimant", 8) }));
    assert_eq!((gpus_free(&deleted, "b"), deleted.held_gangs().count()), (8, 0));
    state.apply(PodGone(key("claimant")));
    assert_eq!((gpus_free(&state, "b"), state.held_gangs().count()), (8, 0));
}

#[test]
fn a_gang_that_is_moved_counts_where_it_is_and_where_it_goes_and_its_next_pod_finds_its_place() {
    let mut state = victim_and_claimant();
    state.hold(&hold("victim", "b")).expect("it runs");
    assert_eq!((gpus_free(&state, "a"), gpus_free(&state, "b")), (0, 0));
    assert_eq!(gpus_used(&state, "nlp", "H100"), 8, "charged once");
    state.apply(P(Pod { terminating: true, ..on(pod("victim", 8), "a") }));
    assert_eq!(gpus_used(&state, "nlp", "H100"), 8, "charged once");
    state.apply(PodGone(key("victim")));
    assert_eq!((gpus_free(&state, "a"), gpus_free(&state, "b")), (8, 0));
    assert_eq!(gpus_used(&state, "nlp", "H100"), 8, "its queue keeps what it had");

    let next = Pod { key: PodKey::new("team", "victim", "uid-next"), ..pod("victim", 8) };
    state.apply(P(next.clone()));
    let next = state.pod(state.pod_id(&next.key).expect("it came"));
    assert_eq!((next.place(), next.at()), (Some(Place::Held), state.node_id(&"b".into())));
    assert_eq!((gpus_free(&state, "b"), gpus_used(&state, "nlp", "H100")), (0, 8));
    assert_eq!(waiting(&state), ["claimant"]);

    state.release(&gang("victim"));
    assert_eq!((gpus_free(&state, "b"), waiting(&state).len()), (8, 2));
}

#[test]
fn a_gang_gives_way_until_none_of_its_members_has_a_node() {
    let mut state = victim_and_claimant();
    state.mark_leaving(&gang("claimant"), &Departure::For(gang("victim")));
    state.mark_leaving(&gang("victim"), &Departure::For(gang("claimant")));
    let evicting = |state: &ClusterState, name: &str| {
        state.gang(&gang(name)).and_then(|gang| gang.claimant()).map(|gang| gang.name.to_string())
    };
    assert_eq!(evicting(&state, "claimant"), None, "it has nothing to give");
    assert_eq!(evicting(&state, "victim").as_deref(), Some("claimant"));
    state.apply(P(Pod { terminating: true, ..on(pod("victim", 8), "a") }));
    assert_eq!(evicting(&state, "victim").as_deref(), Some("claimant"));
    let next = Pod { key: PodKey::new("team", "victim", "uid-next"), ..pod("victim", 8) };
    state.apply(P(next));
    assert_eq!(evicting(&state, "victim"), None, "its next life starts clean");
}

#[test]
fn a_plan_that_is_committed_marks_holds_and_places() {
    let mut state = victim_and_claimant();
    state.apply(P(pod("small", 2)));
    let mut plan = Plan::empty(state.generation(), at(0));
    plan.evictions.push(Eviction {
        gang: gang("victim"),
        claimant: gang("claimant"),
        why: EvictionRule::Priority,
        lost_gpu_seconds: 0,
        moves: false,
    });
    plan.holds.push(hold("claimant", "a"));
    plan.placements.push(GangPlacement {
        gang: gang("small"),
        queue: "nlp".into(),
        run: None,
        members: vec![member("small", "b")],
    });
    state.commit(&plan).whole().expect("all are there");
    assert_eq!((gpus_free(&state, "a"), gpus_free(&state, "b")), (-8, 6));
    assert!(state.pod(id(&state, "small")).is_assumed());
    assert_eq!(state.gang(&gang("victim")).and_then(|gang| gang.claimant()), Some(&gang("claimant")));
    assert_eq!(state.running_gangs().map(|gang| &*gang.name).collect::<Vec<_>>(), ["small", "victim"]);
}

#[test]
fn in_a_fork_victims_go_and_the_claimant_is_held_lands_and_is_released() {
    let mut state = victim_and_claimant();
    let before = state.dump();
    let (victim, claimant) = (id(&state, "victim"), id(&state, "claimant"));
    let (a, b) = (state.node_id(&"a".into()).expect("there"), state.node_id(&"b".into()).expect("there"));
    {
        let mut fork = state.fork();
        fork.evict(victim);
        assert_eq!((gpus_free(&fork, "a"), gpus_used(&fork, "nlp", "H100")), (8, 0));
        assert_eq!(fork.running_gangs().count(), 0);
        assert_eq!(waiting(&fork), ["claimant"], "who is evicted does not wait");
        fork.hold(claimant, a, &[]);
        assert_eq!(fork.pod(claimant).place(), Some(Place::Held));
        fork.hold(victim, b, &[]);
        assert_eq!((gpus_free(&fork, "a"), gpus_free(&fork, "b")), (0, 0), "moved");
        fork.land(claimant);
        assert!(fork.pod(claimant).is_assumed());
        fork.release(victim);
        assert_eq!((gpus_free(&fork, "b"), waiting(&fork).len()), (8, 0), "released, it is evicted still");
    }
    assert_eq!(state.dump(), before);

    let mut kept = state.fork();
    kept.evict(victim);
    kept.keep();
    assert_eq!(gpus_free(&state, "a"), 8, "gone for good, until it is seen again");
    state.apply(P(Pod { priority: 1, ..on(pod("victim", 8), "a") }));
    assert_eq!(gpus_free(&state, "a"), 0);
}

#[test]
fn a_pod_that_a_kept_fork_evicts_from_a_node_that_is_gone_takes_the_last_of_it_along() {
    let mut state = victim_and_claimant();
    state.apply(NodeGone("a".into()));
    let victim = id(&state, "victim");
    let before = state.dump();
    state.fork().evict(victim);
    assert_eq!(state.dump(), before, "and back again");
    let mut kept = state.fork();
    kept.evict(victim);
    kept.keep();
    assert_eq!(state.nodes().count(), 1);
}

#[test]
#[allow(clippy::cast_precision_loss, reason = "floating point is what the whole numbers are compared with")]
fn use_fades_by_half_in_a_half_life_and_counts_in_every_queue_above() {
    let mut state = state([
        N(node("a", "H100", 8)),
        Q(Queue { half_life_seconds: 3600, ..queue("nlp", Some("org"), 48) }),
        Q(Queue { half_life_seconds: 7200, ..queue("org", None, 64) }),
        P(on(pod("p", 8), "a")),
    ]);
    state.advance(at(3600));
    state.apply(PodGone(key("p")));
    // 8 GPUs for an hour; the use of each moment has faded since.
    let expected = |hours: f64, half_life: f64| {
        let seconds = 8.0 * half_life * 3600.0 / std::f64::consts::LN_2;
        seconds * (1.0 - (-1.0 / half_life).exp2()) * (-(hours - 1.0) / half_life).exp2()
    };
    for hours in [1, 2, 5] {
        state.advance(at(3600 * hours));
        for (queue, half_life) in [("nlp", 1.0), ("org", 2.0)] {
            let (found, expected) =
                (state.decayed_gpu_seconds(&queue.into()), expected(hours as f64, half_life));
            assert!(
                (found as f64 - expected).abs() <= 1.0,
                "{queue} after {hours} h: {found}, not {expected}"
            );
        }
    }
    state.advance(at(0));
    assert_eq!(state.now(), at(5 * 3600), "time does not go back");
}

#[test]
fn a_bank_saves_what_is_not_used_and_spends_what_is_used_beyond_the_quota() {
    let bank = BankTerms { earn_millis: 500, cap_gpu_seconds: 1000 };
    let limit = Some(Amounts { gpus: [("H100".into(), 16)].into(), ..Amounts::default() });
    let mut state = state([
        N(node("a", "H100", 8)),
        N(node("b", "H100", 8)),
        Q(Queue { bank: Some(bank), limit, ..queue("nlp", None, 8) }),
        P(on(pod("p", 4), "a")),
        P(pod("burst", 8)),
    ]);
    let saved = |state: &ClusterState| state.bank_gpu_seconds(&"nlp".into());
    state.advance(at(100));
    assert_eq!(saved(&state), 200, "4 of 8 GPUs unused, half a credit each second");
    state.assume(&key("burst"), &"b".into()).expect("it waits");
    state.advance(at(130));
    assert_eq!(saved(&state), 80, "4 GPUs beyond the quota");
    state.advance(at(1000));
    assert_eq!(saved(&state), 0, "no debts");
    state.forget(&key("burst"));
    state.apply(PodGone(key("p")));
    state.advance(at(10_000));
    assert_eq!(saved(&state), 1000, "and no more than the cap");
}

#[test]
fn children_keep_of_their_quota_what_they_neither_hold_nor_lend() {
    let gpus = |gpus| Some(Amounts { gpus: [("H100".into(), gpus)].into(), ..Amounts::default() });
    let mut state = state([
        N(node("a", "H100", 8)),
        Q(queue("org", None, 64)),
        Q(Queue { lend: gpus(5), ..queue("nlp", Some("org"), 8) }),
        Q(Queue { lend: gpus(0), ..queue("vision", Some("org"), 6) }),
        Q(queue("lends-all", Some("org"), 100)),
    ]);
    let kept = |state: &ClusterState| state.lent_reserve(&"org".into(), &ResourceName::Gpu("H100".into()));
    assert_eq!(kept(&state), 3 + 6);
    state.apply(P(on(pod("p", 2), "a")));
    assert_eq!(kept(&state), 1 + 6, "what is held is not kept beside");
    state.apply(P(on(pod("q", 5), "a")));
    assert_eq!(kept(&state), 6);
    state.apply(Q(queue("vision", None, 6)));
    assert_eq!(kept(&state), 0, "it is no child any more");
}

#[test]
fn a_pod_that_a_job_makes_anew_under_another_name_finds_the_place_of_its_index() {
    let mut state = victim_and_claimant();
    let first = Pod { member_index: Some(3), ..on(pod("victim", 8), "a") };
    state.apply(P(first.clone()));
    state.hold(&hold("victim", "b")).expect("it runs");
    state.apply(PodGone(key("victim")));
    let next = Pod {
        key: PodKey::new("team", "victim-x7k2p", "uid-next"),
        member_index: Some(3),
        ..pod("victim", 8)
    };
    state.apply(P(next.clone()));
    let next = state.pod(state.pod_id(&next.key).expect("it came"));
    assert_eq!((next.place(), next.at()), (Some(Place::Held), state.node_id(&"b".into())));
    assert_eq!((gpus_free(&state, "b"), gpus_used(&state, "nlp", "H100")), (0, 8), "charged once");
}

#[test]
fn a_pod_that_is_made_anew_without_an_index_finds_a_place_of_the_same_controller() {
    let replica = |name: &str, of: &str| Pod { controller: Some(of.into()), ..pod(name, 4) };
    let mut state = state([
        N(node("a", "H100", 8)),
        N(node("b", "H100", 8)),
        Q(queue("nlp", None, 48)),
        P(on(replica("old", "set"), "a")),
    ]);
    state.hold(&hold("old", "b")).expect("it is moved");
    state.mark_leaving(&gang("old"), &Departure::For(gang("claimant")));
    state.apply(P(replica("stranger", "other")));
    let elsewhere = Pod { key: PodKey::new("elsewhere", "claims", "claims"), ..replica("claims", "set") };
    state.apply(P(elsewhere));
    assert_eq!(held(&state), [gang("old")], "the old one is not gone yet, and others are others");
    let mut early = state.clone();
    let mut restored = ClusterState::restore(state.save());
    for state in [&mut state, &mut restored] {
        state.apply(PodGone(key("old")));
        assert_eq!(gpus_free(state, "b"), 4, "kept for the one that comes");
        state.apply(P(Pod { controller: Some("set".into()), ..pod("less", 1) }));
        assert_eq!(held(state), [gang("old")], "it wants something else");
        state.apply(P(replica("new", "set")));
        assert_eq!(held(state), [gang("new")]);
        assert_eq!(state.pod(id(state, "new")).place(), Some(Place::Held));
        assert_eq!(gpus_free(state, "b"), 4, "once only");
        state.apply(P(replica("more", "set")));
        assert_eq!(state.pod(id(state, "more")).place(), None, "there was one place");
    }
    early.apply(P(replica("new", "set")));
    assert_eq!(held(&early), [gang("old")]);
    early.apply(P(Pod { terminating: true, ..on(replica("old", "set"), "a") }));
    assert_eq!(held(&early), [gang("new")], "it came before the old one was known to go");
}

fn held(state: &ClusterState) -> Vec<GangKey> {
    state.held_gangs().map(|(gang, _)| gang.clone()).collect()
}

#[test]
fn a_gang_that_was_spared_may_be_asked_again() {
    let mut state = victim_and_claimant();
    let (victim, claimant) = (gang("victim"), gang("claimant"));
    state.mark_leaving(&victim, &Departure::For(claimant.clone()));
    assert!(state.was_evicted_for(&victim, &claimant) && state.has_displaced(&claimant));
    state.spare(&victim);
    assert!(!state.was_evicted_for(&victim, &claimant) && !state.has_displaced(&claimant));
    assert_eq!(state.gang(&victim).and_then(|gang| gang.claimant()), None);
    assert_eq!(state.leaving_gangs().len(), 0);
}

#[test]
fn use_and_savings_that_are_restored_are_what_they_would_have_been() {
    let cluster = || {
        let mut state = victim_and_claimant();
        let (queue, _) = state.queue(&"nlp".into()).expect("it is there");
        let bank = BankTerms { earn_millis: 500, cap_gpu_seconds: 1_000_000 };
        let queue = Queue { bank: Some(bank), half_life_seconds: 3600, ..queue.clone() };
        state.apply(Q(queue));
        state
    };
    let mut first = cluster();
    first.advance(at(1000));
    // Its use ends at 1000 s, and goes on at 2000 s.
    let seen = on(pod("victim", 8), "a");
    first.apply(PodGone(key("victim")));
    first.advance(at(2000));
    first.apply(P(seen));
    first.advance(at(2500));
    let saved = first.saved_accounts(&"nlp".into()).expect("the queue is there");
    assert_eq!(saved.since, at(2000), "written when the rates changed, not as time goes by");

    let mut next = cluster();
    next.advance(at(4000));
    assert_ne!(next.decayed_gpu_seconds(&"nlp".into()), 0);
    next.restore_accounts(&"nlp".into(), &saved);
    first.advance(at(4000));
    let numbers = |state: &ClusterState| {
        let queue = "nlp".into();
        (
            state.decayed_gpu_seconds(&queue),
            state.decayed_beyond_quota_gpu_milliseconds(&queue) / 1000,
            state.bank_gpu_seconds(&queue),
        )
    };
    assert_eq!(numbers(&next), numbers(&first));
    next.advance(at(9000));
    first.advance(at(9000));
    assert_eq!(numbers(&next), numbers(&first), "and they go on alike");
}

#[test]
fn a_run_is_remembered_over_its_attempts() {
    let of_run = |name: &str, run: &str| Pod { run: Some(run.into()), ..pod(name, 1) };
    let mut state = victim_and_claimant();
    state.apply(P(on(of_run("train-1", "train"), "b")));
    state.apply(P(of_run("own-1", "own")));
    state.mark_leaving(&gang("train-1"), &Departure::For(gang("own-1")));
    state.apply(P(of_run("train-2", "train")));
    state.apply(P(of_run("own-2", "own")));
    state.apply(P(of_run("other-1", "other")));
    assert!(state.was_evicted_for(&gang("train-2"), &gang("own-2")) && state.has_displaced(&gang("own-2")));
    assert!(!state.was_evicted_for(&gang("other-1"), &gang("own-2")));
    let again = ClusterState::restore(state.save());
    assert!(again.was_evicted_for(&gang("train-2"), &gang("own-2")));
}
