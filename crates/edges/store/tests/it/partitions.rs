//! One partition of the ledger for each month.

use costing::{Day, Moment};
use futures::future::join_all;
use store::Batch;

use crate::model::{Model, assert_whole, post_all};
use crate::support::{CLUSTER, Database, after, node, node_price, pod, pool, today};

#[tokio::test]
async fn a_run_over_new_year_is_charged_in_both_years() {
    let database = Database::migrated().await;
    let (ledger, superuser) = (database.ledger(), database.superuser());
    // The latest New Year at least a day ago: at most a year back, so partitions can be made for it.
    let yesterday = date(Day(today().0 - 1));
    let new_year =
        Moment::of(yesterday.first_of_year().to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp());
    let mut model = Model { prices: costing::PriceBook::new(vec![node_price("28.8")]), ..Model::default() };
    ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap();
    let batch = Batch {
        pods: vec![pod("a", "n1", "vision", "research", after(new_year, -100))],
        nodes: vec![node("n1", after(new_year, -3_600))],
    };
    model.hear(&batch);
    ledger.record(&batch).await.unwrap();
    post_all(&ledger, after(new_year, -50)).await;
    assert_whole(&superuser, CLUSTER, &model, after(new_year, -50)).await;

    // No new fact; time alone closes the old day and opens the new one.
    post_all(&ledger, after(new_year, 25)).await;
    assert_whole(&superuser, CLUSTER, &model, after(new_year, 25)).await;
    post_all(&ledger, after(new_year, 3 * 86_400)).await;
    assert_whole(&superuser, CLUSTER, &model, after(new_year, 3 * 86_400)).await;

    let year = yesterday.year();
    for (partition, lines) in [(format!("{}_12", year - 1), 3), (format!("{year}_01"), 6)] {
        let sql = format!("SELECT count(*) FROM ledger_line_{partition}");
        assert_eq!(superuser.number(&sql).await, lines, "{partition}");
    }
}

#[tokio::test]
async fn partitions_are_made_once_by_whoever_is_first_and_not_for_any_date() {
    let database = Database::migrated().await;
    let meter = pool(&database.urls.meter);
    let ledgers: Vec<_> = (0..4).map(|_| database.ledger()).collect();
    for rolled in join_all(ledgers.iter().map(|ledger| ledger.roll(today()))).await {
        rolled.unwrap();
    }
    let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'ledger_line'::regclass";
    assert_eq!(database.superuser().number(partitions).await, 2);
    for months in [-30, 6] {
        let refused = format!("SELECT ensure_ledger_partition((now() + interval '{months} months')::date)");
        assert!(meter.run(&refused).await.is_err(), "{months} months from now");
    }
    let reader = pool(&database.urls.reader);
    assert!(reader.run("SELECT ensure_ledger_partition(now()::date)").await.is_err());
    assert_eq!(database.superuser().number(partitions).await, 2);
}

#[tokio::test]
async fn a_node_that_is_older_than_the_ledger_keeps_is_charged_from_there_on() {
    let database = Database::migrated().await;
    let (ledger, superuser) = (database.ledger(), database.superuser());
    let now = after(today().start(), 3_600);
    ledger
        .record(&Batch { pods: vec![], nodes: vec![node("old", after(now, -5 * 365 * 86_400))] })
        .await
        .unwrap();
    post_all(&ledger, now).await;
    let first = superuser.number("SELECT (min(day) - date '1970-01-01')::bigint FROM ledger_line").await;
    let months = superuser.number("SELECT count(DISTINCT date_trunc('month', day)) FROM ledger_line").await;
    assert!(months == 23 || months == 24, "{months}");
    assert!(first < i64::from(today().0) - 600, "{first}");
    // Prices that change from the beginning of time change no more than that.
    ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap();
    let posted = post_all(&ledger, now).await;
    assert_eq!((posted.charges, posted.reversals), (posted.accounts - 1, posted.accounts - 1));
}

fn date(day: Day) -> jiff::civil::Date {
    jiff::Timestamp::from_second(day.start().0).unwrap().to_zoned(jiff::tz::TimeZone::UTC).date()
}
