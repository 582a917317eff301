//! Migrations run once, however often they are asked for, and by how many processes.

use costing::PodRecord;
use futures::future::join_all;
use store::Batch;

use crate::model::{assert_sums_are_those_of_lines, post_all};
use crate::support::{Database, after, ended, node, node_price, pod, today};

#[tokio::test]
async fn migrations_twice_are_migrations_once() {
    let database = Database::migrated().await;
    let schema =
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'";
    let superuser = database.superuser();
    let before = superuser.rows(schema).await;
    store::migrate(&database.urls.owner).await.unwrap();
    assert_eq!(superuser.rows(schema).await, before);
    assert_eq!(superuser.number("SELECT count(*) FROM _sqlx_migrations WHERE success").await, 7);
}

#[tokio::test]
async fn four_replicas_migrate_at_once_and_all_succeed() {
    let database = Database::empty().await;
    let migrated = join_all((0..4).map(|_| store::migrate(&database.urls.owner))).await;
    for result in migrated {
        result.unwrap();
    }
    assert_eq!(database.superuser().number("SELECT count(*) FROM _sqlx_migrations WHERE success").await, 7);
    database.ledger().last_alive().await.unwrap();
}

/// The schema before lost lines, purchases and archived runs, with a partition from that time.
const BEFORE_LOST: &str = "
    ALTER TABLE ledger_line DROP CONSTRAINT ledger_line_class_check;
    ALTER TABLE ledger_line ADD CONSTRAINT ledger_line_class_check
        CHECK (class IN ('Productive', 'Starting', 'NodeIdle'));
    ALTER TABLE pod_usage DROP COLUMN lost_from;
    DROP INDEX pod_usage_of_attempt;
    ALTER TABLE node_usage DROP COLUMN bought;
    ALTER TABLE ledger_line DROP COLUMN saved_rate;
    ALTER TABLE open_usage DROP COLUMN saved_rate;
    ALTER TABLE open_usage DROP COLUMN of_interruption;
    ALTER TABLE daily_spend DROP COLUMN saved;
    ALTER TABLE daily_spend DROP COLUMN interruptions;
    ALTER TABLE run_spend DROP COLUMN saved;
    ALTER TABLE run_spend DROP COLUMN interruptions;
    DROP TABLE archived_run;
    DELETE FROM _sqlx_migrations WHERE version >= 5;
    SELECT ensure_ledger_partition(CURRENT_DATE);";

#[tokio::test]
async fn partitions_of_old_take_lines_of_a_new_class() {
    let database = Database::migrated().await;
    let superuser = database.superuser();
    for statement in BEFORE_LOST.split(';').filter(|statement| !statement.trim().is_empty()) {
        superuser.run(statement).await.unwrap();
    }
    let rules = async |word: &str| {
        let rules = "pg_constraint WHERE conname = 'ledger_line_class_check' AND pg_get_constraintdef(oid)";
        superuser.number(&format!("SELECT count(*) FROM {rules} LIKE '%{word}%'")).await
    };
    assert_eq!((rules("Lost").await, rules("NodeIdle").await), (0, 2));
    store::migrate(&database.urls.owner).await.unwrap();
    for class in ["Lost", "NodeStarting", "NodeIdle"] {
        assert_eq!(rules(class).await, 2, "{class}: of the whole and of its partition");
    }
}

#[tokio::test]
async fn what_interruptions_cost_before_it_was_summed_is_summed() {
    let database = Database::migrated().await;
    let (ledger, superuser, start) = (database.ledger(), database.superuser(), today().start());
    let of = |uid: &str, attempt: u32, from: i64| {
        let pod = pod(uid, "n1", "vision", "prod", after(start, from));
        let pod = PodRecord { run: Some("train".to_owned()), attempt: Some(attempt), ..pod };
        ended(&pod, after(start, from + 10), after(start, from + 90))
    };
    let first = PodRecord { lost_from: Some(after(start, 50)), ..of("a", 1, 0) };
    let pods = vec![first, of("b", 2, 100), pod("c", "n1", "vision", "prod", after(start, 5))];
    ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap();
    ledger.record(&Batch { pods, nodes: vec![node("n1", start)] }).await.unwrap();
    post_all(&ledger, after(start, 400)).await;
    let sums = async || {
        let daily = superuser.rows("SELECT class, interruptions FROM daily_spend").await;
        let runs = superuser.rows("SELECT run, attempt, class, interruptions FROM run_spend").await;
        (daily, runs, superuser.rows("SELECT class, of_interruption FROM open_usage").await)
    };
    let before = sums().await;
    for statement in [
        "UPDATE daily_spend SET interruptions = 0",
        "UPDATE run_spend SET interruptions = 0",
        "UPDATE open_usage SET of_interruption = false",
    ] {
        superuser.run(statement).await.unwrap();
    }
    assert_ne!(sums().await, before);
    for statement in
        BEFORE_LOST.split(';').filter(|it| it.contains("DROP COLUMN") && !it.contains("lost_from"))
    {
        superuser.run(statement).await.unwrap();
    }
    superuser.run("DELETE FROM _sqlx_migrations WHERE version = 6").await.unwrap();
    store::migrate(&database.urls.owner).await.unwrap();
    assert_eq!(sums().await, before);
    assert_sums_are_those_of_lines(&superuser).await;
}

#[tokio::test]
async fn a_ledger_without_its_schema_says_that_it_was_refused() {
    let database = Database::empty().await;
    let error = database.ledger().last_alive().await.unwrap_err();
    assert!(!error.is_unavailable(), "{error:?}");
}

#[tokio::test]
async fn an_address_that_cannot_be_read_is_not_repeated() {
    let error = store::Ledger::open("postgres//warpyard:secret@host", "test").unwrap_err();
    assert!(!format!("{error:?} {error}").contains("secret"), "{error:?}");
}
