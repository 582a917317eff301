//! Runs that have ended are found again, page by page, by whoever may see them.

use serde_json::json;
use store::{ArchiveQuery, ArchivedRun, Place, Reader, Scope};

use crate::support::Database;

pub fn ended_run(namespace: &str, name: &str, queue: &str, created_second: i64) -> ArchivedRun {
    ArchivedRun {
        uid: format!("{namespace}/{name}/{created_second}"),
        place: Place { created_second, namespace: namespace.to_owned(), name: name.to_owned() },
        queue: Some(queue.to_owned()),
        user: Some(format!("user-of-{namespace}")),
        phase: if created_second % 2 == 0 { "Succeeded" } else { "Failed" }.to_owned(),
        document: json!({ "namespace": namespace, "name": name, "created": created_second }),
    }
}

/// Forty runs of three namespaces; ten were submitted in the same second.
async fn filled() -> Database {
    let database = Database::migrated().await;
    let runs: Vec<_> = (0..40_i64)
        .map(|index| {
            let namespace = ["lab", "speech", "vision"][usize::try_from(index % 3).unwrap()];
            ended_run(namespace, &format!("run-{index}"), "research", 1_000 + index.max(10))
        })
        .collect();
    let ledger = database.ledger();
    ledger.archive(&runs).await.unwrap();
    ledger.archive(&runs[..5]).await.unwrap();
    database
}

/// The places of a query's pages of three, as lists give them.
async fn pages(reader: &Reader, scope: &Scope, query: ArchiveQuery) -> Vec<(i64, String, String)> {
    let mut query = ArchiveQuery { limit: 3, ..query };
    let mut all = Vec::new();
    loop {
        let page = reader.archived_runs(scope, &query).await.unwrap();
        assert!(page.len() <= 3);
        let text = |run: &serde_json::Value, key: &str| run[key].as_str().unwrap().to_owned();
        all.extend(
            page.iter()
                .map(|run| (run["created"].as_i64().unwrap(), text(run, "namespace"), text(run, "name"))),
        );
        if page.len() < 3 {
            return all;
        }
        let (created_second, namespace, name) = all.last().cloned().unwrap();
        query.after = Some(Place { created_second, namespace, name });
    }
}

#[tokio::test]
async fn pages_hold_every_run_of_the_scope_once_newest_first() {
    let database = filled().await;
    let reader = database.reader();
    let all = pages(&reader, &Scope::Everything, ArchiveQuery::default()).await;
    assert_eq!(all.len(), 40, "the same run twice is one row");
    let mut sorted = all.clone();
    sorted.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.1, &a.2).cmp(&(&b.1, &b.2))));
    sorted.dedup();
    assert_eq!(all, sorted);

    let two = vec!["vision".to_owned(), "lab".to_owned()];
    let of_two: Vec<_> = all.iter().filter(|run| two.contains(&run.1)).cloned().collect();
    let query = ArchiveQuery { namespaces: Some(two.clone()), ..ArchiveQuery::default() };
    assert_eq!(pages(&reader, &Scope::Everything, query.clone()).await, of_two);
    assert_eq!(pages(&reader, &Scope::Namespaces(two), ArchiveQuery::default()).await, of_two);

    // The scope limits what is asked for, too.
    let lab = Scope::Namespaces(vec!["lab".to_owned()]);
    let of_lab: Vec<_> = all.iter().filter(|run| run.1 == "lab").cloned().collect();
    assert_eq!(pages(&reader, &lab, query).await, of_lab);
}

#[tokio::test]
async fn every_filter_leaves_what_it_names() {
    let database = filled().await;
    let reader = database.reader();
    let names = |query: ArchiveQuery| async { pages(&reader, &Scope::Everything, query).await };
    let failed = names(ArchiveQuery { phase: Some("Failed".to_owned()), ..ArchiveQuery::default() }).await;
    assert_eq!(failed.len(), 15);
    assert!(failed.iter().all(|run| run.0 % 2 == 1));
    let by_user = ArchiveQuery { user: Some("user-of-lab".to_owned()), ..ArchiveQuery::default() };
    assert!(names(by_user).await.iter().all(|run| run.1 == "lab"));
    let found = names(ArchiveQuery { search: Some("un-39".to_owned()), ..ArchiveQuery::default() }).await;
    assert_eq!(found.len(), 1);
    let other = ArchiveQuery { queue: Some("other".to_owned()), ..ArchiveQuery::default() };
    assert_eq!(names(other).await, []);
}

#[tokio::test]
async fn one_run_and_the_namespaces_are_found() {
    let database = filled().await;
    let (ledger, reader) = (database.ledger(), database.reader());
    ledger.archive(&[ended_run("lab", "run-0", "research", 5_000)]).await.unwrap();
    let lab = Scope::Namespaces(vec!["lab".to_owned()]);
    let newest = reader.archived_run(&lab, "lab", "run-0").await.unwrap();
    assert_eq!(newest.expect("it is there")["created"], 5_000);
    assert_eq!(reader.archived_run(&lab, "vision", "run-2").await.unwrap(), None, "another tenant's");
    assert_eq!(reader.archived_namespaces(&Scope::Everything).await.unwrap(), ["lab", "speech", "vision"]);
    assert_eq!(reader.archived_namespaces(&lab).await.unwrap(), ["lab"]);
}
