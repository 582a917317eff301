//! Devices of Exact nodes.

use cluster_model::{DeviceAsk, DevicePart, DeviceUse, MigProfile, Node, Pod};
use plan_check::Violation;

use crate::build::{cluster, gang, judged, key, node, on, place_on_devices, with};

const G2: MigProfile = MigProfile::G2;

fn whole(device: u8) -> DeviceUse {
    DeviceUse { device, part: DevicePart::Whole }
}

fn millis(device: u8, millis: u16) -> DeviceUse {
    DeviceUse { device, part: DevicePart::Millis(millis) }
}

fn mig(device: u8, profile: MigProfile, start: u8) -> DeviceUse {
    DeviceUse { device, part: DevicePart::Mig { profile, start } }
}

fn asks(device: DeviceAsk, gpus: i64) -> Vec<Pod> {
    with(gang("g", 1, gpus), |pod| pod.device = device)
}

/// What is found if g gets these devices of an Exact node on which a pod has those.
fn found(asks: Vec<Pod>, gets: &[DeviceUse], others: &[DeviceUse]) -> Vec<Violation> {
    let exact = Node { exact: true, ..node("a", "x", "1") };
    let runs = with(on(gang("r", 1, 0), "a"), |pod| pod.devices = others.to_vec());
    judged(&cluster([exact], runs.into_iter().chain(asks)), vec![place_on_devices("g", "a", gets)])
}

fn wrong() -> [Violation; 1] {
    [Violation::WrongDevices(key("g", 0), "a".into())]
}

fn over(device: usize) -> [Violation; 1] {
    [Violation::DeviceOver { node: "a".into(), device }]
}

#[test]
fn whole_devices_are_as_many_as_asked_and_nobody_elses() {
    let two = || asks(DeviceAsk::Whole, 2);
    assert_eq!(found(two(), &[whole(0), whole(7)], &[]), []);
    assert_eq!(found(two(), &[whole(0)], &[]), wrong());
    assert_eq!(found(two(), &[whole(0), whole(8)], &[]), wrong(), "there are eight");
    assert_eq!(found(two(), &[whole(3), whole(3)], &[]), over(3));
    assert_eq!(found(two(), &[whole(0), whole(1)], &[whole(1)]), over(1));
    assert_eq!(found(two(), &[whole(0), whole(1)], &[millis(1, 1)]), over(1));
    assert_eq!(found(two(), &[whole(0), whole(1)], &[mig(0, G2, 0)]), over(0));
}

#[test]
fn shares_of_a_device_are_at_most_all_of_it() {
    let share = || asks(DeviceAsk::Share { millis: 400 }, 0);
    assert_eq!(found(share(), &[millis(0, 400)], &[millis(0, 600)]), []);
    assert_eq!(found(share(), &[millis(0, 400)], &[millis(0, 601)]), over(0));
    assert_eq!(found(share(), &[millis(0, 400)], &[mig(0, G2, 4)]), over(0));
    assert_eq!(found(share(), &[millis(0, 300)], &[]), wrong());
    assert_eq!(found(share(), &[], &[]), wrong());
}

#[test]
fn instances_lie_where_they_may_and_do_not_overlap() {
    let instance = |profile| asks(DeviceAsk::Mig { profile }, 0);
    assert_eq!(found(instance(G2), &[mig(0, G2, 2)], &[mig(0, MigProfile::G3, 4)]), []);
    assert_eq!(found(instance(G2), &[mig(0, G2, 4)], &[mig(0, MigProfile::G3, 4)]), over(0));
    assert_eq!(found(instance(G2), &[mig(0, G2, 1)], &[]), wrong());
    assert_eq!(found(instance(G2), &[mig(0, MigProfile::G1, 0)], &[]), wrong());
    let media = MigProfile::G1Media;
    assert_eq!(
        found(instance(media), &[mig(0, media, 0)], &[mig(0, media, 6)]),
        over(0),
        "one has the engines"
    );
    let starts = |profile| {
        (0..8).filter(move |start| found(instance(profile), &[mig(0, profile, *start)], &[]).is_empty())
    };
    for (profile, expected) in [
        (MigProfile::G1, vec![0, 1, 2, 3, 4, 5, 6]),
        (MigProfile::G1Double, vec![0, 2, 4, 6]),
        (G2, vec![0, 2, 4]),
        (MigProfile::G3, vec![0, 4]),
        (MigProfile::G4, vec![0]),
        (MigProfile::G7, vec![0]),
    ] {
        assert_eq!(starts(profile).collect::<Vec<u8>>(), expected, "{profile:?}");
    }
}

#[test]
fn a_counted_node_gives_whole_devices_and_numbers_none() {
    let found = |asks: Vec<Pod>, gets: &[DeviceUse]| {
        judged(&cluster([node("a", "x", "1")], asks), vec![place_on_devices("g", "a", gets)])
    };
    assert_eq!(found(asks(DeviceAsk::Whole, 1), &[]), []);
    assert_eq!(found(asks(DeviceAsk::Whole, 1), &[whole(0)]), wrong());
    assert_eq!(found(asks(DeviceAsk::Share { millis: 1 }, 0), &[]), wrong());
}
