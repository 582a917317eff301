use api_types::machine_type::CapacityType;
use cluster_model::ClusterChange;

use super::{Follow, SEEN_MAX, TAKEN_UP_MAX, UNUSED_MAX, follow, late_after};
use crate::claim::{Claim, Launch, Purpose};
use crate::memory::Memory;
use crate::testing::{
    BOOT_SECONDS, at, boot, catalogue, claims, gang, launch, machine, members, names, offer_key, open,
    ordered, state,
};

/// A gang of two that waits for two machines, ordered at second 1000.
struct Story {
    state: cluster_model::ClusterState,
    memory: Memory,
    launch: Launch,
    claims: Vec<Claim>,
}

impl Story {
    fn new() -> Self {
        let launch = launch("train", 1000, 2);
        let mut memory = Memory::default();
        ordered(&mut memory, &launch);
        Self { state: state(members("train", 2, 8)), memory, claims: claims(&launch), launch }
    }

    /// The same two machines as spares, which no gang waits for.
    fn of_spares() -> Self {
        let mut story = Self::new();
        story.launch.key.purpose = Purpose::Spare("h100".into());
        story.memory = Memory::default();
        ordered(&mut story.memory, &story.launch);
        story.claims = claims(&story.launch);
        story
    }

    fn at(&mut self, second: i64) -> Follow {
        let catalogue = catalogue([machine("h100")]);
        follow(&self.state, &catalogue, &self.claims, &mut self.memory, at(second))
    }

    fn boot(&mut self, index: usize) {
        boot(&mut self.state, &catalogue([machine("h100")]), &mut self.claims[index]);
    }

    fn all_names(&self) -> Vec<String> {
        (0..2).map(|index| self.launch.claim_name(index).to_string()).collect()
    }
}

#[test]
fn a_launch_goes_on_while_machines_start_and_opens_when_its_gang_has_started_on_them() {
    let mut story = Story::new();
    let under_way = story.at(1001).under_way;
    assert_eq!((under_way[&gang("train")].ready, under_way[&gang("train")].of), (0, 2));
    story.boot(0);
    assert_eq!(story.at(1030).under_way[&gang("train")].ready, 1);
    story.boot(1);
    let ready = story.at(1060);
    assert_eq!(ready.under_way[&gang("train")].ready, 2);
    assert!(ready.releases.is_empty() && ready.opens.is_empty());
    for (index, mut pod) in members("train", 2, 8).into_iter().enumerate() {
        pod.node = Some((&*story.claims[index].name).into());
        story.state.apply(ClusterChange::Pod(pod));
    }
    let started = story.at(1061);
    assert_eq!(started.opens.len(), 2);
    assert!(started.releases.is_empty() && started.under_way.is_empty());
    open(&mut story.state, &catalogue([machine("h100")]), &story.claims);
    assert_eq!(story.at(1062), Follow::default(), "they are ordinary machines");
}

#[test]
fn a_gang_that_starts_before_its_claims_know_their_nodes_has_started_on_them() {
    let mut story = Story::new();
    story.at(1001);
    story.boot(0);
    story.boot(1);
    for (index, mut pod) in members("train", 2, 8).into_iter().enumerate() {
        pod.node = Some((&*story.claims[index].name).into());
        story.state.apply(ClusterChange::Pod(pod));
        (story.claims[index].node, story.claims[index].ready) = (None, false);
    }
    let started = story.at(1002);
    assert!(started.releases.is_empty(), "{started:?}");
    assert_eq!(started.opens.len(), 2);
}

#[test]
fn a_machine_that_is_about_to_register_is_not_open_though_it_has_no_mark_yet() {
    let mut story = Story::new();
    story.at(1001);
    story.boot(0);
    let mut node = story.state.nodes().next().unwrap().1.object().unwrap().clone();
    for taint in &mut node.taints {
        taint.key = "karpenter.sh/unregistered".into();
    }
    story.state.apply(ClusterChange::Node(node));
    assert_eq!(story.at(1002).under_way.len(), 1, "it goes on");
}

#[test]
fn when_one_claim_vanishes_all_are_given_back_and_its_offer_is_left_alone() {
    let mut story = Story::new();
    story.at(1001);
    story.boot(0);
    story.claims.remove(1);
    let failed = story.at(1002);
    let mut given_back = names(&failed.releases);
    given_back.sort();
    assert_eq!(given_back, story.all_names(), "also the one that vanished: it may only be late");
    assert!(failed.releases[0].why.contains("was not available"), "{failed:?}");
    assert!(story.memory.shuns(&offer_key("h100", "a"), at(1003)).is_some());
    let again = story.at(1003);
    assert_eq!(names(&again.releases), [story.launch.claim_name(0).to_string()], "until it is gone");
    let until = story.memory.next_try(at(1003));
    assert_eq!(until, Some(at(1032)), "one failure counts once");
}

#[test]
fn a_launch_whose_gang_was_faster_than_giving_it_up_is_used() {
    let mut story = Story::new();
    story.claims[1].offer = offer_key("h100", "b");
    story.at(1001);
    story.boot(0);
    let late = 1000 + late_after(BOOT_SECONDS).as_secs();
    assert_eq!(story.at(late).releases.len(), 2);
    for mut pod in members("train", 2, 8) {
        pod.node = Some((&*story.claims[0].name).into());
        story.state.apply(ClusterChange::Pod(pod));
    }
    story.claims[1].leaving = true;
    assert_eq!(story.at(late + 1).releases.len(), 1, "one goes already, so they all were given back");
    story.claims[1].leaving = false;
    let started = story.at(late + 2);
    assert_eq!((started.releases.len(), started.opens.len()), (0, 1));
    assert!(story.memory.given_up.is_empty());
    assert!(story.memory.shuns(&offer_key("h100", "b"), at(late + 2)).is_some(), "it was late all the same");
}

#[test]
fn a_launch_that_is_late_is_given_back_whole() {
    let mut story = Story::new();
    story.at(1001);
    story.boot(0);
    let late = 1000 + late_after(BOOT_SECONDS).as_secs();
    let waits = story.at(late - 1);
    assert!(waits.releases.is_empty());
    assert_eq!(waits.look_again_at, Some(at(late)));
    let failed = story.at(late);
    assert_eq!(names(&failed.releases), story.all_names());
    assert!(failed.releases[0].why.contains("1 of 2 machines are late"), "{failed:?}");
}

#[test]
fn an_order_that_did_not_get_through_is_taken_back() {
    let mut story = Story::new();
    story.claims.remove(1);
    assert!(story.at(1000).releases.is_empty());
    let failed = story.at(1000 + SEEN_MAX.as_secs());
    let mut given_back = names(&failed.releases);
    given_back.sort();
    assert_eq!(given_back, story.all_names());
}

#[test]
fn machines_that_are_ready_and_not_used_are_given_back() {
    let mut story = Story::new();
    story.boot(0);
    story.boot(1);
    assert!(story.at(1060).releases.is_empty());
    let failed = story.at(1060 + UNUSED_MAX.as_secs());
    assert_eq!(names(&failed.releases), story.all_names());
    assert!(story.memory.shuns(&offer_key("h100", "a"), at(1100)).is_none(), "the offer is not to blame");
}

#[test]
fn a_gang_that_is_no_more_or_started_elsewhere_keeps_no_machines() {
    let mut gone = Story::new();
    gone.at(1001);
    for pod in members("train", 2, 8) {
        gone.state.apply(ClusterChange::PodGone(pod.key));
    }
    assert_eq!(names(&gone.at(1002).releases), gone.all_names());

    let mut elsewhere = Story::new();
    elsewhere.at(1001);
    for mut pod in members("train", 2, 8) {
        pod.node = Some("another".into());
        elsewhere.state.apply(ClusterChange::Pod(pod));
    }
    let released = elsewhere.at(1002);
    assert_eq!(names(&released.releases), elsewhere.all_names());
    assert!(released.releases[0].why.contains("elsewhere"));
}

#[test]
fn a_new_leader_goes_on_with_a_whole_launch_and_gives_back_one_in_part() {
    let mut whole = Story::new();
    whole.memory = Memory::default();
    let found = whole.at(1010);
    assert!(found.releases.is_empty());
    assert_eq!(found.under_way[&gang("train")].of, 2);

    let mut part = Story::new();
    part.memory = Memory::default();
    part.claims.remove(1);
    assert_eq!(names(&part.at(1010).releases), [part.launch.claim_name(0).to_string()]);
}

#[test]
fn spares_that_are_ready_are_ordinary_machines() {
    let mut story = Story::of_spares();
    assert!(story.at(1001).look_again_at.is_some());
    for claim in &mut story.claims {
        claim.ready = true;
    }
    assert!(story.at(1010).releases.is_empty());
    assert!(story.memory.ordered.is_empty());
    story.claims[0].leaving = true;
    assert_eq!(story.at(1020), Follow::default(), "one of them may go without the other");
}

#[test]
fn a_spare_that_is_ready_stays_though_another_one_is_late() {
    let mut story = Story::of_spares();
    story.at(1001);
    story.boot(0);
    let late = 1000 + late_after(BOOT_SECONDS).as_secs();
    let given_back = [story.launch.claim_name(1).to_string()];
    assert_eq!(names(&story.at(late).releases), given_back);
    assert_eq!(names(&story.at(late + 1).releases), given_back, "until it is gone");
    story.claims.remove(1);
    assert_eq!(story.at(late + 2), Follow::default());
    assert!(story.memory.given_up.is_empty(), "more spares may be bought");
}

#[test]
fn an_order_that_nobody_takes_up_is_taken_back_and_nothing_is_ordered_for_a_while() {
    let mut story = Story::new();
    story.claims.iter_mut().for_each(|claim| claim.taken_up = false);
    let seen = story.at(1001);
    assert_eq!(seen.look_again_at, Some(at(1000) + TAKEN_UP_MAX));
    assert_eq!(story.memory.silence(at(1001)), None);
    let silent = 1000 + TAKEN_UP_MAX.as_secs();
    let given_back = story.at(silent);
    assert_eq!(names(&given_back.releases), story.all_names());
    assert!(given_back.under_way.is_empty());
    assert!(story.memory.silence(at(silent)).is_some());
    assert_eq!(story.memory.shuns(&offer_key("h100", "a"), at(silent)), None, "the offer is not to blame");
    let again = story.memory.next_try(at(silent)).unwrap();
    assert_eq!(story.memory.silence(again), None);
}

#[test]
fn one_claim_that_is_taken_up_is_enough_to_wait_for_all() {
    let mut story = Story::new();
    story.claims[0].taken_up = false;
    story.at(1001);
    assert!(story.at(1000 + TAKEN_UP_MAX.as_secs()).releases.is_empty());
}

#[test]
fn a_launch_that_failed_is_not_counted_against_its_offer_again_while_its_claims_go() {
    let mut story = Story::new();
    story.claims.iter_mut().for_each(|claim| claim.leaving = true);
    story.at(1001);
    let until = story.memory.next_try(at(1001));
    for second in [1002, 1003] {
        assert!(story.at(second).releases.is_empty(), "they are going already");
        assert_eq!(story.memory.next_try(at(second)), until);
    }
    let why = story.memory.shuns(&offer_key("h100", "a"), at(1003));
    assert_eq!(why, Some("on-demand h100 in a was not available"));
    story.claims.clear();
    story.at(1004);
    assert!(story.memory.given_up.is_empty(), "nothing is left to remember");
}

#[test]
fn a_gang_that_tried_spot_in_vain_has_waited_for_it_since_it_was_ordered() {
    let mut story = Story::new();
    for claim in &mut story.claims {
        claim.offer.place.capacity_type = CapacityType::Spot;
    }
    story.at(1001);
    assert!(story.memory.waits_for_spot.is_empty());
    story.at(1000 + late_after(60).as_secs());
    let since: Vec<_> = story.memory.waits_for_spot.values().map(|waits| waits.since).collect();
    assert_eq!(since, [at(1000)]);
}
