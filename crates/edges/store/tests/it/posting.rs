//! From records to lines and sums.

use std::time::Duration;

use costing::{Amount, Day, End, NodeRecord, Price};
use store::{Batch, Grouping, Scope};

use crate::model::{Model, assert_whole, net_lines, post_all};
use crate::support::{CLUSTER, Database, after, ended, node, node_price, pod, report_by, today};

#[tokio::test]
async fn a_run_is_charged_while_it_runs_and_when_it_ended() {
    let database = Database::migrated().await;
    let (ledger, reader) = (database.ledger(), database.reader());
    let start = today().start();
    // 8 GPUs for 28.80 an hour: each costs 0.001 a second.
    assert!(ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap());
    assert!(!ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap());
    let running = pod("a", "n1", "vision", "research", after(start, 100));
    ledger.record(&Batch { pods: vec![running.clone()], nodes: vec![node("n1", start)] }).await.unwrap();
    let posted = ledger.post(after(start, 150), 100).await.unwrap();
    assert_eq!((posted.accounts, posted.charges, posted.reversals, posted.problems), (1, 1, 0, 0));

    let scope = Scope::Namespaces(vec!["vision".into()]);
    let cost = reader.run_cost(&scope, "vision", "run-a", after(start, 1_100)).await.unwrap();
    assert_eq!(cost.currency.as_deref(), Some("EUR"));
    assert_eq!(
        (cost.total.amount.to_decimal().to_string(), cost.total.gpu_seconds),
        ("1.000000".into(), 1_000)
    );

    ledger
        .record(&Batch { pods: vec![ended(&running, after(start, 110), after(start, 600))], nodes: vec![] })
        .await
        .unwrap();
    let posted = ledger.post(after(start, 1_000), 100).await.unwrap();
    assert_eq!((posted.accounts, posted.charges, posted.reversals), (1, 3, 0));
    let cost = reader.run_cost(&scope, "vision", "run-a", after(start, 1_100)).await.unwrap();
    assert_eq!(
        (cost.total.amount.to_decimal().to_string(), cost.total.gpu_seconds),
        ("0.500000".into(), 500)
    );
    assert_eq!(cost.total.rate, Amount::ZERO);
    assert_eq!(cost.classes.len(), 2);
    assert_eq!(cost.attempts.len(), 1);

    let by_queue =
        reader.report(&Scope::Everything, &report_by(Grouping::Queue), after(start, 1_000)).await.unwrap();
    let keys: Vec<_> = by_queue.rows.iter().map(|row| row.key.as_deref()).collect();
    assert_eq!(keys, [None, Some("research")]);
    assert_eq!(
        by_queue.total.amount.to_decimal().to_string(),
        "8.000000",
        "a node is charged for every second"
    );
    let (currency, queues) = ledger.queue_spend(today(), after(start, 1_000)).await.unwrap();
    assert_eq!((currency.as_deref(), queues.len(), queues[0].gpu_seconds), (Some("EUR"), 1, 500));
}

#[tokio::test]
async fn a_price_that_goes_and_comes_back_nets_to_zero() {
    let database = Database::migrated().await;
    let (ledger, superuser) = (database.ledger(), database.superuser());
    let start = Day(today().0 - 3).start();
    let now = after(start, 2 * 86_400 + 500);
    ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap();
    let done =
        ended(&pod("a", "n1", "vision", "prod", after(start, 7)), after(start, 11), after(start, 90_001));
    ledger.record(&Batch { pods: vec![done], nodes: vec![node("n1", start)] }).await.unwrap();
    post_all(&ledger, now).await;
    let sums = "SELECT day, class, amount, gpu_seconds, lines FROM daily_spend";
    let (before, lines) = (superuser.rows(sums).await, net_lines(&superuser, CLUSTER).await);

    assert!(ledger.set_prices("EUR", &[node_price("31.123457")]).await.unwrap());
    let changed = post_all(&ledger, now).await;
    assert_eq!((changed.charges, changed.reversals), (lines.len() as u64, lines.len() as u64));
    assert_ne!(superuser.rows(sums).await, before);
    assert!(ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap());
    post_all(&ledger, now).await;
    assert_eq!(superuser.rows(sums).await, before);
    assert_eq!(net_lines(&superuser, CLUSTER).await, lines);
    // All that was added since then sums to zero, in SQL.
    let rest = "SELECT count(*) FROM (SELECT source, sum(amount) AS amount, sum(gpu_seconds) AS seconds FROM ledger_line
                WHERE sequence > (SELECT count(*) FROM ledger_line first
                                  WHERE first.source = ledger_line.source AND first.reverses IS NULL) / 3
                GROUP BY source) AS added WHERE (amount, seconds) <> (0, 0)";
    assert_eq!(superuser.number(rest).await, 0);
}

#[tokio::test]
async fn time_alone_closes_what_was_said_to_end_later_and_a_price_that_was_said_to_change() {
    let database = Database::migrated().await;
    let (ledger, superuser) = (database.ledger(), database.superuser());
    let start = Day(today().0 - 2).start();
    let later = Price { from: after(start, 700), ..node_price("57.6") };
    let prices = vec![node_price("28.8"), later];
    ledger.set_prices("EUR", &prices).await.unwrap();
    let mut model = Model { prices: costing::PriceBook::new(prices), ..Model::default() };
    let batch = Batch {
        pods: vec![
            // Clocks of nodes run ahead: it starts and ends later than now.
            ended(&pod("a", "n1", "vision", "prod", after(start, 100)), after(start, 110), after(start, 300)),
            // Scheduled in the very second of the first post.
            pod("b", "n1", "vision", "prod", after(start, 105)),
        ],
        nodes: vec![node("n1", start)],
    };
    model.hear(&batch);
    ledger.record(&batch).await.unwrap();
    for seconds in [105, 106, 111, 299, 300, 301, 700, 701, 86_399, 86_400, 86_401, 100_000] {
        let now = after(start, seconds);
        post_all(&ledger, now).await;
        assert_whole(&superuser, CLUSTER, &model, now).await;
        assert_eq!(ledger.post(now, 10).await.unwrap().accounts, 0, "nothing is due twice at {seconds} s");
    }
}

#[tokio::test]
async fn a_node_that_was_replaced_unseen_is_charged_until_then() {
    let database = Database::migrated().await;
    let (ledger, superuser) = (database.ledger(), database.superuser());
    let start = Day(today().0 - 4).start();
    let now = after(start, 4 * 86_400);
    let mut model = Model::default();
    let first = node("n1", start);
    let mut second = NodeRecord { uid: "second".into(), ..node("n1", after(start, 90_000)) };
    second.ended = Some(End::Certain(after(start, 100_000)));
    for batch in [
        Batch { pods: vec![pod("a", "n1", "vision", "prod", after(start, 50))], nodes: vec![first] },
        Batch { pods: vec![], nodes: vec![second] },
    ] {
        model.hear(&batch);
        ledger.record(&batch).await.unwrap();
        post_all(&ledger, now).await;
        assert_whole(&superuser, CLUSTER, &model, now).await;
    }
    assert_eq!(superuser.number("SELECT count(*) FROM open_usage").await, 0);
}

#[tokio::test]
async fn a_node_that_a_pod_used_beyond_midnight_is_charged_though_it_was_taken_to_be_gone_before() {
    let database = Database::migrated().await;
    let (ledger, superuser) = (database.ledger(), database.superuser());
    let start = Day(today().0 - 2).start();
    let midnight = after(start, 86_400);
    ledger.roll(start.day()).await.unwrap();
    // The meter was away over midnight: it last saw the node before it, and the pod tells an end after it.
    let gone = NodeRecord { ended: Some(End::Provisional(after(midnight, -600))), ..node("n1", start) };
    let used = pod("a", "n1", "vision", "prod", after(midnight, -900));
    let used = ended(&used, after(midnight, -890), after(midnight, 120));
    let batch = Batch { pods: vec![used], nodes: vec![gone] };
    let mut model = Model::default();
    model.hear(&batch);
    ledger.record(&batch).await.unwrap();
    for seconds in [60, 120, 500, 86_500] {
        let now = after(midnight, seconds);
        post_all(&ledger, now).await;
        assert_whole(&superuser, CLUSTER, &model, now).await;
    }
    let charged = "SELECT sum(gpu_seconds)::bigint FROM ledger_line WHERE pod_uid = 'a'";
    assert_eq!(superuser.number(charged).await, 1_020);
}

#[tokio::test]
async fn a_node_that_is_heard_of_only_when_it_was_taken_to_be_gone_is_charged_while_pods_used_it() {
    let database = Database::migrated().await;
    let (ledger, superuser) = (database.ledger(), database.superuser());
    let start = Day(today().0 - 4).start();
    let now = after(start, 3 * 86_400);
    let mut model = Model::default();
    let used = pod("a", "n1", "vision", "prod", after(start, 500));
    let gone = NodeRecord { ended: Some(End::Provisional(after(start, 700))), ..node("n1", start) };
    for (batch, posted_at) in [
        // The pod's later days are in the future when it is recorded, and over when its node is.
        (
            Batch { pods: vec![ended(&used, after(start, 510), after(start, 90_000))], nodes: vec![] },
            after(start, 600),
        ),
        (Batch::default(), now),
        (Batch { pods: vec![], nodes: vec![gone] }, now),
    ] {
        model.hear(&batch);
        ledger.record(&batch).await.unwrap();
        post_all(&ledger, posted_at).await;
        assert_whole(&superuser, CLUSTER, &model, posted_at).await;
    }
    let charged = "SELECT sum(gpu_seconds)::bigint FROM ledger_line WHERE pod_uid = 'a'";
    assert_eq!(superuser.number(charged).await, 89_500);
}

#[tokio::test]
async fn a_pod_on_no_known_node_is_a_problem_until_the_node_is_known() {
    let database = Database::migrated().await;
    let (ledger, superuser) = (database.ledger(), database.superuser());
    let start = today().start();
    ledger.roll(today()).await.unwrap();
    let batch = Batch { pods: vec![pod("a", "n1", "vision", "prod", after(start, 50))], nodes: vec![] };
    ledger.record(&batch).await.unwrap();
    assert_eq!(ledger.post(after(start, 100), 10).await.unwrap().problems, 1);
    assert_eq!(superuser.number("SELECT count(*) FROM problem WHERE kind = 'OutsideNode'").await, 1);
    ledger.record(&Batch { pods: vec![], nodes: vec![node("n1", start)] }).await.unwrap();
    assert_eq!(ledger.post(after(start, 100), 10).await.unwrap().problems, 0);
    assert_eq!(superuser.number("SELECT count(*) FROM problem").await, 0);
    assert_eq!(superuser.number("SELECT count(*) FROM open_usage").await, 2);
}

#[tokio::test]
async fn a_mark_waits_for_who_posts_the_account_also_if_it_is_marked_already() {
    let database = Database::migrated().await;
    let (ledger, superuser) = (database.ledger(), database.superuser());
    let start = today().start();
    ledger.record(&Batch { pods: vec![], nodes: vec![node("n1", start)] }).await.unwrap();
    ledger.roll(today()).await.unwrap();
    let marked = "SELECT count(*) FROM account WHERE due_at = '-infinity'";
    assert_eq!(superuser.number(marked).await, 1);

    // Like a post: it has read the old prices, and removes the mark when it is done.
    let mut posting = superuser.begin().await.unwrap();
    sqlx::query("UPDATE account SET due_at = NULL").execute(&mut *posting).await.unwrap();
    let pricing = tokio::spawn(async move { ledger.set_prices("EUR", &[node_price("28.8")]).await });
    let waiting = async {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while superuser.number(sql).await == 0 {
            assert!(!pricing.is_finished(), "the mark did not wait");
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
    posting.commit().await.unwrap();
    assert!(pricing.await.unwrap().unwrap());
    assert_eq!(superuser.number(marked).await, 1, "the new price is still to be posted");
}

#[tokio::test]
async fn the_newest_days_are_posted_first() {
    let database = Database::migrated().await;
    let (ledger, superuser) = (database.ledger(), database.superuser());
    let start = Day(today().0 - 3).start();
    ledger.record(&Batch { pods: vec![], nodes: vec![node("n1", start), node("n2", start)] }).await.unwrap();
    let posted = ledger.post(after(today().start(), 60), 2).await.unwrap();
    assert_eq!(posted.accounts, 2);
    let left = "SELECT DISTINCT day FROM account WHERE due_at = '-infinity'";
    assert_eq!(superuser.rows(left).await.len(), 3);
    let newest = "SELECT max(day) - date '1970-01-01' FROM account WHERE due_at = '-infinity'";
    assert_eq!(superuser.number(&format!("SELECT ({newest})::bigint")).await, i64::from(today().0) - 1);
}

#[tokio::test]
async fn what_is_recorded_of_a_pod_can_be_asked_for_after_its_end() {
    let database = Database::migrated().await;
    let ledger = database.ledger();
    let start = today().start();
    let done = ended(&pod("a", "n1", "vision", "prod", start), after(start, 1), after(start, 2));
    ledger.record(&Batch { pods: vec![done.clone()], nodes: vec![] }).await.unwrap();
    assert_eq!(ledger.recorded_pods(&["a", "never"]).await.unwrap(), [done]);
}
