//! Machines that are on their way, for forecasts. Pure.
//!
//! ```text
//!   launches under way ─┬─ machines that are nodes already: as they are once they take pods ─┐
//!   spares on their way ┘  the rest: as the MachineType says                                 ├─► Coming
//!                          all at `ready_by`; late ones in as long again as they are late ───┘
//! ```

use api_types::names::{FOR_GANG_TAINT, GPU_NODE_TAINT};
use capacity::Decision;
use capacity::catalogue::{Catalogue, CatalogueMachine, OfferKey};
use capacity::claim::{LaunchKey, Purpose};
use capacity::launches::nodes_by_launch;
use capacity::memory::Memory;
use capacity::reserve;
use cluster_model::{ClusterState, GangKey, Node, Taint, TaintEffect};
use forecast::Coming;
use jiff::{SignedDuration, Timestamp};

/// All machines on their way: those of gangs in the order of the gangs, then spares.
pub fn coming(
    decision: &Decision,
    memory: &Memory,
    catalogue: &Catalogue,
    state: &ClusterState,
    now: Timestamp,
) -> Vec<Coming> {
    let spares = memory.ordered.values().filter(|it| matches!(it.launch.key.purpose, Purpose::Spare(_)));
    let mut spares = spares.peekable();
    // Nearly always nothing is on its way, and looking at all nodes costs a little.
    if decision.under_way.is_empty() && spares.peek().is_none() {
        return Vec::new();
    }
    let there = nodes_by_launch(state);
    let nodes = |key: &LaunchKey, offers: Vec<&OfferKey>| {
        let there = there.get(key.name().as_str()).map_or(&[][..], Vec::as_slice);
        nodes(key, &offers, there, catalogue)
    };
    let for_gangs = decision.under_way.iter().map(|(gang, under_way)| {
        let offers = under_way.machines.iter();
        let offers = offers.flat_map(|(offer, count)| std::iter::repeat_n(offer, *count as usize));
        Coming {
            at: expected_at(under_way.ready_by, now),
            nodes: nodes(&under_way.launch, offers.collect()),
            kept_for: Some((gang.clone(), taint(gang))),
        }
    });
    let for_all = spares.map(|ordered| {
        let launch = &ordered.launch;
        let offers = launch.machines.iter().map(|(offer, _)| offer);
        Coming {
            at: expected_at(launch.ready_by, now),
            nodes: nodes(&launch.key, offers.collect()),
            kept_for: None,
        }
    });
    for_gangs.chain(for_all).collect()
}

/// A late machine is expected to take as long again as it is late already: the later it is, the less is known.
fn expected_at(ready_by: Timestamp, now: Timestamp) -> Timestamp {
    let late = now.duration_since(ready_by);
    if late < SignedDuration::ZERO { ready_by } else { now.saturating_add(late).unwrap_or(Timestamp::MAX) }
}

fn taint(gang: &GangKey) -> Taint {
    Taint { key: FOR_GANG_TAINT.into(), value: reserve::mark(gang).into(), effect: TaintEffect::NoSchedule }
}

fn nodes(key: &LaunchKey, offers: &[&OfferKey], there: &[&Node], catalogue: &Catalogue) -> Vec<Node> {
    let mut there = there.to_vec();
    let mut found = Vec::with_capacity(offers.len());
    for (index, offer) in offers.iter().enumerate() {
        // Nothing is known of a machine that is not in the catalogue any more.
        let Some(machine) = catalogue.get(&offer.machine) else { continue };
        let labels = machine.labels(&offer.place);
        let has_labels = |node: &&Node| {
            let has = |(key, value): (&String, &String)| {
                node.labels.get(key.as_str()).is_some_and(|it| **it == **value)
            };
            labels.iter().all(has)
        };
        found.push(match there.iter().position(has_labels) {
            Some(position) => once_ready(there.swap_remove(position), machine, offer),
            None => open(machine.node(&offer.place, format!("{}-{index}", key.name()), "")),
        });
    }
    found
}

/// An existing node, as it is once it takes pods.
fn once_ready(node: &Node, machine: &CatalogueMachine, offer: &OfferKey) -> Node {
    let is_ours = |taint: &Taint| [FOR_GANG_TAINT, GPU_NODE_TAINT].contains(&&*taint.key);
    if node.schedulable && node.repelling().all(|taint| is_ours(&taint)) {
        return open(node.clone());
    }
    let as_ordered = machine.node(&offer.place, node.name.clone(), "");
    open(Node { labels: node.labels.clone(), ..as_ordered })
}

fn open(mut node: Node) -> Node {
    node.taints.retain(|taint| &*taint.key != FOR_GANG_TAINT);
    node
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api_types::machine_type::CapacityType;
    use api_types::names::LAUNCH_LABEL;
    use capacity::catalogue::OfferPlace;
    use capacity::claim::Launch;
    use capacity::memory::Ordered;
    use cluster_model::{ClusterChange, Resources};

    use super::*;
    use crate::machines::testing::machine;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn launch(purpose: Purpose, zones: &[&str]) -> Launch {
        let offer = |zone: &&str| {
            let capacity_type = CapacityType::OnDemand;
            let place = OfferPlace { zone: (*zone).into(), block: None, rack: None, capacity_type };
            (OfferKey { machine: "h100".into(), place }, 1)
        };
        Launch {
            key: LaunchKey { purpose, number: 100 },
            queue: None,
            machines: zones.iter().map(offer).collect(),
            ready_by: at(160),
            price_micros: 3,
            why: String::new(),
        }
    }

    /// The node that a launched machine will become, under this name.
    fn node(launch: &Launch, index: usize, name: &str) -> Node {
        let offer = &launch.machines[index].0;
        let mut node = machine().node(&offer.place, name, &launch.key.mark().unwrap());
        node.labels.insert(LAUNCH_LABEL.into(), launch.key.name().into());
        node
    }

    fn of(launch: &Launch, nodes: Vec<Node>, now: i64) -> Vec<Coming> {
        let mut state = ClusterState::default();
        for node in nodes {
            state.apply(ClusterChange::Node(node));
        }
        let (mut memory, mut decision) = (Memory::default(), Decision::default());
        decision.under_way.extend(launch.under_way(at(100)));
        let ordered = Ordered { launch: launch.clone(), at: at(100), seen: [].into() };
        memory.ordered.insert(launch.key.clone(), ordered);
        let catalogue: Catalogue = BTreeMap::from([("h100".into(), machine())]);
        coming(&decision, &memory, &catalogue, &state, at(now))
    }

    fn for_gang() -> Launch {
        launch(Purpose::Gang(GangKey::new("team", "train")), &["a", "a", "b"])
    }

    #[test]
    fn every_machine_of_a_launch_is_expected_once_and_whole_when_all_should_be_ready() {
        let launch = for_gang();
        let ready =
            Node { allocatable: Resources { gpus: 7, ..machine().room }, ..node(&launch, 0, "ready") };
        let mut starts = Node { schedulable: false, ..node(&launch, 2, "starts") };
        starts.allocatable.gpus = 0;
        let found = of(&launch, vec![ready, starts], 130);
        let [launch] = &found[..] else { panic!("there is one: {found:?}") };
        assert_eq!((launch.at, launch.gang().map(|gang| &*gang.name)), (at(160), Some("train")));
        let taint = &launch.kept_for.as_ref().unwrap().1;
        let nodes = launch.nodes.iter();
        let told = nodes
            .map(|node| (&*node.topology[0], node.name.as_str(), node.allocatable.gpus, node.schedulable));
        let told: Vec<_> = told.collect();
        assert!(launch.nodes.iter().all(|node| !node.taints.contains(taint)), "open, once it has started");
        let (first, second, third) = (told[0], told[1], told[2]);
        assert_eq!(first, ("a", "ready", 7, true), "it is as it is");
        assert_eq!((second.0, second.2, second.3), ("a", 8, true));
        assert!(!["ready", "starts"].contains(&second.1), "it has a name of its own");
        assert_eq!(third, ("b", "starts", 8, true), "it is as it will be");
    }

    #[test]
    fn what_is_late_is_expected_in_as_long_again() {
        let expected = |now| of(&for_gang(), Vec::new(), now)[0].at;
        assert_eq!([100, 159, 160, 170, 250].map(expected), [160, 160, 160, 180, 340].map(at));
    }

    #[test]
    fn spares_are_for_everybody() {
        let spare = launch(Purpose::Spare("h100".into()), &["a"]);
        let found = of(&spare, Vec::new(), 130);
        assert_eq!((found.len(), &found[0].kept_for, found[0].nodes.len()), (1, &None, 1));
        assert!(found[0].nodes[0].taints.iter().all(|taint| &*taint.key != FOR_GANG_TAINT));
    }
}
