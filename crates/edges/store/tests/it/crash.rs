//! The database crashes while the ledger is written. Nothing is lost, doubled or left in half.

use std::time::Duration;

use costing::{Day, Moment, PriceBook};
use store::{Batch, Ledger, Posted};
use test_cluster::postgres::Postgres;

use crate::model::{Model, assert_whole, still_running};
use crate::support::{CLUSTER, Pool, after, ended, node, node_price, pod, pool, today};

const NODES: i64 = 40;
const DAYS: i32 = 6;
const PODS_PER_NODE: i64 = 6;
/// Each try waits for the database for up to 5 s; a restart takes one or two.
const TRIES_MAX: usize = 40;

#[tokio::test]
async fn after_crashes_between_and_during_posts_the_ledger_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut postgres = Postgres::start(folder.path()).await.unwrap();
    let url = |file: std::path::PathBuf| std::fs::read_to_string(file).unwrap();
    store::migrate(&url(postgres.owner_url_file())).await.unwrap();
    let ledger = Ledger::open(&url(postgres.meter_url_file()), CLUSTER).unwrap();
    let superuser_url = url(postgres.superuser_url_file());
    ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap();
    let mut model = Model { prices: PriceBook::new(vec![node_price("28.8")]), ..Model::default() };

    let start = Day(today().0 - DAYS).start();
    let now = after(start, i64::from(DAYS) * 86_400 - 1_000);
    let mut crashes = 0;
    for round in 0..4 {
        let batch = batch(start, round);
        model.hear(&batch);
        let writer = ledger.clone();
        let before_crash = pool(&superuser_url);
        let lines = line_count(&before_crash).await;
        let work = tokio::spawn(async move {
            until_available(|| writer.record(&batch)).await;
            let mut posted = Posted::default();
            loop {
                let some = until_available(|| writer.post(now, 32)).await;
                posted.charges += some.charges;
                if some.accounts < 32 {
                    return posted;
                }
            }
        });
        // Crash in the middle of the posting: the ledger has grown, but is not complete.
        wait_for_growth(&before_crash, lines).await;
        if round % 2 == 0 {
            postgres.crash().await;
        } else {
            postgres.kill().await;
        }
        crashes += 1;
        postgres.start_again().await.unwrap();
        work.await.unwrap();
        let superuser = pool(&superuser_url);
        assert_whole(&superuser, CLUSTER, &model, now).await;
        let again = ledger.post(now, 1_000).await.unwrap();
        assert_eq!(again, Posted::default(), "nothing is left to post");
    }
    assert_eq!(crashes, 4);
}

#[tokio::test]
async fn a_database_that_is_away_is_told_from_one_that_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let mut postgres = Postgres::start(folder.path()).await.unwrap();
    let url = std::fs::read_to_string(postgres.meter_url_file()).unwrap();
    store::migrate(&std::fs::read_to_string(postgres.owner_url_file()).unwrap()).await.unwrap();
    let ledger = Ledger::open(&url, CLUSTER).unwrap();
    ledger.note_alive(Moment(7)).await.unwrap();
    ledger.note_alive(Moment(5)).await.unwrap();
    assert_eq!(ledger.last_alive().await.unwrap(), Some(Moment(7)), "it never goes back");
    postgres.stop().await;
    let error = ledger.last_alive().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    let error = store::migrate(&url).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    postgres.start_again().await.unwrap();
    assert_eq!(ledger.last_alive().await.unwrap(), Some(Moment(7)), "the same ledger goes on");
    let stranger = Ledger::open(&url.replace("warpyard_meter", "nobody"), CLUSTER).unwrap();
    let error = stranger.last_alive().await.unwrap_err();
    assert!(!error.is_unavailable(), "{error:?}");
}

/// Nodes with pods over some days; each round ends different pods, later and on other nodes.
fn batch(start: Moment, round: i64) -> Batch {
    let mut batch = Batch::default();
    for index in 0..NODES {
        let name = format!("n{index}");
        batch.nodes.push(node(&name, after(start, index)));
        for number in 0..PODS_PER_NODE {
            let at = after(start, 1_000 + number * 70_000 + index);
            let running = pod(&format!("{name}-{number}-{}", round / 2), &name, "vision", "research", at);
            let done = ended(&running, after(at, 30), after(at, 20_000 + round * 1_000));
            batch.pods.push(if number % 4 == round { still_running(&done) } else { done });
        }
    }
    batch
}

async fn line_count(superuser: &Pool) -> i64 {
    superuser.number("SELECT count(*) FROM ledger_line").await
}

/// Waits until there are more lines than there were before.
async fn wait_for_growth(superuser: &Pool, before: i64) {
    let bound = Duration::from_secs(30);
    let growth = async {
        while line_count(superuser).await <= before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(bound, growth).await.expect("the ledger grows while it is posted");
}

/// Tries again while the database is away. Any other failure is one.
async fn until_available<T, F: Future<Output = Result<T, store::Error>>>(attempt: impl Fn() -> F) -> T {
    for _ in 0..TRIES_MAX {
        match attempt().await {
            Ok(done) => return done,
            Err(error) if error.is_unavailable() => tokio::time::sleep(Duration::from_millis(200)).await,
            Err(error) => panic!("not a matter of trying again: {error:?}"),
        }
    }
    panic!("the database stayed away");
}
