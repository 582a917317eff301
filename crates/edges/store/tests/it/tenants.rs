//! A tenant sees its own rows, also through a query without a WHERE.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use store::Batch;

use crate::archive::ended_run;
use crate::model::post_all;
use crate::support::{Database, Pool, after, ended, node, node_price, pod, pool, today};

const NAMESPACES: [&str; 4] = ["vision", "speech", "robots", "lab"];
/// The table in which a queue shows nothing.
const ARCHIVE: &str = "archived_run";
const QUEUES: [&str; 3] = ["research", "prod", "free"];
/// All tables with a column that names a tenant, partitions included.
const TENANT_TABLES: &str = "
    SELECT c.oid, c.relname::text AS name, c.relkind::text AS kind, c.relrowsecurity AND c.relforcerowsecurity AS forced
    FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND EXISTS (SELECT FROM pg_attribute a
                  WHERE a.attrelid = c.oid AND a.attname IN ('namespace', 'queue') AND NOT a.attisdropped)";

#[tokio::test]
async fn every_tenant_table_forces_row_level_security() {
    let database = Database::migrated().await;
    database.ledger().roll(today()).await.unwrap();
    let superuser = database.superuser();
    let tables = superuser.rows(&format!("SELECT name FROM ({TENANT_TABLES}) AS t")).await;
    // Seven tables and the partitions of two months.
    assert_eq!(tables.len(), 9, "{tables:?}");
    let open = superuser.rows(&format!("SELECT name FROM ({TENANT_TABLES}) AS t WHERE NOT forced")).await;
    assert_eq!(open, Vec::<String>::new(), "without forced row-level security");
    // A view reads with its owner's rights unless told otherwise, so there is none.
    let views = superuser
        .rows(&format!("SELECT name FROM ({TENANT_TABLES}) AS t WHERE kind NOT IN ('r', 'p')"))
        .await;
    assert_eq!(views, Vec::<String>::new());
    let bypass =
        "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'warpyard%' AND (rolbypassrls OR rolsuper)";
    assert_eq!(superuser.number(bypass).await, 0);
}

#[test]
fn a_query_without_a_where_returns_only_rows_of_the_scope() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (database, superuser, reader) = runtime.block_on(async {
        let database = Database::migrated().await;
        fill(&database).await;
        let (superuser, reader) = (database.superuser(), pool(&database.urls.reader));
        (database, superuser, reader)
    });
    let names = |all: &'static [&'static str]| prop::sample::subsequence(all, 0..=all.len());
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(names(&NAMESPACES), names(&QUEUES)), |(namespaces, queues)| {
            runtime.block_on(check_scope(&superuser, &reader, &namespaces, &queues));
            Ok(())
        })
        .unwrap();
    drop(database);
}

#[tokio::test]
async fn a_scope_ends_with_its_transaction() {
    let database = Database::migrated().await;
    fill(&database).await;
    let mut connection = pool(&database.urls.reader).acquire().await.unwrap().detach();
    let count = "SELECT count(*) FROM ledger_line";
    for (setting, value) in [("everything", "yes".to_owned()), ("namespaces", json!(["vision"]).to_string())]
    {
        let none: i64 = sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap();
        assert_eq!(none, 0, "nothing set, nothing seen");
        sqlx::query("BEGIN").execute(&mut connection).await.unwrap();
        sqlx::query("SELECT set_config($1, $2, true)")
            .bind(format!("warpyard.{setting}"))
            .bind(value)
            .execute(&mut connection)
            .await
            .unwrap();
        let some: i64 = sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap();
        assert!(some > 0, "{setting}");
        sqlx::query("COMMIT").execute(&mut connection).await.unwrap();
    }
    let none: i64 = sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap();
    assert_eq!(none, 0, "nothing is left of a scope");
}

#[tokio::test]
async fn the_reader_can_neither_write_nor_step_out_of_the_policies() {
    let database = Database::migrated().await;
    fill(&database).await;
    let reader = pool(&database.urls.reader);
    for statement in [
        "INSERT INTO daily_spend SELECT * FROM daily_spend",
        "UPDATE daily_spend SET amount = 0",
        "DELETE FROM open_usage",
        "TRUNCATE run_spend",
        "INSERT INTO price_version VALUES ('test', 9, 'EUR')",
        "SELECT * FROM pod_usage",
        "SELECT * FROM usage_event",
        "SELECT * FROM account",
        "SET ROLE warpyard_meter",
        "SET ROLE warpyard_owner",
        "SET SESSION AUTHORIZATION warpyard_owner",
        "ALTER TABLE daily_spend DISABLE ROW LEVEL SECURITY",
        "DROP POLICY reader ON daily_spend",
        "CREATE TABLE mine (x int)",
        "CREATE TEMPORARY TABLE mine (x int)",
        "CREATE FUNCTION everything_visible() RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    ] {
        assert!(reader.run(statement).await.is_err(), "{statement}");
    }
    let mut connection = reader.acquire().await.unwrap();
    sqlx::query("SET row_security = off").execute(&mut *connection).await.unwrap();
    for table in [ARCHIVE, "ledger_line", "open_usage", "daily_spend", "run_spend"] {
        let sql = format!("SELECT * FROM {table}");
        let refused = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut *connection).await;
        assert!(refused.is_err(), "{table} without row-level security");
    }
}

#[tokio::test]
async fn the_owner_sees_no_row_either() {
    let database = Database::migrated().await;
    fill(&database).await;
    let owner = pool(&database.urls.owner);
    for table in readable_and_other_tables(&database.superuser()).await {
        assert_eq!(owner.number(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
}

/// The reader gets from each tenant table the rows that a WHERE would have left, or nothing of it at all.
async fn check_scope(superuser: &Pool, reader: &Pool, namespaces: &[&str], queues: &[&str]) {
    let mut read = 0;
    for table in readable_and_other_tables(superuser).await {
        let mut transaction = reader.begin().await.unwrap();
        sqlx::query(
            "SELECT set_config('warpyard.namespaces', $1, true), set_config('warpyard.queues', $2, true)",
        )
        .bind(json!(namespaces).to_string())
        .bind(json!(queues).to_string())
        .execute(&mut *transaction)
        .await
        .unwrap();
        let sql = format!("SELECT to_jsonb(t) FROM {table} t");
        let rows: Result<Vec<Value>, _> =
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut *transaction).await;
        let Ok(rows) = rows else { continue };
        read += 1;
        for row in &rows {
            let names =
                |column: &str, of: &[&str]| row[column].as_str().is_some_and(|name| of.contains(&name));
            let by_queue = table != ARCHIVE && names("queue", queues);
            assert!(names("namespace", namespaces) || by_queue, "{table}: {row}");
        }
        let by_queue = if table == ARCHIVE { "cardinality($2::text[]) < 0" } else { "queue = ANY($2)" };
        let expected: i64 = sqlx::query_scalar(AssertSqlSafe(format!(
            "SELECT count(*) FROM {table} WHERE namespace = ANY($1) OR {by_queue}"
        )))
        .bind(namespaces)
        .bind(queues)
        .fetch_one(&**superuser)
        .await
        .unwrap();
        assert_eq!(i64::try_from(rows.len()).unwrap(), expected, "{table}");
    }
    assert_eq!(
        read, 5,
        "archived_run, ledger_line, open_usage, daily_spend and run_spend can be read, and nothing else"
    );
}

async fn readable_and_other_tables(superuser: &Pool) -> Vec<String> {
    let sql = format!("SELECT name FROM ({TENANT_TABLES}) AS t ORDER BY 1");
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&**superuser).await.unwrap()
}

/// Runs of every namespace and queue, ended and running, over two days.
async fn fill(database: &Database) {
    let ledger = database.ledger();
    let start = costing::Day(today().0 - 1).start();
    ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap();
    let mut archived = Vec::new();
    let mut batch = Batch { pods: vec![], nodes: vec![node("n1", start), node("n2", start)] };
    for (index, namespace) in NAMESPACES.iter().enumerate() {
        for (offset, queue) in QUEUES.iter().enumerate() {
            let uid = format!("{namespace}-{queue}");
            let at = after(start, i64::try_from(100 * index + offset).unwrap());
            let running = pod(&uid, if offset == 0 { "n1" } else { "n2" }, namespace, queue, at);
            let done =
                ended(&pod(&format!("{uid}-done"), "n1", namespace, queue, at), after(at, 5), after(at, 50));
            batch.pods.extend([running, done]);
            archived.push(ended_run(namespace, &uid, queue, at.0));
        }
    }
    ledger.record(&batch).await.unwrap();
    ledger.archive(&archived).await.unwrap();
    post_all(&ledger, after(start, 90_000)).await;
}
