//! The view of a decision about machines, for people. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api_types::capacity::{
    BoughtMachines, CapacityView, GangName, LaunchView, OrderedMachines, RefusedView, SpendingView,
};
use capacity::Decision;
use capacity::caps::Buying;
use capacity::catalogue::OfferKey;
use capacity::claim::{Claim, LaunchKey, Purpose};
use capacity::holdings::holdings;
use capacity::launches::UnderWay;
use capacity::memory::{Memory, Ordered};
use capacity::money::money;
use cluster_model::plan::Plan;
use cluster_model::{ClusterState, GangKey};
use jiff::Timestamp;

/// The reason of spares. Their machines and price are shown next to it.
const FOR_SPARES: &str = "kept idle as spares, as the MachineType says";

/// The whole view, not yet filtered for a reader.
pub fn view(
    decision: &Decision,
    claims: &[Claim],
    memory: &Memory,
    (state, plan): (&ClusterState, &Plan),
    (buying, now): (&Buying, Timestamp),
) -> CapacityView {
    let for_gangs =
        decision.under_way.iter().map(|(gang, under_way)| launch(Some(name(gang, state)), under_way));
    let spares = memory.ordered.iter().filter_map(|(key, ordered)| spares(key, ordered, claims));
    let under_way: Vec<LaunchView> = for_gangs.chain(spares).collect();
    let stopped = buying.stopped.as_deref().map(str::to_owned);
    let refused = decision.refused.iter();
    let mut refused: Vec<RefusedView> =
        refused.map(|it| RefusedView { gang: name(&it.gang, state), why: it.why.clone() }).collect();
    refused.sort_by(|one, other| key(&one.gang).cmp(&key(&other.gang)));
    let machines = holdings(claims, decision, memory).into_iter();
    let machines = machines.map(|((machine_type, capacity_type), sum)| BoughtMachines {
        machine_type: machine_type.to_string(),
        capacity_type: capacity_type.as_str().to_owned(),
        count: sum.count,
        starting: sum.starting,
        idle: sum.idle,
        leaving: sum.leaving,
        per_hour: money(sum.price_micros),
    });
    CapacityView {
        enabled: true,
        note: if under_way.is_empty() { stopped.or_else(|| nothing_because(decision, plan)) } else { None },
        decided_at: Some(now.to_string()),
        buying_in_all: count(under_way.len()),
        buying: under_way,
        refused_in_all: count(refused.len()),
        refused,
        from_pools: count(decision.from_pools.len()),
        machines: Some(machines.collect()),
        spending: spending(claims, buying),
    }
}

fn spending(claims: &[Claim], buying: &Buying) -> Option<SpendingView> {
    let per_hour_micros: i64 = claims.iter().map(|claim| claim.price_micros).sum();
    Some(SpendingView {
        machines: count(claims.len()),
        most_machines: buying.cap.machines?,
        per_hour: money(per_hour_micros),
        most_per_hour: money(buying.cap.per_hour_micros?),
    })
}

/// Why nothing is bought although gangs wait that the decision does not name.
fn nothing_because(decision: &Decision, plan: &Plan) -> Option<String> {
    let refused: BTreeSet<&GangKey> = decision.refused.iter().map(|refused| &refused.gang).collect();
    let is_told = |gang: &GangKey| refused.contains(gang) || decision.from_pools.contains(gang);
    let others = plan.waiting.iter().filter(|waiting| !is_told(&waiting.gang)).count();
    let which = match (others, refused.is_empty() && decision.from_pools.is_empty()) {
        (0, _) => return None,
        (1, true) => "1 gang waits".to_owned(),
        (1, false) => "1 other gang waits".to_owned(),
        (others, true) => format!("{others} gangs wait"),
        (others, false) => format!("{others} other gangs wait"),
    };
    Some(format!("{which} for something that machines would not change: `warpyard why RUN` says why"))
}

fn launch(gang: Option<GangName>, under_way: &UnderWay) -> LaunchView {
    LaunchView {
        gang,
        machines: under_way.machines.iter().map(|(offer, count)| ordered_machines(offer, *count)).collect(),
        ready: under_way.ready,
        of: under_way.of,
        since: under_way.since.to_string(),
        ready_by: under_way.ready_by.to_string(),
        per_hour: money(under_way.price_micros),
        why: beside(&under_way.why, &under_way.machines, under_way.price_micros),
    }
}

/// The reason without the machines and the price, which are shown next to it.
fn beside(why: &str, machines: &BTreeMap<OfferKey, u32>, price_micros: i64) -> String {
    let machines: Vec<String> = machines.iter().map(|(offer, count)| format!("{count} × {offer}")).collect();
    let rest = why.strip_prefix(&machines.join(", ")).unwrap_or(why);
    let rest = rest.strip_prefix(&format!(" at {} an hour", money(price_micros))).unwrap_or(rest);
    rest.trim_start().to_owned()
}

/// Spares on their way. No gang waits for them.
fn spares(key: &LaunchKey, ordered: &Ordered, claims: &[Claim]) -> Option<LaunchView> {
    let Purpose::Spare(_) = key.purpose else { return None };
    let Ordered { launch, at, .. } = ordered;
    // All spares of a launch are of one offer.
    let (offer, _) = launch.machines.first()?;
    let of = count(launch.machines.len());
    let ready = claims.iter().filter(|claim| claim.launch == *key && claim.ready).count();
    Some(LaunchView {
        gang: None,
        machines: vec![ordered_machines(offer, of)],
        ready: count(ready),
        of,
        since: at.to_string(),
        ready_by: launch.ready_by.to_string(),
        per_hour: money(launch.price_micros),
        why: FOR_SPARES.to_owned(),
    })
}

fn ordered_machines(offer: &OfferKey, count: u32) -> OrderedMachines {
    let place = &offer.place;
    OrderedMachines {
        count,
        machine_type: offer.machine.to_string(),
        capacity_type: place.capacity_type.as_str().to_owned(),
        zone: place.zone.to_string(),
        block: place.block.as_deref().map(str::to_owned),
        rack: place.rack.as_deref().map(str::to_owned),
    }
}

fn name(gang: &GangKey, state: &ClusterState) -> GangName {
    let lead = state.gang(gang).map(|gang| state.pod(gang.lead()).pod());
    GangName {
        namespace: gang.namespace.to_string(),
        name: gang.name.to_string(),
        run: lead.and_then(|pod| pod.run.as_deref()).map(str::to_owned),
    }
}

fn key(gang: &GangName) -> (&str, &str) {
    (&gang.namespace, &gang.name)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use api_types::machine_type::CapacityType;
    use capacity::Decision;
    use capacity::buy::RefusedGang;
    use capacity::caps::{Buying, Cap};
    use capacity::catalogue::{OfferKey, OfferPlace};
    use capacity::claim::{Claim, Launch, LaunchKey, Purpose};
    use capacity::memory::{Memory, Ordered};
    use cluster_model::plan::Plan;
    use cluster_model::{ClusterChange, ClusterState, GangKey, Pod, PodKey};
    use jiff::Timestamp;
    use serde_json::json;

    use super::{FOR_SPARES, beside, view};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn launch(purpose: Purpose, size: usize) -> Launch {
        let place = OfferPlace {
            zone: "a".into(),
            block: None,
            rack: Some("r1".into()),
            capacity_type: CapacityType::Spot,
        };
        Launch {
            key: LaunchKey { purpose, number: 100 },
            queue: None,
            machines: vec![(OfferKey { machine: "h100".into(), place }, 29_400_000); size],
            ready_by: at(160),
            price_micros: 29_400_000 * i64::try_from(size).unwrap(),
            why: "because".to_owned(),
        }
    }

    fn claim(launch: &Launch, index: usize, ready: bool) -> Claim {
        Claim {
            name: launch.claim_name(index),
            launch: launch.key.clone(),
            queue: None,
            of: u32::try_from(launch.machines.len()).unwrap(),
            offer: launch.machines[index].0.clone(),
            price_micros: launch.machines[index].1,
            created: at(100),
            node: None,
            ready,
            taken_up: true,
            leaving: false,
            trouble: None,
        }
    }

    /// A plan after which this many gangs wait.
    fn plan(gangs: usize) -> Plan {
        let mut state = ClusterState::default();
        for number in 0..gangs {
            let (name, gang) = (format!("waits-{number}"), GangKey::new("nlp", format!("waits-{number}")));
            state.apply(ClusterChange::Pod(Pod::new(PodKey::new("nlp", name.clone(), name), gang)));
        }
        placement::plan(&mut state, &placement::Policy::default(), at(100))
    }

    #[test]
    fn if_nothing_is_bought_though_gangs_wait_it_is_said_that_they_wait_for_something_else() {
        let note = |decision: &Decision, gangs| {
            let (state, memory) = (ClusterState::default(), Memory::default());
            view(decision, &[], &memory, (&state, &plan(gangs)), (&Buying::default(), at(101))).note
        };
        let starts_with = |note: Option<String>, text: &str| note.is_some_and(|note| note.starts_with(text));
        assert_eq!(note(&Decision::default(), 0), None);
        assert!(starts_with(note(&Decision::default(), 1), "1 gang waits for something"));
        assert!(starts_with(note(&Decision::default(), 3), "3 gangs wait for something"));
        let refused = RefusedGang { gang: GangKey::new("nlp", "waits-0"), why: "dear".to_owned() };
        let decision = Decision {
            refused: vec![refused],
            from_pools: [GangKey::new("nlp", "waits-1")].into(),
            ..Decision::default()
        };
        assert_eq!(note(&decision, 2), None, "they are told of by themselves");
        assert!(starts_with(note(&decision, 3), "1 other gang waits"));
        let gang = Purpose::Gang(GangKey::new("nlp", "waits-0"));
        let under_way = launch(gang, 2).under_way(at(100)).into_iter().collect();
        assert_eq!(note(&Decision { under_way, ..Decision::default() }, 3), None, "something is bought");
    }

    #[test]
    fn why_does_not_repeat_what_stands_beside_it() {
        let offer = launch(Purpose::Spare("h100".into()), 1).machines[0].0.clone();
        let machines = [(offer, 2)].into();
        for (why, expected) in [
            ("2 × spot h100 in a/r1 at 58.80 an hour for 2 members of 8 GPUs", "for 2 members of 8 GPUs"),
            ("ordered by an earlier leader", "ordered by an earlier leader"),
        ] {
            assert_eq!(beside(why, &machines, 58_800_000), expected);
        }
    }

    #[test]
    fn a_decision_is_told_with_for_whom_and_why_and_at_what_price() {
        let (train, refused) = (GangKey::new("nlp", "train-1"), GangKey::new("nlp", "big"));
        let mut state = ClusterState::default();
        let pod = Pod::new(PodKey::new("nlp", "train-1-0", "uid"), train.clone());
        state.apply(ClusterChange::Pod(Pod { run: Some("train".into()), ..pod }));
        let (for_gang, spare) = (launch(Purpose::Gang(train), 2), launch(Purpose::Spare("h100".into()), 1));
        let mut memory = Memory::default();
        let ordered = Ordered { launch: spare.clone(), at: at(100), seen: [].into() };
        memory.ordered.insert(spare.key.clone(), ordered);
        let claims = [claim(&for_gang, 0, true), claim(&for_gang, 1, false), claim(&spare, 0, true)];
        let decision = Decision {
            under_way: for_gang.under_way(at(100)).into_iter().collect(),
            refused: vec![RefusedGang { gang: refused.clone(), why: "dear".to_owned() }],
            from_pools: [GangKey::new("nlp", "one")].into(),
            ..Decision::default()
        };
        let cap = Cap { machines: Some(4), per_hour_micros: Some(100_000_000) };
        let buying = Buying { cap, stopped: None };
        let told =
            serde_json::to_value(view(&decision, &claims, &memory, (&state, &plan(0)), (&buying, at(101))))
                .unwrap();
        let machines = |count| {
            json!([{
                "count": count, "machineType": "h100", "capacityType": "spot", "zone": "a", "rack": "r1",
            }])
        };
        let expect = json!({
            "enabled": true,
            "decidedAt": "1970-01-01T00:01:41Z",
            "buying": [
                {
                    "gang": { "namespace": "nlp", "name": "train-1", "run": "train" },
                    "machines": machines(2), "ready": 0, "of": 2, "perHour": "58.80", "why": "because",
                    "since": "1970-01-01T00:01:40Z", "readyBy": "1970-01-01T00:02:40Z",
                },
                {
                    "machines": machines(1), "ready": 1, "of": 1, "perHour": "29.40", "why": FOR_SPARES,
                    "since": "1970-01-01T00:01:40Z", "readyBy": "1970-01-01T00:02:40Z",
                },
            ],
            "buyingInAll": 2,
            "refused": [{ "gang": { "namespace": "nlp", "name": "big" }, "why": "dear" }],
            "refusedInAll": 1,
            "fromPools": 1,
            "machines": [{
                "machineType": "h100", "capacityType": "spot", "count": 3, "starting": 3, "idle": 0,
                "leaving": 0, "perHour": "88.20",
            }],
            "spending": {
                "machines": 3, "mostMachines": 4, "perHour": "88.20", "mostPerHour": "100.00",
            },
        });
        assert_eq!(told, expect);
    }
}
