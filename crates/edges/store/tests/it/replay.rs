//! The ledger is the fold, whatever the order of events, their repeats, the replica, and the times of posting.

use costing::{Day, End, Moment, NodeRecord, PodRecord, Price, PriceBook};
use futures::future::join_all;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use store::{Batch, Ledger};

use crate::model::{Model, assert_whole, post_all, vanished};
use crate::support::{CLUSTER, Database, after, node, node_price, pod, spot, today};

const DAYS: i64 = 3;
const DAY: i64 = 86_400;

/// One thing that happens to the ledger.
#[derive(Clone, Debug)]
enum Step {
    /// These facts are recorded, through one of two replicas.
    Record(Batch, bool),
    /// Prices are set.
    Prices(Vec<Price>),
    /// Posted when this percentage of the time is over.
    Post(i64),
}

#[test]
fn the_ledger_is_the_fold_of_what_was_said_in_any_order() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(Database::migrated());
    let config = Config { cases: 16, failure_persistence: None, max_shrink_iters: 60, ..Config::default() };
    let cases = std::cell::Cell::new(0);
    TestRunner::new(config)
        .run(&steps(), |steps| {
            // A cluster of its own for each case, in one database.
            cases.set(cases.get() + 1);
            runtime.block_on(play(&database, &format!("case-{}", cases.get()), steps));
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn two_replicas_with_the_same_batches_at_once_write_them_once() {
    let database = Database::migrated().await;
    let (one, other) = (database.ledger(), database.ledger());
    let start = start();
    let batches: Vec<Batch> = (0..10_u8)
        .map(|round| Batch {
            nodes: (0..5).map(|n| node(&format!("n{n}"), start)).collect(),
            // Every second batch is in the other order.
            pods: {
                let mut pods: Vec<_> = (0..40)
                    .map(|index| {
                        let pod = pod(
                            &format!("p{index}"),
                            &format!("n{}", index % 5),
                            "vision",
                            "prod",
                            after(start, index),
                        );
                        PodRecord {
                            ended: (round > 5).then_some(End::Certain(after(start, 1_000 + index))),
                            ..pod
                        }
                    })
                    .collect();
                if round % 2 == 0 {
                    pods.reverse();
                }
                pods
            },
        })
        .collect();
    let now = after(start, DAY + 50);
    let mut model = Model::default();
    for batch in &batches {
        model.hear(batch);
    }
    let work = |ledger: Ledger| {
        let batches = batches.clone();
        async move {
            for batch in &batches {
                ledger.record(batch).await.unwrap();
                ledger.post(now, 3).await.unwrap();
            }
        }
    };
    join_all([work(one.clone()), work(other)]).await;
    post_all(&one, now).await;
    let superuser = database.superuser();
    assert_whole(&superuser, CLUSTER, &model, now).await;
    // Each pod became known, and ended: two events, whichever replica was first.
    assert_eq!(superuser.number("SELECT count(*) FROM usage_event WHERE namespace IS NOT NULL").await, 80);
    assert_eq!(superuser.number("SELECT count(*) FROM usage_event WHERE namespace IS NULL").await, 5);
}

#[tokio::test]
async fn the_same_again_changes_nothing() {
    let database = Database::migrated().await;
    let (ledger, superuser, start) = (database.ledger(), database.superuser(), start());
    let batch = Batch {
        pods: vec![vanished(&pod("a", "n1", "vision", "prod", after(start, 5)), after(start, 90))],
        nodes: vec![node("n1", start)],
    };
    let now = after(start, 100);
    let everything = async || {
        let mut tables = Vec::new();
        for table in
            ["pod_usage", "node_usage", "usage_event", "account", "ledger_line", "open_usage", "daily_spend"]
        {
            tables.push(superuser.rows(&format!("SELECT * FROM {table}")).await);
        }
        tables
    };
    ledger.record(&batch).await.unwrap();
    post_all(&ledger, now).await;
    let before = everything().await;
    for _ in 0..2 {
        ledger.record(&batch).await.unwrap();
        assert_eq!(post_all(&ledger, now).await, store::Posted::default());
    }
    assert_eq!(everything().await, before);
    assert_eq!(ledger.open_pods().await.unwrap(), []);
    assert_eq!(ledger.open_nodes().await.unwrap(), batch.nodes);
}

async fn play(database: &Database, cluster: &str, steps: Vec<Step>) {
    let superuser = database.superuser();
    let replicas = [(); 2].map(|()| Ledger::open(&database.urls.meter, cluster).unwrap());
    let mut model = Model::default();
    let mut now = start();
    for step in steps {
        match step {
            Step::Record(batch, second) => {
                model.hear(&batch);
                replicas[usize::from(second)].record(&batch).await.unwrap();
            }
            Step::Prices(prices) => {
                replicas[0].set_prices("EUR", &prices).await.unwrap();
                model.prices = PriceBook::new(prices);
            }
            Step::Post(part) => {
                // Time does not go back.
                now = now.max(after(start(), part * DAYS * DAY / 100));
                post_all(&replicas[1], now).await;
                assert_whole(&superuser, cluster, &model, now).await;
            }
        }
    }
    post_all(&replicas[0], after(start(), DAYS * DAY)).await;
    assert_whole(&superuser, cluster, &model, after(start(), DAYS * DAY)).await;
}

fn start() -> Moment {
    Day(today().0 - 4).start()
}

/// Facts about some nodes and pods, some of them twice, in any order and in batches; posts and prices between them.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let facts = (prop::collection::vec(node_facts(), 1..4), prop::collection::vec(pod_facts(), 0..8));
    let facts = facts.prop_flat_map(|(nodes, pods)| {
        let mut facts: Vec<Batch> = Vec::new();
        facts.extend(nodes.into_iter().flatten().map(|node| Batch { nodes: vec![node], pods: vec![] }));
        facts.extend(pods.into_iter().enumerate().flat_map(|(index, pods)| {
            let pods = pods.into_iter().map(move |pod| PodRecord { uid: format!("pod-{index}"), ..pod });
            pods.map(|pod| Batch { nodes: vec![], pods: vec![pod] })
        }));
        let twice: Vec<Batch> = facts.iter().chain(facts.iter().step_by(3)).cloned().collect();
        Just(twice).prop_shuffle()
    });
    (facts, prop::collection::vec((any::<u8>(), any::<bool>(), 0_i64..=100), 40)).prop_map(
        |(facts, choices)| {
            let mut steps = Vec::new();
            for (fact, (choice, second, part)) in facts.into_iter().zip(choices.into_iter().cycle()) {
                match (steps.last_mut(), choice % 4) {
                    // In one batch with the one before.
                    (Some(Step::Record(batch, _)), 0) => {
                        batch.pods.extend(fact.pods);
                        batch.nodes.extend(fact.nodes);
                    }
                    (_, 1) => steps.extend([Step::Record(fact, second), Step::Post(part)]),
                    (_, 2) if choice > 128 => {
                        steps.extend([Step::Prices(prices(choice, part)), Step::Record(fact, second)]);
                    }
                    _ => steps.push(Step::Record(fact, second)),
                }
            }
            steps
        },
    )
}

/// None, one, or one that is followed by another in the middle of the time.
fn prices(choice: u8, part: i64) -> Vec<Price> {
    let second = Price { from: after(start(), part * DAYS * DAY / 100), ..node_price("3.17") };
    match choice % 3 {
        0 => vec![],
        1 => vec![node_price("28.8")],
        _ => vec![node_price("28.8"), second],
    }
}

/// A node becomes known, perhaps as a machine that we bought, and perhaps ends. Names are few, so that some nodes follow others of their name.
fn node_facts() -> impl Strategy<Value = Vec<NodeRecord>> {
    let times = (0..DAYS * DAY, prop::option::of(1..2 * DAY), any::<bool>());
    let bought = prop::option::of(prop::option::of(0..DAY));
    (0_u8..2, times, bought).prop_map(|(name, (created, life, certain), bought)| {
        let known = NodeRecord {
            uid: format!("node-{name}-{created}"),
            ..node(&format!("n{name}"), after(start(), created))
        };
        let end = life.map(|life| after(start(), created + life));
        let end = end.map(|at| if certain { End::Certain(at) } else { End::Provisional(at) });
        let purchase = |opens: Option<i64>| Some(spot(opens.map(|opens| after(start(), created + opens))));
        let bought = bought.map(|opens| NodeRecord { bought: purchase(opens), ..known.clone() });
        let facts = [known.clone(), NodeRecord { ended: end, ..known }];
        facts.into_iter().chain(bought).collect()
    })
}

/// A pod is scheduled, started, perhaps in vain, perhaps taken for ended, and perhaps ended.
fn pod_facts() -> impl Strategy<Value = Vec<PodRecord>> {
    let times = (0..DAYS * DAY, 0_i64..3_000, prop::option::of(1..DAY), prop::option::of(1..DAY));
    (0_u8..2, 0_u32..4, times, prop::option::of(0..DAY)).prop_map(|(name, gpus, times, lost)| {
        let (scheduled, starting, vanishes, ends) = times;
        let scheduled_at = after(start(), scheduled);
        let known = PodRecord { gpus, ..pod("", &format!("n{name}"), "vision", "prod", scheduled_at) };
        let started = PodRecord { started_at: Some(after(scheduled_at, starting)), ..known.clone() };
        let mut facts = vec![known, started.clone()];
        let lost_from = lost.map(|seconds| after(scheduled_at, seconds));
        facts.extend(lost_from.map(|_| PodRecord { lost_from, ..started.clone() }));
        facts.extend(vanishes.map(|life| vanished(&started, after(scheduled_at, life))));
        facts.extend(ends.map(|life| PodRecord {
            ended: Some(End::Certain(after(scheduled_at, life))),
            ..started.clone()
        }));
        facts
    })
}
