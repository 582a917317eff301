//! Lost work of an attempt moves to another class, to the second, and no sum changes.

use costing::{Class, HourlyPrice, Moment, PodRecord};
use store::{Batch, LostUse, RunCost, Scope};

use crate::model::{Model, assert_whole, post_all};
use crate::support::{CLUSTER, Database, after, ended, node, node_price, pod, today};

/// Two pods of the first attempt of a run, one of the second, and one of another run; all on one node of eight GPUs.
fn batch(start: Moment) -> Batch {
    let of = |uid: &str, run: &str, attempt: u32, from: i64, to: i64| {
        let pod = pod(uid, "n1", "vision", "prod", after(start, from));
        let pod = PodRecord { run: Some(run.to_owned()), attempt: Some(attempt), ..pod };
        ended(&pod, after(start, from + 10), after(start, to))
    };
    let pods = vec![
        of("a", "train", 1, 0, 1_000),
        of("b", "train", 1, 0, 1_003),
        of("c", "train", 2, 2_000, 3_000),
        of("d", "other", 1, 0, 1_000),
    ];
    Batch { pods, nodes: vec![node("n1", start)] }
}

fn lost(attempt: u32, from: Moment) -> LostUse {
    LostUse { namespace: "vision".to_owned(), run: "train".to_owned(), attempt, from }
}

fn classes(cost: &RunCost) -> Vec<(Class, i64)> {
    cost.classes.iter().map(|(class, row)| (*class, row.gpu_seconds)).collect()
}

#[tokio::test]
async fn what_came_after_the_loaded_checkpoint_moves_to_lost_to_the_second() {
    let database = Database::migrated().await;
    let (ledger, reader, superuser) = (database.ledger(), database.reader(), database.superuser());
    let start = today().start();
    let now = after(start, 4_000);
    ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap();
    ledger.record(&batch(start)).await.unwrap();
    post_all(&ledger, now).await;
    let cost =
        async |run: &'static str| reader.run_cost(&Scope::Everything, "vision", run, now).await.unwrap();
    let before = cost("train").await;
    assert_eq!(classes(&before), [(Class::Productive, 990 + 993 + 990), (Class::Starting, 30)]);

    ledger.record_lost(&[lost(1, after(start, 983))]).await.unwrap();
    let posted = post_all(&ledger, now).await;
    assert_eq!((posted.charges, posted.reversals), (4, 2), "two lines are taken back, each is two then");
    let after_first = cost("train").await;
    assert_eq!(
        classes(&after_first),
        [(Class::Productive, 973 + 973 + 990), (Class::Starting, 30), (Class::Lost, 17 + 20)]
    );
    assert_eq!(after_first.total.amount, before.total.amount, "it costs what it cost");
    // A GPU costs a thousandth a second; 10 s of the second attempt started.
    let interruptions = |gpu_seconds| HourlyPrice::parse("3.6").unwrap().per_second() * gpu_seconds;
    assert_eq!(before.total.interruptions, interruptions(10));
    assert_eq!(after_first.total.interruptions, interruptions(10 + 17 + 20));
    assert_eq!(classes(&cost("other").await), [(Class::Productive, 990), (Class::Starting, 10)]);

    // Less changes nothing; more does: another attempt has gone back further.
    for from in [983, 990] {
        ledger.record_lost(&[lost(1, after(start, from))]).await.unwrap();
        assert_eq!(post_all(&ledger, now).await, store::Posted::default(), "{from}");
    }
    ledger.record_lost(&[lost(1, after(start, 500)), lost(2, after(start, 1_500))]).await.unwrap();
    post_all(&ledger, now).await;
    let all = cost("train").await;
    assert_eq!(
        classes(&all),
        [(Class::Productive, 490 + 490), (Class::Starting, 30), (Class::Lost, 500 + 503 + 990)]
    );
    assert_eq!(all.total.amount, before.total.amount);

    let mut model = Model { prices: costing::PriceBook::new(vec![node_price("28.8")]), ..Model::default() };
    model.hear(&batch(start));
    for (uid, from) in [("a", 500), ("b", 500), ("c", 1_500)] {
        let pod = model.pods.get_mut(uid).unwrap();
        pod.lost_from = Some(after(start, from));
    }
    assert_whole(&superuser, CLUSTER, &model, now).await;
}

#[tokio::test]
async fn nothing_is_noted_of_pods_that_had_ended_or_are_not_known() {
    let database = Database::migrated().await;
    let (ledger, superuser) = (database.ledger(), database.superuser());
    let start = today().start();
    ledger.record(&batch(start)).await.unwrap();
    let events = || superuser.number("SELECT count(*) FROM usage_event");
    let before = events().await;
    // As for an earlier run of the same name, whose pods had ended.
    ledger.record_lost(&[lost(1, after(start, 1_003)), lost(7, start)]).await.unwrap();
    ledger.record_lost(&[]).await.unwrap();
    assert_eq!(events().await, before);
}
