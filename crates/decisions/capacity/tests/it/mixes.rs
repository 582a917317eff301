//! What a mix looks like in cases that a reader can check by hand.

use capacity::demand::{Demand, Limits, QueueLimit, Together};
use capacity::mix::{AssignedPlace, Mix, Refusal, decide};
use capacity::offering::{FreeRoom, Location, MixCapacityType, MixResources, Offering};

use super::cases::GIBIBYTE;

fn machine(gpus: u64) -> MixResources {
    MixResources { gpus, cpu_milli: gpus * 10_000, memory_bytes: gpus * 100 * GIBIBYTE }
}

fn location(zone: &str) -> Location {
    Location {
        zone: zone.to_owned(),
        domain: None,
        capacity_type: MixCapacityType::OnDemand,
        gpu_type: Some("h100".to_owned()),
    }
}

fn offering(id: &str, zone: &str, gpus: u64, price: u64) -> Offering {
    Offering {
        id: id.to_owned(),
        instance_type: format!("h100-{gpus}x"),
        location: location(zone),
        price_per_hour: price * 1_000_000,
        machine: machine(gpus),
        boot_seconds: 120,
        stock: None,
    }
}

fn gang(id: &str, order: u64, members: u32, gpus: u64) -> Demand {
    Demand {
        id: id.to_owned(),
        queue: "research".to_owned(),
        order,
        members,
        member: machine(gpus),
        gpu_types: Vec::new(),
        zones: Vec::new(),
        capacity_types: Vec::new(),
        together: Together::Anywhere,
        machine_ceiling: None,
        gang_ceiling: None,
        boot_seconds_max: None,
    }
}

fn bought(mix: &Mix) -> Vec<(&str, u32)> {
    mix.purchases.iter().map(|it| (it.offering.as_str(), it.count)).collect()
}

#[test]
fn small_gangs_share_one_large_machine_when_that_is_cheaper() {
    let demands = [gang("a", 0, 4, 1), gang("b", 1, 2, 2)];
    let offerings = [offering("large", "z", 8, 20), offering("small", "z", 1, 4)];
    let mix = decide(&demands, &offerings, &[], &Limits::default());
    assert_eq!(bought(&mix), [("large", 1)]);
    assert_eq!(mix.purchases[0].serves, [("a".to_owned(), 4), ("b".to_owned(), 2)]);
    assert!(mix.is_best && mix.bound == mix.cost_per_hour && mix.refused.is_empty());
}

#[test]
fn a_purchase_tells_what_the_next_cheapest_would_have_cost() {
    let offerings = [offering("near", "z", 8, 20), offering("far", "y", 8, 23), offering("tiny", "z", 1, 1)];
    let mix = decide(&[gang("a", 0, 3, 8)], &offerings, &[], &Limits::default());
    assert_eq!(bought(&mix), [("near", 3)]);
    assert_eq!(mix.purchases[0].next_best, Some(("far".to_owned(), 69_000_000)));
    assert_eq!(mix.purchases[0].possible_offerings, 2);
}

#[test]
fn room_that_is_there_is_used_before_anything_is_bought() {
    let room =
        FreeRoom { id: "node-1".to_owned(), location: location("z"), free: machine(4), ready_in_seconds: 0 };
    let mix = decide(&[gang("a", 0, 3, 2)], &[offering("two", "z", 2, 5)], &[room], &Limits::default());
    assert_eq!(bought(&mix), [("two", 1)]);
    assert!(mix.assignments[0].machines.contains(&(AssignedPlace::Room("node-1".to_owned()), 2)));
}

#[test]
fn a_gang_that_must_be_in_one_zone_takes_the_zone_that_has_enough() {
    let mut together = gang("a", 0, 3, 8);
    together.together = Together::OneZone;
    let mut cheap = offering("cheap", "y", 8, 10);
    cheap.stock = Some(2);
    let offerings = [cheap, offering("dear", "z", 8, 12)];
    assert_eq!(bought(&decide(&[together.clone()], &offerings, &[], &Limits::default())), [("dear", 3)]);
    together.together = Together::Anywhere;
    assert_eq!(
        bought(&decide(&[together], &offerings, &[], &Limits::default())),
        [("cheap", 2), ("dear", 1)]
    );
}

#[test]
fn the_first_in_order_gets_what_is_scarce_and_the_other_is_told_so() {
    let mut scarce = offering("scarce", "z", 8, 10);
    scarce.stock = Some(3);
    let demands = [gang("late", 2, 2, 8), gang("early", 1, 2, 8)];
    let mix = decide(&demands, &[scarce], &[], &Limits::default());
    assert_eq!(bought(&mix), [("scarce", 2)]);
    assert_eq!(mix.assignments[0].demand, "early");
    assert_eq!(mix.refused[0].demand, "late");
    assert_eq!(mix.refused[0].reason, Refusal::Taken { served_before: 1 });
}

#[test]
fn refusals_carry_the_numbers() {
    let offerings = [offering("one", "z", 8, 10)];
    let refusal = |demand: Demand, limits: Limits| {
        decide(&[demand], &offerings, &[], &limits).refused.into_iter().next().map(|it| it.reason)
    };
    let mut poor = gang("a", 0, 2, 4);
    poor.gang_ceiling = Some(9_000_000);
    assert_eq!(
        refusal(poor, Limits::default()),
        Some(Refusal::GangCeiling { ceiling: 9_000_000, cheapest: 10_000_000 })
    );
    let mut picky = gang("a", 0, 1, 1);
    picky.machine_ceiling = Some(9_000_000);
    let Some(Refusal::NoOffering(misfits)) = refusal(picky, Limits::default()) else {
        panic!("it is refused")
    };
    assert_eq!((misfits.ceiling, misfits.cheapest_above_ceiling), (1, Some(10_000_000)));
    let budget = Limits { budget: Some(15_000_000), ..Limits::default() };
    assert_eq!(
        refusal(gang("a", 0, 2, 8), budget),
        Some(Refusal::Budget { limit: 15_000_000, with_it: 20_000_000 })
    );
    let mut queues = Limits::default();
    queues.queues.insert("research".to_owned(), QueueLimit { gpus: Some(12), budget: None });
    assert_eq!(
        refusal(gang("a", 0, 2, 8), queues),
        Some(Refusal::QueueGpus { limit: 12, used: 0, asked: 16 })
    );
}
