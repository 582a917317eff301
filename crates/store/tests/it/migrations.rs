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
    assert_eq!(superuser.number("SELECT count(*) FROM _sqlx_migrations WHERE success").await, 4);
}

#[tokio::test]
async fn four_replicas_migrate_at_once_and_all_succeed() {
    let database = Database::empty().await;
    let migrated = join_all((0..4).map(|_| store::migrate(&database.urls.owner))).await;
    for result in migrated {
        result.unwrap();
    }
    assert_eq!(database.superuser().number("SELECT count(*) FROM _sqlx_migrations WHERE success").await, 4);
    database.ledger().last_alive().await.unwrap();
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
