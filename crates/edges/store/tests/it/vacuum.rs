//! Tables that change all the time stay small.

use store::Batch;

use crate::support::{Database, after, ended, node, node_price, pod, today};

#[tokio::test]
async fn open_use_that_comes_and_goes_leaves_nothing_after_a_vacuum() {
    const PODS: i64 = 60;
    let database = Database::migrated().await;
    let (ledger, superuser) = (database.ledger(), database.superuser());
    let start = today().start();
    ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap();
    ledger.record(&Batch { pods: vec![], nodes: vec![node("n1", start)] }).await.unwrap();
    let mut pages_after_first_half = 0;
    for index in 0..PODS {
        let at = after(start, 10 * index);
        let running = pod(&format!("pod-{index}"), "n1", "vision", "research", at);
        ledger.record(&Batch { pods: vec![running.clone()], nodes: vec![] }).await.unwrap();
        ledger.post(after(at, 5), 10).await.unwrap();
        let done = ended(&running, after(at, 2), after(at, 7));
        ledger.record(&Batch { pods: vec![done], nodes: vec![] }).await.unwrap();
        ledger.post(after(at, 9), 10).await.unwrap();
        if index == PODS / 2 {
            superuser.run("VACUUM (ANALYZE) open_usage").await.unwrap();
            pages_after_first_half = pages(&superuser).await;
        }
    }
    for table in
        ["open_usage", "account", "daily_spend", "run_spend", "pod_usage", "ledger_line", "usage_event"]
    {
        superuser.run(&format!("VACUUM (ANALYZE) {table}")).await.unwrap();
    }
    assert_eq!(superuser.number("SELECT count(*) FROM open_usage").await, 1, "the idle node");
    assert!(pages(&superuser).await <= pages_after_first_half.max(2), "space is used again");
    superuser.run("CREATE EXTENSION pgstattuple").await.unwrap();
    let dead = "SELECT dead_tuple_count FROM pgstattuple('open_usage')";
    assert_eq!(superuser.number(dead).await, 0);
}

async fn pages(superuser: &crate::support::Pool) -> i64 {
    superuser.number("SELECT pg_relation_size('open_usage') / 8192").await
}
