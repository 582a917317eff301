//! Migrations run once, whoever asks and how often.

use futures::future::join_all;

use crate::support::Database;

#[tokio::test]
async fn migrations_twice_are_migrations_once() {
    let database = Database::migrated().await;
    let schema =
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'";
    let superuser = database.superuser();
    let before = superuser.rows(schema).await;
    store::migrate(&database.urls.owner).await.unwrap();
    assert_eq!(superuser.rows(schema).await, before);
    assert_eq!(superuser.number("SELECT count(*) FROM _sqlx_migrations WHERE success").await, 5);
}

#[tokio::test]
async fn four_replicas_migrate_at_once_and_all_succeed() {
    let database = Database::empty().await;
    let migrated = join_all((0..4).map(|_| store::migrate(&database.urls.owner))).await;
    for result in migrated {
        result.unwrap();
    }
    assert_eq!(database.superuser().number("SELECT count(*) FROM _sqlx_migrations WHERE success").await, 5);
    database.ledger().last_alive().await.unwrap();
}

/// As it was before there were lost lines, with a partition that was made then.
const BEFORE_LOST: &str = "
    ALTER TABLE ledger_line DROP CONSTRAINT ledger_line_class_check;
    ALTER TABLE ledger_line ADD CONSTRAINT ledger_line_class_check
        CHECK (class IN ('Productive', 'Starting', 'NodeIdle'));
    ALTER TABLE pod_usage DROP COLUMN lost_from;
    DROP INDEX pod_usage_of_attempt;
    DELETE FROM _sqlx_migrations WHERE version = 5;
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
    assert_eq!((rules("Lost").await, rules("NodeIdle").await), (2, 2), "of the whole and of its partition");
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
