use api_types::capacity::{
    BoughtMachines, CapacityView, GangName, LaunchView, OrderedMachines, RefusedView, SpendingView,
};
use jiff::Timestamp;

use super::{capacity, note};

fn now() -> Timestamp {
    "2026-01-01T12:14:00Z".parse().expect("a time")
}

fn gang(name: &str, run: Option<&str>) -> GangName {
    GangName { namespace: "nlp".to_owned(), name: name.to_owned(), run: run.map(str::to_owned) }
}

fn launch(gang: Option<GangName>, ready_by: &str) -> LaunchView {
    let ordered = |count, capacity_type: &str, rack: Option<&str>| OrderedMachines {
        count,
        machine_type: "h100".to_owned(),
        capacity_type: capacity_type.to_owned(),
        zone: "a".to_owned(),
        block: None,
        rack: rack.map(str::to_owned),
    };
    LaunchView {
        gang,
        machines: vec![ordered(3, "spot", Some("r1")), ordered(1, "on-demand", None)],
        ready: 2,
        of: 4,
        since: "2026-01-01T12:13:00Z".to_owned(),
        ready_by: ready_by.to_owned(),
        per_hour: "117.600000".to_owned(),
        why: "the cheapest \u{1b}[31mof 12".to_owned(),
    }
}

fn view() -> CapacityView {
    let machines = BoughtMachines {
        machine_type: "h100".to_owned(),
        capacity_type: "spot".to_owned(),
        count: 12,
        starting: 3,
        idle: 1,
        leaving: 0,
        per_hour: "352.80".to_owned(),
    };
    CapacityView {
        enabled: true,
        note: None,
        decided_at: Some("2026-01-01T12:13:59Z".to_owned()),
        buying: vec![
            launch(Some(gang("llama-1", Some("llama"))), "2026-01-01T12:15:30Z"),
            launch(None, "2026-01-01T12:13:50Z"),
        ],
        buying_in_all: 2,
        refused: vec![RefusedView { gang: gang("bert", None), why: "no machine type suits".to_owned() }],
        refused_in_all: 1,
        from_pools: 0,
        machines: Some(vec![machines]),
        spending: Some(SpendingView {
            machines: 12,
            most_machines: 16,
            per_hour: "352.800000".to_owned(),
            most_per_hour: "500".to_owned(),
        }),
    }
}

#[test]
fn what_is_bought_refused_and_there_are_tables() {
    insta::assert_snapshot!(capacity(&view(), now()), @r"
    FOR         MACHINES                                         READY   SINCE   READY IN   PER HOUR   WHY
    nlp/llama   3 × h100 spot in a/r1, 1 × h100 on-demand in a   2/4     60s     90s          117.60   the cheapest �[31mof 12
    (spares)    3 × h100 spot in a/r1, 1 × h100 on-demand in a   2/4     60s     10s late     117.60   the cheapest �[31mof 12

    NOT BOUGHT FOR   WHY
    nlp/bert         no machine type suits

    MACHINES   BOUGHT   COUNT   STARTING   BUSY   IDLE   LEAVING   PER HOUR
    h100       spot        12          3      8      1         0     352.80

    12 of at most 16 machines, 352.80 of at most 500.00 an hour.
    ");
    assert_eq!(capacity(&CapacityView::default(), now()), "");
}

#[test]
fn what_is_not_shown_is_said() {
    assert_eq!(note(&view(), 50), "");
    let hidden = CapacityView { buying_in_all: 3, refused_in_all: 3, from_pools: 1, ..view() };
    insta::assert_snapshot!(note(&hidden, 50), @r"
    1 gang of one waits for a pool of Karpenter to buy a node.
    1 launch and 2 refusals are not shown; you may not see them.
    ");
    insta::assert_snapshot!(note(&hidden, 2), @r"
    1 gang of one waits for a pool of Karpenter to buy a node.
    1 launch and 2 refusals are not shown; --limit shows more of those that you may see.
    ");
    insta::assert_snapshot!(note(&CapacityView { enabled: true, ..CapacityView::default() }, 50), @"Nothing is being bought, and no run waits for machines.");
    let off = CapacityView::nothing(false, "there is no MachineType to buy");
    insta::assert_snapshot!(note(&off, 50), @r"
    No machines are bought: there is no MachineType to buy.

    hint: administrators read docs/guides/buy-machines.md
    ");
    assert_eq!(
        note(&CapacityView::nothing(true, "no decision yet"), 50),
        "Nothing is being bought: no decision yet.\n"
    );
    let idle = CapacityView { buying: Vec::new(), buying_in_all: 0, ..view() };
    assert_eq!(note(&idle, 50), "", "the refusals say why");
    let idle = CapacityView { refused: Vec::new(), refused_in_all: 0, ..idle };
    insta::assert_snapshot!(note(&idle, 50), @"Nothing is being bought, and no run waits for machines.");
    let otherwise = CapacityView { note: Some("3 gangs wait for quota".to_owned()), from_pools: 2, ..idle };
    insta::assert_snapshot!(note(&otherwise, 50), @r"
    Nothing is being bought: 3 gangs wait for quota.
    2 gangs of one wait for a pool of Karpenter to buy a node.
    ");
}
