use std::collections::BTreeMap;

use api_types::machine_type::CapacityType;
use cluster_model::{ClusterChange, ClusterState, EvictionTerms, Pod, Queue, Terms};
use placement::Policy;

use super::{Bought, PATIENCE, buy};
use crate::catalogue::{Catalogue, MICROS, OfferKey};
use crate::memory::Memory;
use crate::testing::{at, catalogue, gang, lose, machine, members, place, spot_machine, state};

const NOW: i64 = 100_000;

/// Two members of eight GPUs with an hour of work, which save their state.
fn terms() -> Terms {
    Terms {
        takes_spot: true,
        buys_spot: true,
        time_limit_seconds: Some(3_600),
        eviction: EvictionTerms { checkpoints: true, never: false },
        ..Terms::default()
    }
}

fn with(terms: &Terms) -> ClusterState {
    let pods = members("train", 2, 8);
    state(pods.into_iter().map(|pod| Pod { terms: terms.clone().into(), ..pod }))
}

fn due_in(seconds: i64) -> Terms {
    Terms { deadline: Some(at(NOW + seconds)), ..terms() }
}

fn bought_at(second: i64, state: &ClusterState, catalogue: &Catalogue, memory: &Memory) -> Bought {
    let policy = Policy::default();
    let view = crate::testing::view(state, &policy, catalogue, &[], at(second));
    buy(&view, &BTreeMap::new(), memory)
}

fn bought(state: &ClusterState, memory: &Memory) -> Bought {
    bought_at(NOW, state, &catalogue([spot_machine("h100")]), memory)
}

/// What is bought, or why nothing is.
fn word(bought: &Bought) -> &str {
    match (bought.launches.as_slice(), bought.refused.as_slice()) {
        ([launch], []) => &launch.why,
        ([], [refused]) => &refused.why,
        other => panic!("{other:?}"),
    }
}

fn spot(zone: &str) -> OfferKey {
    OfferKey { machine: "h100".into(), place: place(zone, CapacityType::Spot) }
}

/// All spot failed just now.
fn dry(now: i64) -> Memory {
    let mut memory = Memory::default();
    for zone in ["a", "b"] {
        memory.failed(&spot(zone), &format!("{} was not available", spot(zone)), at(now));
    }
    memory
}

#[test]
fn spot_that_is_there_is_bought_with_what_it_may_cost() {
    assert_eq!(
        word(&bought(&with(&terms()), &Memory::default())),
        "2 × spot h100 in a at 6.00 an hour for 2 members of 8 GPUs; on demand is 20.00; expected 6.20 an hour with what it \
         may lose",
        "0.25 an hour of 60 s to boot, 120 s to restore and 300 s of lost work"
    );
}

#[test]
fn what_costs_more_than_it_may_is_not_bought_and_the_price_that_would_do_is_said() {
    let most = |micros: i64, buys_spot: bool| {
        let terms = Terms { max_price_micros: Some(micros), buys_spot, ..terms() };
        bought(&with(&terms), &Memory::default())
    };
    let refused = most(19_990_000, false);
    assert_eq!(word(&refused), "its maxPrice is 19.99 an hour, and 20.00 would be needed");
    assert_eq!(most(20 * MICROS, false).launches.len(), 1);
    let spot_alone = most(15 * MICROS, true);
    assert_eq!(
        word(&spot_alone),
        "2 × spot h100 in a at 6.00 an hour for 2 members of 8 GPUs; nothing on demand: its maxPrice is 15.00 an hour, and \
         20.00 would be needed"
    );
    assert_eq!(word(&most(5 * MICROS, true)), "its maxPrice is 5.00 an hour, and 6.00 would be needed");
}

#[test]
fn the_lower_of_the_ceilings_of_run_and_queue_counts() {
    let refusal = |queue: i64, run: i64| {
        let mut state = with(&Terms { max_price_micros: Some(run * MICROS), buys_spot: false, ..terms() });
        let above = Queue { max_price_micros: Some(queue * MICROS), ..Queue::new("above") };
        let below =
            Queue { parent: Some("above".into()), namespaces: ["team".into()].into(), ..Queue::new("queue") };
        state.apply(ClusterChange::Queue(above));
        state.apply(ClusterChange::Queue(below));
        word(&bought(&state, &Memory::default())).to_owned()
    };
    assert_eq!(refusal(12, 15), "the maxPrice of its queue is 12.00 an hour, and 20.00 would be needed");
    assert_eq!(refusal(15, 12), "its maxPrice is 12.00 an hour, and 20.00 would be needed");
}

/// On demand takes 60 s to boot and 120 s to restore; 600 s of work may be lost; a try with spot may take 2 · 60 + 90 s
/// and 120 s to restore.
const GUARD: i64 = 180 + 600 + 330;

#[test]
fn with_too_little_time_for_a_try_that_fails_on_demand_is_bought() {
    let near = bought(&with(&due_in(3_600 + GUARD - 1)), &Memory::default());
    assert_eq!(
        word(&near),
        "2 × on-demand h100 in a at 20.00 an hour for 2 members of 8 GPUs; not spot: 18 min to spare, and a try that fails \
         may take 18 min; deadline in 1 h 18 min, 1 h of work left"
    );
    let far = bought(&with(&due_in(3_600 + GUARD)), &Memory::default());
    assert!(word(&far).starts_with("2 × spot h100 in a at 6.00 an hour"), "{far:?}");
    assert!(word(&far).contains("on demand is 20.00; deadline in 1 h 18 min, 1 h of work left; expected "));
}

#[test]
fn who_saves_nothing_may_have_to_do_all_of_it_again() {
    let saves_nothing = |seconds| Terms { eviction: EvictionTerms::default(), ..due_in(seconds) };
    let price = |terms: &Terms| bought(&with(terms), &Memory::default()).launches[0].price_micros / MICROS;
    assert_eq!(price(&saves_nothing(2 * 3_600 + 180 + 330 - 1)), 20);
    assert_eq!(price(&saves_nothing(2 * 3_600 + 180 + 330)), 6);
}

#[test]
fn when_spot_is_dry_a_gang_without_a_deadline_waits_for_a_while_and_then_gets_machines_on_demand() {
    let (state, catalogue) = (with(&terms()), catalogue([spot_machine("h100")]));
    let mut memory = dry(NOW);
    let first = bought(&state, &memory);
    assert_eq!(
        word(&first),
        "waits for spot: spot h100 in a was not available; spot h100 in b was not available; on demand at 20.00 in 10 min"
    );
    memory.remember_waits(first.waits_for_spot, &state);
    // Spot was tried again in the meantime, and failed again.
    let late = NOW + PATIENCE.as_secs() - 1;
    memory.failed(&spot("a"), "no", at(late));
    memory.failed(&spot("b"), "no", at(late));
    let waits = bought_at(late, &state, &catalogue, &memory);
    assert!(waits.launches.is_empty());
    memory.remember_waits(waits.waits_for_spot, &state);
    let then = bought_at(late + 1, &state, &catalogue, &memory);
    assert_eq!(
        word(&then),
        "2 × on-demand h100 in a at 20.00 an hour for 2 members of 8 GPUs; not spot: it was not available for 10 min"
    );
    // Even if spot seems to be there only because it was not tried for a while.
    let later = bought_at(late + 3_600, &state, &catalogue, &memory);
    assert_eq!(later.launches[0].price_micros, 20 * MICROS);
    // The next gang is not bound by that.
    memory.remember_waits(BTreeMap::new(), &ClusterState::default());
    let next = bought_at(late + 3_600, &state, &catalogue, &memory);
    assert_eq!(next.launches[0].price_micros, 6 * MICROS);
}

#[test]
fn when_spot_is_dry_a_gang_with_time_to_spare_waits_as_long_as_that_is_safe_and_no_longer() {
    let (state, catalogue) = (with(&due_in(24 * 3_600)), catalogue([spot_machine("h100")]));
    let mut memory = dry(NOW);
    let waits = bought(&state, &memory);
    assert!(word(&waits).starts_with("waits for spot: "), "{waits:?}");
    assert!(word(&waits).contains("deadline in 24 h, 1 h of work left; expected "), "{waits:?}");
    assert_eq!(waits.waits_for_spot[&gang("train")].asked, Some(at(NOW)), "an outlook was made");
    memory.remember_waits(waits.waits_for_spot, &state);
    let again = bought_at(NOW + 20, &state, &catalogue, &memory);
    assert_eq!(again.waits_for_spot[&gang("train")].asked, Some(at(NOW)), "and is good for a minute");
    let last = NOW + 23 * 3_600 - GUARD;
    let guarded = bought_at(last + 1, &state, &catalogue, &dry(last));
    assert_eq!(guarded.launches[0].price_micros, 20 * MICROS);
}

#[test]
fn gangs_spread_by_price_and_by_how_often_spot_was_taken_back() {
    let mut memory = Memory::default();
    let state = with(&terms());
    // Zone b costs 4 instead of 3: it is better as soon as zone a is taken back some three times an hour.
    let mut now = NOW;
    let mut zones = Vec::new();
    for _ in 0..40 {
        let launch = &bought_at(now, &state, &catalogue([spot_machine("h100")]), &memory).launches[0];
        let offer = &launch.machines[0].0;
        zones.push(format!("{} {}", offer.place.capacity_type.as_str(), offer.place.zone));
        lose(&mut memory, offer, now);
        now += 700;
    }
    zones.dedup();
    assert_eq!(zones[..3], ["spot a", "spot b", "spot a"], "{zones:?}");
    assert!(!zones.contains(&"on-demand a".to_owned()), "spot at a third of the price bears much: {zones:?}");
    let often = memory.interruptions.per_hour(&spot("a"));
    assert!(often > 2.0 && often < 9.0, "{often}");
    memory.look(&ClusterState::default(), &[], at(now + 14 * 24 * 3_600));
    assert!(memory.interruptions.per_hour(&spot("a")) < 0.3, "what is long ago is forgotten");
}

#[test]
fn spot_that_is_taken_back_all_the_time_is_not_bought() {
    let mut memory = Memory::default();
    // Five hours of lost work each time, without checkpoints.
    let state =
        with(&Terms { eviction: EvictionTerms::default(), time_limit_seconds: Some(36_000), ..terms() });
    let mut now = NOW;
    let mut last = String::new();
    for _ in 0..5 {
        let bought = bought_at(now, &state, &catalogue([spot_machine("h100")]), &memory);
        last = word(&bought).to_owned();
        for (offer, _) in &bought.launches[0].machines[..1] {
            if offer.place.capacity_type == CapacityType::Spot {
                lose(&mut memory, offer, now);
            }
        }
        now += 700;
    }
    assert_eq!(
        last,
        "2 × on-demand h100 in a at 20.00 an hour for 2 members of 8 GPUs; not spot: none costs less, with what is lost \
         when it is taken back"
    );
}

#[test]
fn who_does_not_ask_for_spot_is_told_of_its_deadline_and_waits_for_nothing() {
    let terms = Terms { buys_spot: false, ..due_in(7_200) };
    assert_eq!(
        word(&bought(&with(&terms), &dry(NOW))),
        "2 × on-demand h100 in a at 20.00 an hour for 2 members of 8 GPUs; deadline in 2 h, 1 h of work left"
    );
}

#[test]
fn without_on_demand_spot_is_all_there_is() {
    let mut spot_only = spot_machine("h100");
    spot_only.offers.retain(|offer| offer.place.capacity_type == CapacityType::Spot);
    let bought = bought_at(NOW, &with(&due_in(100)), &catalogue([spot_only]), &Memory::default());
    assert!(word(&bought).contains("nothing on demand: no machine type suits"), "{bought:?}");
    assert_eq!(bought.launches[0].price_micros, 6 * MICROS);
}

#[test]
fn room_that_is_kept_for_the_deadline_of_another_is_bought_instead() {
    // The first waits for the third node, which is free in time; the second would take the others away from it.
    let mut pods = members("first", 3, 8);
    let due = Terms { buys_spot: false, deadline: Some(at(NOW + 4_000)), ..terms() };
    for pod in &mut pods {
        pod.terms = due.clone().into();
    }
    pods.extend(members("second", 2, 8));
    let mut ends = members("ends", 1, 8);
    (ends[0].node, ends[0].started) = (Some("three".into()), Some(at(NOW - 3_500)));
    ends[0].terms = terms().into();
    pods.extend(ends);
    let mut state = state(pods);
    for name in ["one", "two", "three"] {
        let mut there = machine("h100").node(&place("a", CapacityType::OnDemand), name, "");
        there.taints.clear();
        state.apply(ClusterChange::Node(there));
    }
    let bought = bought_at(NOW, &state, &catalogue([machine("h100")]), &Memory::default());
    let sizes: Vec<usize> = bought.launches.iter().map(|launch| launch.machines.len()).collect();
    assert_eq!(sizes, [1, 2], "{bought:?}");
}
